"""Execution providers of ONNX Runtime by their short or full names.

Light: standard library and onnxruntime only.
"""

from __future__ import annotations

import onnxruntime

from profiler.errors import EngineError
from protocol.text import did_you_mean, quoted

__all__ = ["CPU", "provider_name", "queues_work"]

CPU = "CPUExecutionProvider"
_SUFFIX = "ExecutionProvider"
# A kernel of these ends when its work is queued, not when it is done (ONNX Runtime's builds do not
# ask the accelerator for its own times unless they were made for that).
_QUEUEING = frozenset(
    f"{name}{_SUFFIX}"
    for name in ("CANN", "CUDA", "Dml", "Js", "MIGraphX", "Tensorrt", "WebGpu", "WebNN")
)


def provider_name(name: str) -> str:
    """Return the full name of an execution provider of this build of ONNX Runtime.

    Args:
        name: Its full name, or that without ``ExecutionProvider``, in any case: ``cuda``.

    Raises:
        EngineError: ONNX Runtime knows no such provider, or this build was made without it.
    """
    available = onnxruntime.get_available_providers()
    found = _find(name, available)
    if found is not None:
        return found
    build = f"onnxruntime {onnxruntime.__version__}"
    listed = f"available: {', '.join(map(_short, sorted(available)))}"
    known = onnxruntime.get_all_providers()
    missing = _find(name, known)
    if missing is not None:
        raise EngineError(
            f"{missing} is not in this build of {build} ({listed}); install a build that has it"
        )
    hint = did_you_mean(_short(name), map(_short, known)) or did_you_mean(name, known)
    raise EngineError(f"no execution provider {quoted(name)}{hint} in {build} ({listed})")


def queues_work(provider: str) -> bool:
    """Whether a kernel's time in a profile is that of queueing its work, not of doing it."""
    return provider in _QUEUEING


def _find(name: str, providers: list[str]) -> str | None:
    wanted = _short(name)
    return next((full for full in providers if _short(full) == wanted), None)


def _short(name: str) -> str:
    return name.lower().removesuffix(_SUFFIX.lower())
