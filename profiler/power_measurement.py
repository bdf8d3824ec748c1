"""Measure what this machine draws while it runs a model, where it has a counter. Light."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiler.power_meters import find_power_meter, measure_device_power

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from profiler.energy import DevicePower
    from profiler.engine import Engine
    from profiler.power_meters import Clock

__all__ = ["measure_power"]


def measure_power(
    engine: Engine, model: Path, feeds: Mapping[str, NDArray[Any]], clock: Clock
) -> tuple[DevicePower | None, str]:
    """Return what the machine draws at rest and while it runs a model, and a sentence about that.

    Returns:
        No power where no counter can be read, or where what it says makes no sense.
    """
    meter = find_power_meter()
    if meter is None:
        return None, "Power is not known: this machine has no counter of it that may be read."
    session = engine.load(model)
    power = measure_device_power(meter, lambda: session.run(feeds), clock)
    session.close()
    if power is None:
        return None, f"Power is not known: the counter of {meter.scope} made no sense."
    return power, f"Power was read of {meter.scope}."
