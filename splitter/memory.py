"""What the parts of a cut take in memory. Needs onnx and scipy."""

from __future__ import annotations

from collections.abc import Collection

from profiler.engine import EngineOptions
from profiler.graph.observation import Observation
from profiler.graph.runtime_observation import observe_runtime
from profiler.graph.weights import StoredModel
from profiler.memory import predict_peak_memory
from splitter.plans import PartMemory

_OPTIONS = EngineOptions(threads=1)  # threads share everything that is counted here


def part_memory(
    stored: StoredModel, observation: Observation, units: Collection[int]
) -> PartMemory:
    """Predict the peaks of the head of these units and of the tail of all others.

    Raises:
        EngineError: The runtime refuses the model.
    """
    runtime = observe_runtime(stored, observation)
    others = [unit.index for unit in observation.units if unit.index not in units]
    head, tail = (predict_peak_memory(runtime, part, _OPTIONS) for part in (units, others))
    return PartMemory(head.total_bytes, tail.total_bytes)
