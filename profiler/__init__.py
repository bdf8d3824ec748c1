"""Knows models and machines: graphs, costs, measurement, presets, links.

Names load on first use (PEP 562), so that a board, which has no onnx, can import the light ones.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "ModelIdentity": "values",
    "TensorSlot": "values",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'profiler' has no attribute {name!r}")
    return getattr(import_module(f"profiler.{_MODULES[name]}"), name)
