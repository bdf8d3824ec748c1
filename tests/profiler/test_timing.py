"""Statistics of repeated runs, with a clock that only moves when told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.timing import FineClock, Schedule, middle_mean, summarise, time_runs
from protocol.testing import FakeClock

TIMES = st.lists(st.floats(0.001, 1000), min_size=1, max_size=50)


def runner(clock: FakeClock, seconds: list[float]) -> object:
    """A run that takes the next of these times, the last one for ever."""

    def run() -> None:
        clock.advance(seconds.pop(0) if len(seconds) > 1 else seconds[0])

    return run


def test_drops_the_warm_up() -> None:
    clock = FakeClock()
    times = time_runs(runner(clock, [9, 8, 0.1]), Schedule(warm_up=2, least=3, most=3), clock)
    assert times == pytest.approx([100, 100, 100])


def test_stops_at_the_budget_but_not_before_the_least() -> None:
    clock = FakeClock()
    schedule = Schedule(warm_up=0, least=3, most=100, budget_s=5)
    assert len(time_runs(runner(clock, [1.0]), schedule, clock)) == 5
    assert len(time_runs(runner(clock, [60.0]), schedule, clock)) == 3


def test_stops_at_the_most() -> None:
    clock = FakeClock()
    schedule = Schedule(warm_up=0, least=1, most=7, budget_s=5)
    assert len(time_runs(runner(clock, [0.001]), schedule, clock)) == 7


def test_reports_progress_after_every_run_and_outside_its_time() -> None:
    clock = FakeClock()
    calls = []

    def progress() -> None:
        clock.advance(50)
        calls.append(1)

    schedule = Schedule(warm_up=2, least=3, most=3)
    assert time_runs(runner(clock, [0.5]), schedule, clock, progress) == [500, 500, 500]
    assert len(calls) == 5


def test_prepares_every_run_outside_its_time_but_within_the_budget() -> None:
    clock = FakeClock()
    schedule = Schedule(warm_up=1, least=1, most=9, budget_s=5)

    def prepare() -> None:
        clock.advance(2)

    times = time_runs(runner(clock, [0.5]), schedule, clock, prepare=prepare)
    assert times == [500, 500]
    assert clock.monotonic() == 3 * 2.5


def test_a_few_slow_runs_move_neither_median_nor_spread() -> None:
    calm = summarise([10, 11, 9, 10, 10, 11, 9])
    disturbed = summarise([10, 11, 9, 10, 10, 11, 9, 500, 700])
    assert calm.median_ms == disturbed.median_ms == 10
    assert disturbed.spread_ms == 1
    assert disturbed.runs == 9


def test_the_middle_mean_sees_between_whole_microseconds() -> None:
    assert middle_mean([3, 3, 4, 3, 3, 4, 3, 4]) == 3.25
    assert middle_mean([3, 3, 4, 3, 3, 4, 900, 4]) == 3.5
    assert middle_mean([7]) == 7


@given(TIMES)
def test_summaries_lie_within_what_they_sum_up(times: list[float]) -> None:
    summary = summarise(times)
    slack = 1e-9 * max(times)
    assert min(times) - slack <= summary.median_ms <= max(times) + slack
    assert 0 <= summary.spread_ms <= max(times) - min(times) + slack
    assert min(times) - slack <= middle_mean(times) <= max(times) + slack


def test_the_fine_clock_never_goes_back() -> None:
    clock = FineClock()
    assert clock.monotonic() <= clock.monotonic()
