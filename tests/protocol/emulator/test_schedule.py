from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from protocol.emulator import BandwidthTrace, LinkSchedule, LinkShape, SteadyPace, TracePace

RATE = Fraction(2_500_000)  # 20 Mbit/s in bytes a second
DELAY = Fraction(5, 1000)

gaps = st.fractions(min_value=0, max_value=Fraction(1, 20), max_denominator=1000)
chunks = st.lists(st.tuples(gaps, st.integers(0, 100_000)), min_size=1, max_size=10)


def steady(rate: Fraction = RATE, delay: Fraction = DELAY) -> LinkShape:
    return LinkShape(SteadyPace(rate), delay)


def run(
    schedule: LinkSchedule[int], entries: list[tuple[Fraction, int]]
) -> list[tuple[Fraction, int]]:
    """Enter chunks at their moments, wake exactly when the schedule says; returns the arrivals."""
    arrivals: list[tuple[Fraction, int]] = []

    def wake_until(end: Fraction | None) -> None:
        while (due := schedule.next_arrival_s()) is not None and (end is None or due <= end):
            arrivals.extend((due, item) for item in schedule.advance(due))

    for item, (moment, size) in enumerate(entries):
        wake_until(moment)
        schedule.advance(moment)
        schedule.enqueue(moment, size, item)
    wake_until(None)
    return arrivals


def timed(entries: list[tuple[Fraction, int]]) -> list[tuple[Fraction, int]]:
    moments = accumulate(gap for gap, _ in entries)
    return [(moment, size) for moment, (_, size) in zip(moments, entries, strict=True)]


def test_a_message_takes_its_bytes_over_the_rate_plus_the_delay() -> None:
    schedule: LinkSchedule[str] = LinkSchedule(steady(), Random(0))
    schedule.enqueue(Fraction(1), 20_000, "message")
    due = Fraction(1) + Fraction(8, 1000) + DELAY
    assert schedule.next_arrival_s() == due
    assert schedule.advance(due - Fraction(1, 10**9)) == []
    assert schedule.backlog_bytes == 0  # It has left the queue and travels.
    assert schedule.advance(due) == ["message"]
    assert schedule.next_arrival_s() is None


@given(chunks)
def test_everything_comes_out_once_in_order_and_exactly_when_it_should(
    entries: list[tuple[Fraction, int]],
) -> None:
    entries = timed(entries)
    arrivals = run(LinkSchedule(steady(), Random(0)), entries)
    free, expected = Fraction(0), []
    for item, (moment, size) in enumerate(entries):
        free = max(free, moment) + size / RATE
        expected.append((free + DELAY, item))
    assert arrivals == expected


@given(chunks)
def test_no_stretch_of_time_carries_more_than_rate_times_time_plus_one_chunk(
    entries: list[tuple[Fraction, int]],
) -> None:
    entries = timed(entries)
    arrivals = run(LinkSchedule(steady(), Random(0)), entries)
    for first in range(len(arrivals)):
        for last in range(first, len(arrivals)):
            carried = sum(entries[item][1] for _, item in arrivals[first : last + 1])
            burst = entries[arrivals[first][1]][1]
            assert carried <= RATE * (arrivals[last][0] - arrivals[first][0]) + burst


@given(chunks, st.integers(0, 2**32))
def test_jitter_keeps_order_and_bounds(entries: list[tuple[Fraction, int]], seed: int) -> None:
    entries = timed(entries)
    jitter = 0.004
    plain = run(LinkSchedule(steady(), Random(0)), entries)
    shape = LinkShape(SteadyPace(RATE), DELAY, jitter)
    shaken = run(LinkSchedule(shape, Random(seed)), entries)
    assert [item for _, item in shaken] == list(range(len(entries)))
    for (smooth, _), (moment, _) in zip(plain, shaken, strict=True):
        assert moment >= smooth - jitter - 1e-9
    assert max(moment for moment, _ in shaken) <= max(moment for moment, _ in plain) + jitter + 1e-9


def test_jitter_larger_than_the_delay_never_turns_time_back() -> None:
    shape = LinkShape(SteadyPace(RATE), 0, 1)
    entries = [(Fraction(n, 100), 100) for n in range(50)]
    for (arrival, _), (moment, size) in zip(
        run(LinkSchedule(shape, Random(1)), entries), entries, strict=True
    ):
        assert arrival >= moment + size / RATE


@given(chunks, gaps)
def test_waking_late_makes_nothing_later_but_the_wake(
    entries: list[tuple[Fraction, int]], lateness: Fraction
) -> None:
    entries = timed(entries)
    plain = run(LinkSchedule(steady(), Random(0)), entries)
    on_time = {item: moment for moment, item in plain}
    schedule: LinkSchedule[int] = LinkSchedule(steady(), Random(0))
    for item, (moment, size) in enumerate(entries):
        schedule.enqueue(moment, size, item)
    while (due := schedule.next_arrival_s()) is not None:
        for item in schedule.advance(due + lateness):
            assert due <= on_time[item] <= due + lateness


@given(chunks, gaps, gaps)
def test_a_pause_moves_everything_that_had_not_arrived_by_its_length(
    entries: list[tuple[Fraction, int]], start: Fraction, length: Fraction
) -> None:
    together = [(Fraction(0), size) for _, size in entries]
    plain = run(LinkSchedule(steady(), Random(0)), together)
    schedule: LinkSchedule[int] = LinkSchedule(steady(), Random(0))
    for item, (moment, size) in enumerate(together):
        schedule.enqueue(moment, size, item)
    before = schedule.advance(start)
    schedule.pause(start)
    schedule.pause(start + length / 2)
    assert schedule.next_arrival_s() is None
    assert schedule.room_s(0) is None
    assert schedule.advance(start + length) == []
    schedule.resume(start + length)
    schedule.resume(start + length)
    after = run(schedule, [])
    assert before == [item for moment, item in plain if moment <= start]
    assert after == [(moment + length, item) for moment, item in plain if moment > start]


def test_what_enters_a_paused_link_stays_in_it_even_if_the_link_takes_no_time() -> None:
    schedule: LinkSchedule[str] = LinkSchedule(LinkShape(SteadyPace(math.inf)), Random(0))
    schedule.pause(1)
    schedule.enqueue(2, 100, "held")
    assert schedule.advance(3) == []
    schedule.resume(4)
    assert schedule.next_arrival_s() == 4
    assert schedule.advance(4) == ["held"]


@given(
    chunks,
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.fractions(Fraction(1, 100), Fraction(1, 10), max_denominator=100),
)
def test_changing_the_rate_equals_a_trace_with_the_same_steps(
    entries: list[tuple[Fraction, int]], mbps: list[int], step: Fraction
) -> None:
    together = [(Fraction(0), size) for _, size in entries]
    # The last step is so long that the trace does not come round.
    times = (*(step * n for n in range(len(mbps))), step * len(mbps), Fraction(1000))
    trace = BandwidthTrace(times, (*mbps, mbps[-1], mbps[-1]))
    traced = run(LinkSchedule(LinkShape(TracePace(trace, 0), DELAY), Random(0)), together)

    changed: LinkSchedule[int] = LinkSchedule(steady(Fraction(mbps[0] * 125_000)), Random(0))
    for item, (moment, size) in enumerate(together):
        changed.enqueue(moment, size, item)
    arrivals: list[tuple[Fraction, int]] = []
    for moment, rate in zip(times[1:], mbps[1:], strict=False):
        while (due := changed.next_arrival_s()) is not None and due <= moment:
            arrivals.extend((due, item) for item in changed.advance(due))
        changed.reshape(moment, steady(Fraction(rate * 125_000)))
    assert arrivals + run(changed, []) == traced


def test_room_is_announced_for_the_moment_it_is_there() -> None:
    schedule: LinkSchedule[int] = LinkSchedule(steady(), Random(0))
    for item in range(4):
        schedule.enqueue(Fraction(0), 2500, item)
    assert schedule.backlog_bytes == 10_000
    due = schedule.room_s(5000)
    assert due == Fraction(2, 1000)
    schedule.advance(due)
    assert schedule.backlog_bytes == 5000
    assert schedule.room_s(5000) <= due


def test_what_is_discarded_never_arrives_and_takes_no_time() -> None:
    schedule: LinkSchedule[str] = LinkSchedule(steady(), Random(0))
    schedule.enqueue(Fraction(0), 10_000_000, "lost in the queue")
    schedule.discard()
    assert schedule.backlog_bytes == 0
    assert schedule.next_arrival_s() is None
    schedule.enqueue(Fraction(1, 10), 2500, "next")
    assert schedule.next_arrival_s() == Fraction(1, 10) + Fraction(1, 1000) + DELAY
