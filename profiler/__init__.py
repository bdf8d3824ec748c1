"""Knows models and machines: graphs, costs, measurement, presets, links.

Names load on first use (PEP 562), so that a board, which has no onnx, can import the light ones.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "CodecSpeed": "profile",
    "Engine": "engine",
    "EngineError": "errors",
    "EngineOptions": "engine",
    "EngineUsed": "profile",
    "FeedError": "errors",
    "LayerCost": "profile",
    "Link": "links",
    "LinkError": "errors",
    "ModelError": "errors",
    "ModelIdentity": "values",
    "OnnxRuntimeEngine": "engine",
    "OnnxRuntimeSession": "engine",
    "PresetError": "errors",
    "Profile": "profile",
    "ProfileError": "errors",
    "ProfilerError": "errors",
    "Session": "engine",
    "TensorSlot": "values",
    "available_threads": "machine",
    "describe_machine": "machine",
    "parse_link": "links",
    "profile_from_dict": "profile_file",
    "read_profile": "profile_file",
    "write_profile": "profile_file",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'profiler' has no attribute {name!r}")
    return getattr(import_module(f"profiler.{_MODULES[name]}"), name)
