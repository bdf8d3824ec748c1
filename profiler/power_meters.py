"""Read what this machine draws, where it has a counter. Light.

In order of preference: a sensor of the board's whole input (INA3221 of Jetson boards), a battery
that is being discharged, the energy counters of the processor packages (RAPL). Many machines,
virtual ones above all, have none of them, or let only root read them: then nothing is known, which
is not an error. Every function takes the root of the file tree, so that tests can lay one out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from profiler.energy import DevicePower

__all__ = ["PowerMeter", "find_power_meter", "mean_power_w", "measure_device_power"]

_ROOT = Path("/")
_DURATION_S = 1.0  # batteries say something new once a second or so
_PAUSE_S = 0.05
_WHOLE_INPUT = frozenset({"VDD_IN", "POM_5V_IN"})  # labels of the rail that feeds all others


class Clock(Protocol):
    """Tells the time."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""


class PowerMeter(Protocol):
    """A counter of energy or a sensor of power."""

    @property
    def scope(self) -> str:
        """What it covers, for people."""

    def sample(self, now_s: float) -> float | None:
        """Return the energy in J since the first sample; None where it cannot be read any more."""


@dataclass
class _Sensor:
    """Integrates a sensor of power by the trapezoidal rule."""

    scope: str
    read_w: Callable[[], float | None]
    _energy_j: float = 0.0
    _last: tuple[float, float] | None = None

    def sample(self, now_s: float) -> float | None:
        power_w = self.read_w()
        if power_w is None:
            return None
        if self._last is not None:
            before_s, before_w = self._last
            self._energy_j += (now_s - before_s) * (before_w + power_w) / 2
        self._last = now_s, power_w
        return self._energy_j


@dataclass
class _Counters:
    """Adds up counters of energy that start again from 0 at their ends."""

    scope: str
    folders: tuple[Path, ...]
    _energy_uj: int = 0
    _last: tuple[int, ...] | None = None

    def sample(self, now_s: float) -> float | None:  # noqa: ARG002  # counters keep the time
        counts = [_integer(folder / "energy_uj") for folder in self.folders]
        ends = [_integer(folder / "max_energy_range_uj") for folder in self.folders]
        read = tuple(count for count in counts if count is not None)
        if len(read) < len(self.folders):
            return None
        for count, before, end in zip(read, self._last or read, ends, strict=True):
            if count < before and end is None:
                return None  # it started again, and nobody says from where
            self._energy_uj += count - before + (end or 0) * (count < before)
        self._last = read
        return self._energy_uj / 1e6


def find_power_meter(root: Path = _ROOT) -> PowerMeter | None:
    """Return what this machine's power can be read from; None where nothing can be."""
    return _board_sensor(root) or _battery(root) or _packages(root)


def mean_power_w(
    meter: PowerMeter, work: Callable[[], object], clock: Clock, duration_s: float
) -> float | None:
    """Repeat some work for at least so long, and return what was drawn in the mean.

    Sampled between any two goes, and at least twice. Counters move about once a millisecond, so
    the duration should be much longer.

    Returns:
        None where the meter cannot be read, or says that nothing was drawn.
    """
    started_s = now_s = clock.monotonic()
    energy_j = before_j = meter.sample(started_s)
    while energy_j is not None and now_s - started_s < duration_s:
        work()
        now_s = clock.monotonic()
        energy_j = meter.sample(now_s)
    if energy_j is None or before_j is None or energy_j <= before_j:
        return None
    return (energy_j - before_j) / (now_s - started_s)


def measure_device_power(
    meter: PowerMeter,
    work: Callable[[], object],
    clock: Clock,
    rest: Callable[[float], object] = time.sleep,
) -> DevicePower | None:
    """Return what the machine draws at rest and while it does some work, about a second each.

    Returns:
        None where the meter fails, or says that work takes less than rest.
    """
    idle_w = mean_power_w(meter, lambda: rest(_PAUSE_S), clock, _DURATION_S)
    busy_w = mean_power_w(meter, work, clock, _DURATION_S)
    if idle_w is None or busy_w is None or busy_w < idle_w:
        return None
    return DevicePower(idle_w, busy_w)


def _board_sensor(root: Path) -> PowerMeter | None:
    for chip in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        if _text(chip / "name") != "ina3221":
            continue
        for label in sorted(chip.glob("in*_label")):
            channel = label.name.removeprefix("in").removesuffix("_label")
            if _text(label) in _WHOLE_INPUT:
                volts, amperes = chip / f"in{channel}_input", chip / f"curr{channel}_input"
                return _sensor("the whole board", _product(volts, amperes, 1e-6))
    return None


def _battery(root: Path) -> PowerMeter | None:
    for supply in sorted((root / "sys/class/power_supply").glob("*")):
        # While it is charged, or kept full, it does not say what the machine draws.
        if _text(supply / "type") == "Battery" and _text(supply / "status") == "Discharging":
            power = supply / "power_now"
            read_w = _product(supply / "voltage_now", supply / "current_now", 1e-12)
            if _integer(power) is not None:
                read_w = _scaled(power, 1e-6)
            meter = _sensor("the whole machine, from its battery", read_w)
            if meter is not None:
                return meter
    return None


def _packages(root: Path) -> PowerMeter | None:
    """Packages, and the memory beside them; what lies inside a package, or around all, is left."""
    # The same packages may be there once more as intel-rapl-mmio.
    zones = sorted((root / "sys/class/powercap").glob("*rapl:*"))
    chosen = tuple(
        zone
        for zone in zones
        if (_text(zone / "name") or "").startswith("package") or _text(zone / "name") == "dram"
    )
    # Where they are there, they may still be root's alone.
    if not chosen or any(_integer(zone / "energy_uj") is None for zone in chosen):
        return None
    return _Counters("the processor packages alone", chosen)


def _sensor(scope: str, read_w: Callable[[], float | None]) -> PowerMeter | None:
    return None if read_w() is None else _Sensor(scope, read_w)


def _product(first: Path, second: Path, unit: float) -> Callable[[], float | None]:
    def read() -> float | None:
        one, other = _integer(first), _integer(second)
        # The current of a discharging battery is negative in some drivers.
        return None if one is None or other is None else abs(one * other) * unit

    return read


def _scaled(path: Path, unit: float) -> Callable[[], float | None]:
    def read() -> float | None:
        value = _integer(path)
        return None if value is None else abs(value) * unit

    return read


def _integer(path: Path) -> int | None:
    try:
        return int(_text(path) or "")
    except ValueError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return None  # absent or not ours to read: the value is then unknown, never an error
