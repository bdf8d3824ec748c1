"""Time repeated runs, and say in one number how long they take.

Light: standard library only. The first runs are always dropped: caches, memory and clock rates
settle in them.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FineClock", "Schedule", "Summary", "middle_mean", "summarise", "time_runs"]


class FineClock:
    """The clock with the finest steps that the system has; for measuring, not for deadlines."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.perf_counter()


@dataclass(frozen=True)
class Schedule:
    """How often to run.

    Attributes:
        warm_up: Runs that are not counted.
        least: Counted runs at least, however long they take.
        most: Counted runs at most.
        budget_s: No further run begins after this many seconds of counted runs, once there are
            ``least``.
    """

    warm_up: int = 3
    least: int = 7
    most: int = 100
    budget_s: float = 3.0


@dataclass(frozen=True)
class Summary:
    """What a series of times comes to.

    Attributes:
        median_ms: The median.
        spread_ms: The median distance from the median.
        runs: How many times there were.
    """

    median_ms: float
    spread_ms: float
    runs: int


def time_runs(
    run: Callable[[], object],
    schedule: Schedule,
    clock: FineClock,
    progress: Callable[[], None] = lambda: None,
    prepare: Callable[[], None] = lambda: None,
) -> list[float]:
    """Run again and again and return the time of each counted run in milliseconds.

    Args:
        run: What to time.
        schedule: How often.
        clock: What to time with.
        progress: Called after each run, outside its time.
        prepare: Called before each run, outside its time, but within the budget.
    """
    for _ in range(schedule.warm_up):
        prepare()
        run()
        progress()
    times_ms: list[float] = []
    start = clock.monotonic()
    while len(times_ms) < schedule.most:
        if len(times_ms) >= schedule.least and clock.monotonic() - start >= schedule.budget_s:
            break
        prepare()
        before = clock.monotonic()
        run()
        times_ms.append((clock.monotonic() - before) * 1e3)
        progress()
    return times_ms


def summarise(times_ms: Sequence[float]) -> Summary:
    """Reduce a series to its median and spread: neither moves for a few slow runs."""
    median = statistics.median(times_ms)
    spread = statistics.median(abs(time - median) for time in times_ms)
    return Summary(median, spread, len(times_ms))


def middle_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half.

    As deaf to outliers as the median, but it tells 3.2 from 3.4 where a timer only says 3 or 4.
    """
    ordered = sorted(values)
    cut = len(ordered) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])
