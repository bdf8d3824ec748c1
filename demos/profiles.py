"""What this machine is as a device and as a cloud: measured as it will be used."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from profiler.engine import EngineOptions
from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.weights import store_model
from profiler.measurement import MeasureOptions, measure_profile
from profiler.profile import Profile
from profiler.timing import Schedule

# Frames come one by one, with a pause before each. A processor that has idled so long runs the next
# model 10 to 20 % slower (caches, clock, the hypervisor), which a tight loop does not show.
IDLE_MS = 30.0
# Twice as long as by default: the demo stands or falls with how well these two times are known.
_SCHEDULE = Schedule(most=200, budget_s=6.0)


def measure_sides(
    model: Path, feeds: dict[str, NDArray[Any]], threads: int, factor: float
) -> tuple[Profile, Profile]:
    """Measure this machine as ``split-profile`` does, but idle before each run.

    Args:
        model: The network.
        feeds: What it is fed.
        threads: For inference.
        factor: How many times slower the device is emulated.

    Returns:
        The device, with the times multiplied by ``factor``, and the cloud.
    """
    with tempfile.TemporaryDirectory(prefix="headtail-") as folder:
        stored = store_model(load_model(model), Path(folder))
        observation = observe(stored, feeds)
        options = MeasureOptions(EngineOptions(threads=threads), _SCHEDULE, idle_ms=IDLE_MS)
        profile = measure_profile(stored, observation, options)
    return profile.scaled(factor, f"this machine x {factor:g}"), profile
