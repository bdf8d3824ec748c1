"""Knows models and machines: graphs, costs, measurement, presets, links.

Names load on first use (PEP 562), so that a board, which has no onnx, can import the light ones.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "Engine": "engine",
    "EngineError": "errors",
    "EngineOptions": "engine",
    "FeedError": "errors",
    "LinkError": "errors",
    "ModelError": "errors",
    "ModelIdentity": "values",
    "OnnxRuntimeEngine": "engine",
    "OnnxRuntimeSession": "engine",
    "PresetError": "errors",
    "ProfileError": "errors",
    "ProfilerError": "errors",
    "Session": "engine",
    "TensorSlot": "values",
    "available_threads": "machine",
    "describe_machine": "machine",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'profiler' has no attribute {name!r}")
    return getattr(import_module(f"profiler.{_MODULES[name]}"), name)
