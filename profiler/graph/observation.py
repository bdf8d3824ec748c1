"""What a real run shows: fused units, dtypes, shapes, encoded sizes. Needs onnx and scipy."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from profiler.errors import EngineError
from profiler.graph import trial
from profiler.graph.dependence import shapes_by_value
from profiler.graph.feeds import Feeds, resolve_feeds
from profiler.graph.fusion import units_of
from profiler.graph.graph import Graph, Unit
from profiler.graph.weights import StoredModel
from profiler.values import TensorSlot
from protocol.text import one_line

_REASON_CHARACTERS = 300
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class ObservedTensor:
    """One tensor as it was seen.

    Attributes:
        slot: Name, dtype and shape. Axes are free that changed between the runs, and those of a
            shape that depends on values unless the runtime infers them.
        shape: The shape in the first run.
        encoded_bytes: Size under each codec that was tried, for tensors that may cross a cut.
        sendable: Whether it is a tensor of a dtype that can be sent; sequences, optionals, strings
            and exotic floats are not.
    """

    slot: TensorSlot
    shape: tuple[int, ...]
    encoded_bytes: Mapping[str, int] = field(default_factory=dict)
    sendable: bool = True

    @cached_property
    def raw_bytes(self) -> int:
        """Bytes of the tensor as it lies in memory; 0 if it cannot be sent."""
        if not self.sendable:
            return 0
        return math.prod(self.shape) * np.dtype(self.slot.dtype).itemsize


@dataclass(frozen=True)
class Observation:
    """What was seen in a run of the whole model.

    Attributes:
        units: What must not be torn apart, in topological order.
        tensors: Every graph input and every output of a node.
        feeds: The inputs that were fed.
    """

    units: tuple[Unit, ...]
    tensors: Mapping[str, ObservedTensor]
    feeds: Feeds


def observe(stored: StoredModel, feeds: Feeds, codecs: Sequence[str] = ()) -> Observation:
    """Run a stored model twice in a process of its own and return what was seen.

    The second run has other values, and other lengths along free axes, so that axes that vary are
    seen to vary.

    Args:
        stored: The model on disk.
        feeds: One array per model input, see :func:`profiler.graph.feeds.resolve_feeds`.
        codecs: Names of the codecs whose encoded sizes are wanted.

    Raises:
        EngineError: ONNX Runtime refuses the model, or crashes on it.
    """
    graph = stored.loaded.graph
    with tempfile.TemporaryDirectory(prefix="headtail-") as name:
        scratch = Path(name)
        trial.write_job(scratch, feeds, _other_feeds(graph, feeds), codecs)
        process = subprocess.run(
            [sys.executable, "-m", "profiler.graph.trial", str(stored.full.resolve()), name],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        result = _read_result(scratch)
    if process.returncode and result.get("step") != "second run":
        raise EngineError(_failure(stored, process, result))
    units = units_of(graph, result["units"])
    return Observation(units, _tensors(graph, result), feeds)


def _read_result(scratch: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads((scratch / trial.RESULT_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return result


def _other_feeds(graph: Graph, feeds: Feeds) -> Feeds:
    """Other values of the same dtypes, with free axes twice as long."""
    shapes = {
        slot.name: tuple(
            size if axis is not None else (size * 2 or 2)
            for axis, size in zip(slot.shape, feeds[slot.name].shape, strict=True)
        )
        for slot in graph.inputs
    }
    noise = resolve_feeds(graph.inputs, {}, shapes)
    # Whole numbers are often indices, lengths or rates: those that were given are known to work.
    return {
        name: array
        if array.dtype.kind == "f"
        else np.resize(feeds[name], array.shape).astype(array.dtype)
        for name, array in noise.items()
    }


def _failure(
    stored: StoredModel, process: subprocess.CompletedProcess[str], result: Mapping[str, Any]
) -> str:
    model = stored.loaded.path
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return f"{model}: ONNX Runtime crashed on this model ({name} at step {result.get('step')})"
    lines = [line for line in process.stderr.splitlines() if line.strip()]
    reason = lines[-1].strip() if lines else f"exit code {process.returncode}"
    # Past the runtime's own prefixes, and past the path of our copy of the model.
    reason = re.sub(r"^.*?\[ONNXRuntimeError\] : \d+ : \w+ : ", "", reason)
    reason = re.sub(r"^Load model from .*? failed:", "", reason).replace(str(stored.folder), "")
    return f"{model}: ONNX Runtime cannot run this model: {one_line(reason, _REASON_CHARACTERS)}"


def _tensors(graph: Graph, result: Mapping[str, Any]) -> dict[str, ObservedTensor]:
    varies = any(None in slot.shape for slot in graph.inputs)
    second = result.get("second_shapes")
    by_value = shapes_by_value(graph)
    tensors: dict[str, ObservedTensor] = {}
    for name, seen in result["tensors"].items():
        if seen["shape"] is None:
            slot = TensorSlot(name, seen["dtype"], ())
            tensors[name] = ObservedTensor(slot, (), sendable=False)
            continue
        shape = tuple(seen["shape"])
        other = second.get(name) if second else ([None] * len(shape) if varies else shape)
        free = _free_axes(shape, other)
        if name in by_value:
            # That both runs agree is chance; what the runtime infers from the operators is not.
            free = _free_axes(free, result["inferred_shapes"][name])
        slot = TensorSlot(name, seen["dtype"], free)
        tensors[name] = ObservedTensor(slot, shape, seen["encoded_bytes"])
    for slot in graph.inputs:
        seen_input = tensors[slot.name]
        tensors[slot.name] = ObservedTensor(slot, seen_input.shape, seen_input.encoded_bytes)
    return tensors


def _free_axes(
    shape: tuple[int | None, ...], other: Sequence[int | None] | None
) -> tuple[int | None, ...]:
    if other is None or len(other) != len(shape):
        return (None,) * len(shape)
    return tuple(size if size == again else None for size, again in zip(shape, other, strict=True))
