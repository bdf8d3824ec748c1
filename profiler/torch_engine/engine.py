"""The engine and its sessions; see :mod:`profiler.engine` for what they promise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from profiler.engine import RunStop, check_feeds
from profiler.errors import EngineError, ModelError
from profiler.torch_engine.compiling import Compiler
from profiler.torch_engine.program import Program, Step
from profiler.torch_engine.reading import read_for_torch, read_weight, slots_of, standard_opset
from protocol.text import did_you_mean, one_line

__all__ = ["StepTime", "TorchEngine", "TorchSession"]

_DEVICES = ("cpu", "cuda")
_LISTED = 8  # unsupported operators in one message
_LONGEST_NAME = 100


@dataclass(frozen=True)
class StepTime:
    """What one node took in one run.

    Attributes:
        name: The node's.
        operator: Its type.
        ms: Its time, bodies included.
    """

    name: str
    operator: str
    ms: float


class TorchEngine:
    """Runs models with PyTorch, operator by operator, in full single precision.

    Args:
        threads: Threads inside one operator.
        device: ``cpu`` or ``cuda``.

    Raises:
        EngineError: There is no such device.
    """

    name = "torch"
    version: str = torch.__version__

    def __init__(self, threads: int, device: str = "cpu") -> None:
        if threads < 1:
            raise EngineError(f"threads is {threads}; give 1 or more")
        if device not in _DEVICES:
            raise EngineError(
                f"the torch engine has no provider {device!r}{did_you_mean(device, _DEVICES)} "
                f"(available: {', '.join(_DEVICES)})"
            )
        if device == "cuda" and not torch.cuda.is_available():
            raise EngineError(
                f"torch {torch.__version__} finds no CUDA device here; use --provider cpu, "
                "or install a build of torch that fits the driver"
            )
        self.threads = threads
        self.device = device
        # TensorFloat-32 keeps ten bits of a factor: results would not be those of the model.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False

    def load(self, path: Path) -> TorchSession:
        """Load the model at ``path``; see ``Engine.load``.

        Raises:
            EngineError: Also if the model needs what this engine lacks, naming all of it.
        """
        if not path.is_file():
            raise EngineError(f"no model file {os.fspath(path)!r}")
        try:
            proto = read_for_torch(path)
            opset = standard_opset(proto)
            compiler = Compiler(opset, torch.device(self.device), partial(read_weight, path))
            with torch.inference_mode():
                program = compiler.compile(proto.graph)
        except (EngineError, ModelError) as error:
            raise EngineError(f"torch cannot load {path.name}: {one_line(str(error))}") from error
        except (KeyError, IndexError, ValueError, TypeError, RuntimeError) as error:
            raise EngineError(
                f"torch cannot load {path.name}: it is not valid ONNX ({one_line(str(error))})"
            ) from error
        if compiler.problems:
            raise EngineError(_refusal(path, opset, compiler.problems))
        return TorchSession(proto.graph, program, self)


def _refusal(path: Path, opset: int, problems: Mapping[str, str]) -> str:
    listed = [
        f"{one_line(what, _LONGEST_NAME)} (node {one_line(where, _LONGEST_NAME)!r})"
        for what, where in problems.items()
    ]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return (
        f"the torch engine cannot run {path.name} (opset {opset}): it has no "
        f"{', '.join(listed[:_LISTED])}{more}; use --engine onnxruntime"
    )


class TorchSession:
    """A model loaded by :class:`TorchEngine`."""

    def __init__(self, graph: onnx.GraphProto, program: Program, engine: TorchEngine) -> None:
        weights = {tensor.name for tensor in graph.initializer}
        self.inputs = slots_of([value for value in graph.input if value.name not in weights])
        self.outputs = slots_of(list(graph.output))
        self._program: Program | None = program
        self._engine = engine

    def run(
        self, feeds: Mapping[str, NDArray[Any]], stop: RunStop | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run the model once; see ``StoppableSession.run``."""

        def look(_step: Step) -> None:
            if stop is not None and stop.stopped:
                raise EngineError("the run was stopped")

        return self._run(feeds, look)

    def time_steps(self, feeds: Mapping[str, NDArray[Any]]) -> list[StepTime]:
        """Run the model once and return what each of its nodes took, in their order.

        On an accelerator each step is waited for, so their sum is more than a plain run takes.
        """
        marks: list[tuple[Step | None, float]] = []
        steps = set(self._open().steps)

        def look(step: Step) -> None:
            if step in steps:  # those in bodies are part of their control-flow node
                marks.append((step, self._now()))

        self._run(feeds, look, lambda: marks.append((None, self._now())))
        return [
            StepTime(step.name, step.operator, (end - begin) * 1e3)
            for (step, begin), (_, end) in pairwise(marks)
            if step is not None
        ]

    def _now(self) -> float:
        if self._engine.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _open(self) -> Program:
        if self._program is None:
            raise EngineError("the session is closed")
        return self._program

    def _run(
        self,
        feeds: Mapping[str, NDArray[Any]],
        look: Callable[[Step], None],
        end: Callable[[], None] = lambda: None,
    ) -> dict[str, NDArray[Any]]:
        program = self._open()
        check_feeds(self.inputs, feeds)
        if torch.get_num_threads() != self._engine.threads:  # one number for the whole process
            torch.set_num_threads(self._engine.threads)
        with torch.inference_mode():
            tensors = [_tensor(feeds[slot.name]) for slot in self.inputs]
            results = program.run(tensors, look)
            end()
            # Copies: results may be feeds or weights that were handed through.
            arrays = [np.array(result.numpy(force=True), order="C") for result in results]
        return {slot.name: array for slot, array in zip(self.outputs, arrays, strict=True)}

    def close(self) -> None:
        """Free the model; see ``Session.close``."""
        self._program = None


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    """A tensor over the array's memory, which nothing writes to."""
    # torch warns of memory that may not be written, and takes no negative strides.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)
