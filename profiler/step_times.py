"""The seam to what tells where the time of a run goes: a runtime's own profile, or timed steps.

Needs onnx.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import onnx
import onnxruntime

from profiler.engine import RUNTIME_ERRORS, EngineOptions, OnnxRuntimeEngine, OnnxRuntimeSession
from profiler.engines import make_torch_engine
from profiler.kernels import Kernel, read_kernels
from profiler.measurement_notes import provider_notes
from profiler.peak_memory import measure_peak_memory
from profiler.providers import CPU
from profiler.timing import middle_mean, summarise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profiler.engine import Engine
    from profiler.torch_engine import TorchSession

    Feeds = Mapping[str, NDArray[Any]]

__all__ = ["OnnxRuntimeStepTimes", "ProfiledRuns", "StepTimes", "TorchStepTimes", "step_times"]


class ProfiledRuns(Protocol):
    """A model whose runs are taken apart."""

    def run(self, feeds: Feeds) -> object:
        """Run the model once."""

    def finish(self, warm_up: int) -> list[Kernel]:
        """Free the model and return what each kernel took, without the first runs."""


class StepTimes(Protocol):
    """Takes the runs of one engine apart.

    Attributes:
        provider: What computes, such as ``CPUExecutionProvider`` or ``cuda``.
    """

    provider: str

    @property
    def engine(self) -> Engine:
        """The engine without any profile, whose runs say how long a model really takes."""

    def load(self, model: Path, folder: Path) -> ProfiledRuns:
        """Load a model for runs with a profile, which may be written into a folder."""

    def optimised(self, model: Path, folder: Path) -> onnx.GraphProto:
        """Return the graph that really runs; empty where kernels are nodes of the model itself."""

    def peak_memory(self, model: Path, feeds: Feeds) -> int | None:
        """Return the bytes that the model adds to a process; None where it is not known."""

    def notes(self, kernels: Sequence[Kernel]) -> Iterator[str]:
        """Say what a reader of the profile should know of this engine."""


def step_times(runtime: str, options: EngineOptions) -> StepTimes:
    """Return what takes an engine's runs apart.

    Args:
        runtime: One of :data:`profiler.engines.ENGINES`.
        options: How it runs; of these, torch knows threads and provider.

    Raises:
        EngineError: There is no such provider, or PyTorch is not installed.
    """
    return TorchStepTimes(options) if runtime == "torch" else OnnxRuntimeStepTimes(options)


class OnnxRuntimeStepTimes:
    """Reads the profile that ONNX Runtime writes."""

    def __init__(self, options: EngineOptions) -> None:
        self.engine = OnnxRuntimeEngine(replace(options, profile_prefix=None))
        self.provider = self.engine.options.provider

    def load(self, model: Path, folder: Path) -> ProfiledRuns:
        """Load a model; see :meth:`StepTimes.load`."""
        profiling = replace(self.engine.options, profile_prefix=folder / "profile")
        return _ProfileFile(OnnxRuntimeEngine(profiling).load(model))

    def optimised(self, model: Path, folder: Path) -> onnx.GraphProto:
        """The graph as the runtime writes it; empty where it cannot.

        It cannot where a provider compiles nodes into something of its own.
        """
        session_options = onnxruntime.SessionOptions()
        session_options.optimized_model_filepath = str(folder / "optimised.onnx")
        session_options.intra_op_num_threads = 1
        # It warns that the written graph fits this machine only, which is all we want of it.
        session_options.log_severity_level = 4
        session_options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", "optimised.bin"
        )
        try:
            onnxruntime.InferenceSession(str(model), session_options, providers=[self.provider])
        except RUNTIME_ERRORS:
            return onnx.GraphProto()
        return onnx.load(folder / "optimised.onnx", load_external_data=False).graph

    def peak_memory(self, model: Path, feeds: Feeds) -> int | None:
        """Measure in a process of its own; see :meth:`StepTimes.peak_memory`."""
        return measure_peak_memory(model, feeds, self.engine.options)

    def notes(self, kernels: Sequence[Kernel]) -> Iterator[str]:
        """Whether the provider ran the model at all; see :meth:`StepTimes.notes`."""
        return provider_notes(self.provider, kernels)


class _ProfileFile:
    """Runs whose profile is a file, closed with the session."""

    def __init__(self, session: OnnxRuntimeSession) -> None:
        self._session = session

    def run(self, feeds: Feeds) -> object:
        return self._session.run(feeds)

    def finish(self, warm_up: int) -> list[Kernel]:
        events: list[dict[str, Any]] = json.loads(self._session.end_profile().read_text())
        self._session.close()
        return read_kernels(events, warm_up)


class TorchStepTimes:
    """Times the steps of the torch engine, which are nodes of the model itself."""

    def __init__(self, options: EngineOptions) -> None:
        device = "cpu" if options.provider == CPU else options.provider
        self._torch = make_torch_engine(options.threads, device)
        self.provider = device

    @property
    def engine(self) -> Engine:
        """The engine; see :attr:`StepTimes.engine`."""
        return self._torch

    def load(self, model: Path, folder: Path) -> ProfiledRuns:  # noqa: ARG002  # nothing is written
        """Load a model; see :meth:`StepTimes.load`."""
        return _TimedSteps(self._torch.load(model))

    def optimised(self, model: Path, folder: Path) -> onnx.GraphProto:  # noqa: ARG002
        """Nothing: no node is fused or renamed."""
        return onnx.GraphProto()

    def peak_memory(self, model: Path, feeds: Feeds) -> int | None:  # noqa: ARG002
        """Not known: importing torch alone takes more than most models."""
        return None

    def notes(self, kernels: Sequence[Kernel]) -> Iterator[str]:  # noqa: ARG002
        """See :meth:`StepTimes.notes`."""
        if self.provider != "cpu":
            yield "Each step was waited for in profiled runs, which plain runs do not do."
        yield "Peak memory is not known: it is measured of ONNX Runtime only."


class _TimedSteps:
    """Runs whose steps are timed one by one."""

    def __init__(self, session: TorchSession) -> None:
        self._session = session
        self._series: dict[tuple[str, str], list[float]] = {}

    def run(self, feeds: Feeds) -> object:
        for step in self._session.time_steps(feeds):
            self._series.setdefault((step.name, step.operator), []).append(step.ms)
        return None

    def finish(self, warm_up: int) -> list[Kernel]:
        self._session.close()
        return [
            Kernel(name, operator, middle_mean(counted), summarise(counted).spread_ms)
            for (name, operator), times_ms in self._series.items()
            if (counted := times_ms[warm_up:])
        ]
