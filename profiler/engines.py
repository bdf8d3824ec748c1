"""Engines by name. Light until the torch engine is asked for: that needs onnx and torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.errors import EngineError
from protocol.extras import install_hint
from protocol.text import did_you_mean

if TYPE_CHECKING:
    from profiler.engine import StoppableEngine
    from profiler.torch_engine import TorchEngine

__all__ = ["ENGINES", "make_engine", "make_torch_engine"]

ENGINES = ("onnxruntime", "torch")
# Read when torch is first imported. At the end of each operator its threads otherwise spin until
# all have come: with two of them and another process busy on two cores, runs of 58 ms took 1.7 s.
_WAITING = ("OMP_WAIT_POLICY", "PASSIVE")


def make_engine(
    name: str, threads: int, provider: str = "cpu", *, arena: bool = True
) -> StoppableEngine:
    """Return an engine.

    Args:
        name: One of :data:`ENGINES`.
        threads: Threads inside one operator.
        provider: Of ONNX Runtime, an execution provider; of torch, ``cpu`` or ``cuda``.
        arena: Whether ONNX Runtime keeps memory for the next run; torch has no such choice.

    Raises:
        EngineError: There is no such engine or provider, or it is not installed.
    """
    if name == "torch":
        return make_torch_engine(threads, provider)
    if name == "onnxruntime":
        return OnnxRuntimeEngine(EngineOptions(threads, provider, arena=arena))
    raise EngineError(
        f"no engine {name!r}{did_you_mean(name, ENGINES)} (engines: {', '.join(ENGINES)})"
    )


def make_torch_engine(threads: int, device: str = "cpu") -> TorchEngine:
    """Return the torch engine.

    Raises:
        EngineError: torch or onnx is not installed, or there is no such device.
    """
    os.environ.setdefault(*_WAITING)
    try:
        from profiler.torch_engine import TorchEngine
    except ModuleNotFoundError as error:
        package = {"torch": "PyTorch"}.get(error.name or "", error.name)
        extra = "torch" if error.name == "torch" else "worker"
        raise EngineError(
            f"the torch engine needs {package}, which is not installed: {install_hint(extra)}"
        ) from None
    return TorchEngine(threads, device)
