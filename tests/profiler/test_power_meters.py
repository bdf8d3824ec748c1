"""Power counters, read from file trees that are laid out here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profiler.energy import DevicePower
from profiler.power_meters import find_power_meter, mean_power_w, measure_device_power

RAPL = "sys/class/powercap/intel-rapl:"


class StepClock:
    """Goes on by what the work says."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    def write(path: str, text: object) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    return write


def package(write: Callable[..., None], zone: str, name: str, count: object) -> None:
    write(f"{RAPL}{zone}/name", name)
    write(f"{RAPL}{zone}/energy_uj", count)
    write(f"{RAPL}{zone}/max_energy_range_uj", 1_000_000)


def test_a_machine_without_counters_says_nothing(tmp_path: Path) -> None:
    assert find_power_meter(tmp_path) is None


class TestPackages:
    def test_all_packages_and_their_memory_count_and_nothing_twice(
        self, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        names = {"0": "package-0", "0:0": "core", "0:1": "dram", "1": "package-1", "2": "psys"}
        for zone, name in names.items():
            package(write, zone, name, 1000)
        write("sys/class/powercap/intel-rapl-mmio:0/name", "package-0")
        write("sys/class/powercap/intel-rapl-mmio:0/energy_uj", 1000)
        meter = find_power_meter(tmp_path)
        assert meter is not None
        assert meter.scope == "the processor packages alone"
        assert meter.sample(0) == 0
        for zone, name in names.items():
            package(write, zone, name, 201_000)
        assert meter.sample(1) == pytest.approx(3 * 0.2)

    def test_a_counter_that_starts_again_goes_on(
        self, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        package(write, "0", "package-0", 900_000)
        meter = find_power_meter(tmp_path)
        assert meter is not None
        meter.sample(0)
        for count in (100_000, 800_000, 100_000):
            package(write, "0", "package-0", count)
            energy_j = meter.sample(1)
        assert energy_j == pytest.approx(0.2 + 0.7 + 0.3)

    def test_one_whose_end_is_not_known_does_not(
        self, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        package(write, "0", "package-0", 900_000)
        (tmp_path / f"{RAPL}0/max_energy_range_uj").unlink()
        meter = find_power_meter(tmp_path)
        assert meter is not None
        assert meter.sample(0) == 0
        write(f"{RAPL}0/energy_uj", 950_000)
        assert meter.sample(1) == pytest.approx(0.05)
        write(f"{RAPL}0/energy_uj", 1)
        assert meter.sample(2) is None

    @pytest.mark.parametrize("content", ["", "garbage", "1.5", None])
    def test_unreadable_counters_are_as_good_as_none(
        self, content: str | None, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        package(write, "0", "package-0", 5)
        package(write, "1", "package-1", content)
        if content is None:  # as one that only root may read: opening it fails
            (tmp_path / f"{RAPL}1/energy_uj").unlink()
            (tmp_path / f"{RAPL}1/energy_uj").mkdir()
        assert find_power_meter(tmp_path) is None

    def test_a_counter_that_goes_away_gives_no_power(
        self, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        package(write, "0", "package-0", 5)
        meter = find_power_meter(tmp_path)
        assert meter is not None
        (tmp_path / f"{RAPL}0/energy_uj").unlink()
        assert mean_power_w(meter, lambda: None, StepClock(), 1) is None


def board(write: Callable[..., None], millivolts: object, milliamperes: object) -> None:
    chip = "sys/class/hwmon/hwmon3"
    write(f"{chip}/name", "ina3221")
    for channel, label in enumerate(["VDD_CPU", "VDD_IN"], start=1):
        write(f"{chip}/in{channel}_label", label)
        write(f"{chip}/in{channel}_input", millivolts if channel == 2 else 1)
        write(f"{chip}/curr{channel}_input", milliamperes if channel == 2 else 1)


class TestBoardSensor:
    def test_the_rail_that_feeds_all_others_is_read(
        self, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        write("sys/class/hwmon/hwmon0/name", "coretemp")
        board(write, 5000, 1200)
        package(write, "0", "package-0", 5)
        meter = find_power_meter(tmp_path)
        assert meter is not None
        assert meter.scope == "the whole board"
        assert meter.sample(10) == 0
        board(write, 5000, 2400)
        assert meter.sample(12) == pytest.approx((6 + 12) / 2 * 2)

    @pytest.mark.parametrize("broken", ["", "x", "-"])
    def test_one_that_cannot_be_read_is_passed_over(
        self, broken: str, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        board(write, 5000, broken)
        assert find_power_meter(tmp_path) is None


class TestBattery:
    FOLDER = "sys/class/power_supply/BAT0"

    @pytest.fixture(autouse=True)
    def discharging(self, write: Callable[..., None]) -> None:
        write(f"{self.FOLDER}/type", "Battery")
        write(f"{self.FOLDER}/status", "Discharging")
        write("sys/class/power_supply/AC/type", "Mains")

    def test_its_power_is_in_microwatts(self, tmp_path: Path, write: Callable[..., None]) -> None:
        write(f"{self.FOLDER}/power_now", 7_500_000)
        meter = find_power_meter(tmp_path)
        assert meter is not None
        meter.sample(0)
        assert meter.sample(2) == pytest.approx(15)

    @pytest.mark.parametrize("current", [500_000, -500_000])
    def test_or_in_microvolts_and_microamperes_of_either_sign(
        self, current: int, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        write(f"{self.FOLDER}/voltage_now", 12_000_000)
        write(f"{self.FOLDER}/current_now", current)
        meter = find_power_meter(tmp_path)
        assert meter is not None
        meter.sample(0)
        assert meter.sample(2) == pytest.approx(12)

    @pytest.mark.parametrize("status", ["Charging", "Full", "Unknown"])
    def test_while_it_is_not_discharged_it_says_nothing(
        self, status: str, tmp_path: Path, write: Callable[..., None]
    ) -> None:
        write(f"{self.FOLDER}/power_now", 7_500_000)
        write(f"{self.FOLDER}/status", status)
        assert find_power_meter(tmp_path) is None

    def test_one_without_figures_is_passed_over(self, tmp_path: Path) -> None:
        assert find_power_meter(tmp_path) is None


class Machine:
    """Draws what it is told to, on a counter of one package."""

    def __init__(self, write: Callable[..., None], clock: StepClock) -> None:
        self._write, self._clock = write, clock
        self._count = 0.0
        self.draw(0, 0)

    def draw(self, power_w: float, duration_s: float) -> None:
        self._clock.now_s += duration_s
        self._count = (self._count + power_w * duration_s * 1e6) % 1_000_000
        package(self._write, "0", "package-0", int(self._count))


def test_power_at_rest_and_at_work(tmp_path: Path, write: Callable[..., None]) -> None:
    clock = StepClock()
    machine = Machine(write, clock)
    meter = find_power_meter(tmp_path)
    assert meter is not None
    power = measure_device_power(
        meter, lambda: machine.draw(9, 0.1), clock, lambda seconds: machine.draw(3, seconds)
    )
    assert power is not None
    assert power.idle_w == pytest.approx(3, rel=0.01)
    assert power.busy_w == pytest.approx(9, rel=0.01)


@pytest.mark.parametrize(("idle_w", "busy_w"), [(5, 4), (0, 0), (3, 0)])
def test_a_counter_that_makes_no_sense_gives_no_power(
    idle_w: float, busy_w: float, tmp_path: Path, write: Callable[..., None]
) -> None:
    clock = StepClock()
    machine = Machine(write, clock)
    meter = find_power_meter(tmp_path)
    assert meter is not None
    power: DevicePower | None = measure_device_power(
        meter, lambda: machine.draw(busy_w, 0.1), clock, lambda pause: machine.draw(idle_w, pause)
    )
    assert power is None
