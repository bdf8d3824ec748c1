"""The seam to what runs a model: ONNX Runtime here, fakes in tests.

Light: standard library, numpy and onnxruntime only.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state

from profiler.errors import EngineError, FeedError, RejectedError
from profiler.providers import CPU, provider_name
from profiler.values import TensorSlot
from protocol.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "RUNTIME_ERRORS",
    "Engine",
    "EngineOptions",
    "OnnxRuntimeEngine",
    "OnnxRuntimeSession",
    "RunStop",
    "Session",
    "StoppableEngine",
    "StoppableSession",
]

_FATAL = 4  # ONNX Runtime repeats on stderr what it also raises; we print each error once.
_NUMPY_NAMES = {
    "bool": "bool",
    "double": "float64",
    "float": "float32",
    "float16": "float16",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
# The runtime's own exceptions have no common base class but Exception.
RUNTIME_ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    TypeError,
    ValueError,
    *(
        kind
        for kind in vars(onnxruntime_pybind11_state).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ),
)
# What an operator says of its inputs; the last one found is the innermost, in the body of a loop.
_STATUS = re.compile(
    r".*Non-zero status code returned while running (\S+) node\. Name:'(.*?)' Status Message: (.*)"
)
# Where in the runtime's sources it was said: the place, and the signature of the function.
_PLACE = re.compile(r"/\S+\.\w+:\d+ .*?\)(?: const)?(?: \[.*?\])? |\S+\.\w+:\d+ \w+ ")
# Operators also fail for want of memory, or when a run is stopped; that is no word on their inputs.
_FAULTS = re.compile(r"alloc|memory|terminate flag|cuda|cudnn|cublas", re.IGNORECASE)
_LONGEST_REASON = 300


@dataclass(frozen=True)
class EngineOptions:
    """How models are run.

    Attributes:
        threads: Threads inside one operator, the calling thread included. The runtime's own
            default counts the cores of the host, not those this process may use; see
            :func:`profiler.machine.available_threads`.
        provider: The execution provider, by its full or short name.
        spinning: Whether idle threads spin. It saves up to half a millisecond a run and burns
            the processor time that codec and network need.
        arena: Whether memory is kept for the next run. The peak is never given back, so turn it off
            where shapes vary; five networks ran as fast without it.
        profile_prefix: Where set, each session writes a profile file whose path starts so.
    """

    threads: int
    provider: str = CPU
    spinning: bool = False
    arena: bool = True
    profile_prefix: Path | None = None

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise EngineError(f"threads is {self.threads}; give 1 or more")


class Session(Protocol):
    """A loaded model. One thread at a time may run it."""

    @property
    def inputs(self) -> tuple[TensorSlot, ...]:
        """What :meth:`run` wants."""

    @property
    def outputs(self) -> tuple[TensorSlot, ...]:
        """What :meth:`run` returns."""

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once.

        The feeds are left as they are and share no memory with the results.

        Args:
            feeds: One array for each input, by name.

        Returns:
            One array for each output, by name, in the order of :attr:`outputs`.

        Raises:
            FeedError: An input is missing, unknown, or of the wrong dtype or shape.
            RejectedError: The model cannot take these values.
            EngineError: The runtime failed.
        """

    def close(self) -> None:
        """Free the model. Closing twice is allowed; running afterwards is an EngineError."""


class Engine(Protocol):
    """Loads models."""

    @property
    def name(self) -> str:
        """The engine's name, such as ``onnxruntime``."""

    @property
    def version(self) -> str:
        """The engine's version."""

    def load(self, path: Path) -> Session:
        """Load the model at ``path``.

        Raises:
            EngineError: There is no such file, or the runtime refuses it.
        """


class RunStop:
    """Ends one run from another thread, also one that has still to begin.

    Attributes:
        stopped: Whether :meth:`set` was called.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._end: Callable[[], object] | None = None

    def set(self) -> None:
        """End the run with an EngineError: at once, or when the running operator is done."""
        self.stopped = True
        if self._end is not None:
            self._end()

    def arm(self, end: Callable[[], object]) -> None:
        """Say how the run is ended; for engines. Whoever comes second of two threads ends it."""
        self._end = end
        if self.stopped:
            end()


class StoppableSession(Session, Protocol):
    """A session whose runs can be ended. Afterwards it can be run again."""

    def run(
        self, feeds: Mapping[str, NDArray[Any]], stop: RunStop | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run the model once; see :meth:`Session.run`.

        Args:
            feeds: One array for each input, by name.
            stop: Ends this run.

        Raises:
            EngineError: Also if the run was stopped.
        """


class StoppableEngine(Engine, Protocol):
    """Loads models whose runs can be ended."""

    def load(self, path: Path) -> StoppableSession:
        """Load the model at ``path``; see :meth:`Engine.load`."""


class OnnxRuntimeEngine:
    """Runs models with ONNX Runtime.

    Args:
        options: How to run them.

    Raises:
        EngineError: The execution provider is not in this build of ONNX Runtime.
    """

    name = "onnxruntime"
    version: str = onnxruntime.__version__

    def __init__(self, options: EngineOptions) -> None:
        # Asked for a provider it lacks, the runtime prints a banner and quietly takes the CPU.
        self.options = replace(options, provider=provider_name(options.provider))

    def load(self, path: Path) -> OnnxRuntimeSession:
        """Load the model at ``path``; see :meth:`Engine.load`."""
        if not path.is_file():
            raise EngineError(f"no model file {os.fspath(path)!r}")
        providers = [self.options.provider]
        if self.options.provider != CPU:
            providers.append(CPU)  # for the operators that the provider lacks
        try:
            # By path, never from bytes: a session from bytes cannot find weights kept beside
            # the model (onnxruntime#6696).
            session = onnxruntime.InferenceSession(
                os.fspath(path), self._session_options(), providers=providers
            )
        except RUNTIME_ERRORS as error:
            raise EngineError(f"onnxruntime cannot load {path.name}: {_one_line(error)}") from error
        if self.options.provider not in session.get_providers():
            raise EngineError(f"{self.options.provider} did not start; onnxruntime fell back")
        return OnnxRuntimeSession(session)

    def _session_options(self) -> onnxruntime.SessionOptions:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.options.threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = self.options.arena
        options.log_severity_level = _FATAL
        spinning = "1" if self.options.spinning else "0"
        options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
        if self.options.profile_prefix is not None:
            options.enable_profiling = True
            options.profile_file_prefix = os.fspath(self.options.profile_prefix)
        return options


class OnnxRuntimeSession:
    """A model loaded by :class:`OnnxRuntimeEngine`."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.inputs = tuple(_slot(argument) for argument in session.get_inputs())
        self.outputs = tuple(_slot(argument) for argument in session.get_outputs())
        self._output_names = [slot.name for slot in self.outputs]
        self._session: onnxruntime.InferenceSession | None = session

    def run(
        self, feeds: Mapping[str, NDArray[Any]], stop: RunStop | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run the model once; see :meth:`StoppableSession.run`."""
        if self._session is None:
            raise EngineError("the session is closed")
        check_feeds(self.inputs, feeds)
        # New ones for each run, a microsecond: a stop must not reach the next run.
        options = onnxruntime.RunOptions()
        options.log_severity_level = _FATAL
        if stop is not None:
            # Looked at between two operators, also inside the bodies of loops.
            stop.arm(partial(setattr, options, "terminate", True))
        try:
            results = self._session.run(self._output_names, feeds, options)
        except RUNTIME_ERRORS as error:
            raise _run_error(error) from error
        return dict(zip(self._output_names, results, strict=True))

    def end_profile(self) -> Path:
        """Close the profile file and return its path; only with a ``profile_prefix``."""
        if self._session is None:
            raise EngineError("the session is closed")
        return Path(self._session.end_profiling())

    def close(self) -> None:
        """Free the model; see :meth:`Session.close`."""
        self._session = None


def check_feeds(inputs: Sequence[TensorSlot], feeds: Mapping[str, NDArray[Any]]) -> None:
    """Check names, dtypes, ranks and fixed axes before the runtime sees them.

    An input whose declared shape is ``()`` may have any rank: the runtime reports a scalar and a
    shape that was never declared alike.

    Raises:
        FeedError: Naming the tensor, what came and what is wanted.
    """
    wanted = {slot.name: slot for slot in inputs}
    for name in feeds:
        if name not in wanted:
            close = difflib.get_close_matches(name, wanted, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise FeedError(f"no input {name!r}{meant} (inputs: {', '.join(wanted) or 'none'})")
    missing = [
        f"{name!r} ({_describe(slot)})" for name, slot in wanted.items() if name not in feeds
    ]
    if missing:
        several = len(missing) > 1
        raise FeedError(
            f"input{'s' * several} {', '.join(missing)} {'are' if several else 'is'} missing"
        )
    for name, slot in wanted.items():
        array = feeds[name]
        if not isinstance(array, np.ndarray):
            raise FeedError(f"input {name!r} is a {type(array).__name__}, not a numpy array")
        fits = slot.accepts(_dtype_of(array), array.shape if slot.shape else ())
        # The runtime reads foreign byte order as its own, without a word.
        if not fits or not array.dtype.isnative:
            order = "" if array.dtype.isnative else " in foreign byte order"
            got = f"{_dtype_of(array)} {list(array.shape)}{order}"
            raise FeedError(f"input {name!r} is {got}; it wants {_describe(slot)}")


def _describe(slot: TensorSlot) -> str:
    axes = ", ".join("any" if axis is None else str(axis) for axis in slot.shape)
    return f"{slot.dtype} [{axes}]" if slot.shape else slot.dtype


def _dtype_of(array: NDArray[Any]) -> str:
    return "string" if array.dtype.kind in "UO" else array.dtype.name


def _slot(argument: onnxruntime.NodeArg) -> TensorSlot:
    shape = tuple(
        axis if isinstance(axis, int) and axis >= 0 else None for axis in argument.shape or ()
    )
    return TensorSlot(argument.name, _dtype_name(argument.type), shape)


def _dtype_name(kind: str) -> str:
    """``tensor(float)`` gives ``float32``; sequences and the like keep the runtime's words."""
    inner = kind.removeprefix("tensor(").removesuffix(")") if kind.startswith("tensor(") else kind
    return _NUMPY_NAMES.get(inner, inner)


def _run_error(error: Exception) -> EngineError:
    """Tell inputs that the model cannot take from a runtime that fails."""
    status = _STATUS.fullmatch(one_line(str(error)))
    if status is None:
        return EngineError(f"onnxruntime cannot run the model: {_one_line(error)}")
    operator, name = status[1], one_line(status[2], 80)
    reason = one_line(_PLACE.sub("", status[3]), _LONGEST_REASON)
    text = f"{operator} {name!r}: {reason}"
    if _FAULTS.search(reason):
        return EngineError(f"onnxruntime cannot run the model: {text}")
    return RejectedError(f"the model cannot take these values: {text}")


def _one_line(error: Exception) -> str:
    """The runtime's message without its prefix and line breaks."""
    text = one_line(str(error))
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    return one_line(text, _LONGEST_REASON)
