"""Knows models and machines: graphs, costs, measurement, presets, links.

Names load on first use (PEP 562), so that a board, which has no onnx, can import the light ones.
"""

from __future__ import annotations

import os

from protocol.lazy import lazy_exports

# ONNX Runtime reports models and machines to its makers unless told not to before it is imported,
# and every import of it in this project goes through this package.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_MODULES = {
    "CodecSpeed": "profile",
    "DevicePower": "energy",
    "Engine": "engine",
    "EngineError": "errors",
    "EngineOptions": "engine",
    "EngineUsed": "profile",
    "FeedError": "errors",
    "FrameBytes": "energy",
    "FrameEnergy": "energy",
    "FrameTimes": "energy",
    "Graph": "graph.graph",
    "LayerCost": "profile",
    "Link": "links.link",
    "LinkError": "errors",
    "LinkPreset": "links.presets",
    "LoadedModel": "graph.model",
    "MeasureOptions": "measurement",
    "ModelError": "errors",
    "ModelIdentity": "values",
    "Node": "graph.graph",
    "Observation": "graph.observation",
    "ObservedTensor": "graph.observation",
    "OnnxRuntimeEngine": "engine",
    "OnnxRuntimeSession": "engine",
    "PeakMemory": "memory",
    "PowerError": "errors",
    "Preset": "presets",
    "PresetError": "errors",
    "Profile": "profile",
    "ProfileError": "errors",
    "ProfileKind": "profile",
    "ProfilerError": "errors",
    "Radio": "energy",
    "RadioError": "errors",
    "Rates": "costs",
    "RuntimeGraph": "graph.runtime",
    "Session": "engine",
    "SteadyLink": "links.link",
    "StoredModel": "graph.weights",
    "TensorSlot": "values",
    "TracedLink": "links.traced",
    "Unit": "graph.graph",
    "Work": "costs",
    "available_threads": "machine",
    "describe_machine": "machine",
    "frame_energy": "energy",
    "link_preset_names": "links.presets",
    "load_link_preset": "links.presets",
    "load_model": "graph.model",
    "load_preset": "presets",
    "load_radio": "radios",
    "measure_profile": "measurement",
    "observe": "graph.observation",
    "observe_runtime": "graph.runtime_observation",
    "parse_input_shapes": "graph.feeds",
    "parse_link": "links.parsing",
    "predict_peak_memory": "memory",
    "predict_profile": "presets",
    "preset_names": "presets",
    "probe_link": "links.probe",
    "profile_from_dict": "profile_file",
    "radio_names": "radios",
    "read_feeds": "graph.feeds",
    "read_profile": "profile_file",
    "resolve_feeds": "graph.feeds",
    "store_model": "graph.weights",
    "unit_work": "costs",
    "write_profile": "profile_file",
}

__all__ = sorted(_MODULES)
__getattr__ = lazy_exports(__name__, _MODULES)
