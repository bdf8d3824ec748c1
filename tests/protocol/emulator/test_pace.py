from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.emulator import BandwidthTrace, SteadyPace, TracePace

moments = st.fractions(min_value=0, max_value=50, max_denominator=64)
rates = st.fractions(min_value=0, max_value=8, max_denominator=8)
sizes = st.integers(min_value=0, max_value=3_000_000)


@st.composite
def traces(draw: st.DrawFn) -> BandwidthTrace:
    steps = draw(st.lists(st.fractions(Fraction(1, 8), 4, max_denominator=8), max_size=5))
    times = [Fraction(0)]
    for step in steps:
        times.append(times[-1] + step)
    mbps = draw(st.lists(rates, min_size=len(times), max_size=len(times)).filter(any))
    return BandwidthTrace(tuple(times), tuple(mbps))


def carried_by_walking(trace: BandwidthTrace, start_s: Fraction, end_s: Fraction) -> Fraction:
    """Adds up the overlap with every step of every round."""
    total, round_start = Fraction(0), Fraction(0)
    ends = (*trace.times_s[1:], trace.period_s)
    while round_start < end_s:
        for begin, end, mbps in zip(trace.times_s, ends, trace.mbps, strict=True):
            overlap = min(end_s, round_start + end) - max(start_s, round_start + begin)
            total += max(0, overlap) * mbps * 125_000
        round_start += trace.period_s
    return total


@given(start=moments, size=sizes, rate=st.fractions(1, 10**8))
def test_steady_pace_is_exact(start: Fraction, size: int, rate: Fraction) -> None:
    pace = SteadyPace(rate)
    end = pace.finish_s(start, size)
    assert end == start + size / rate
    assert pace.carried_bytes(start, end) == size


def test_an_unlimited_pace_takes_no_time() -> None:
    assert SteadyPace(math.inf).finish_s(3.5, 10**9) == 3.5


@given(trace=traces(), start=moments, length=moments, origin=moments)
def test_a_trace_carries_what_walking_its_steps_adds_up_to(
    trace: BandwidthTrace, start: Fraction, length: Fraction, origin: Fraction
) -> None:
    pace = TracePace(trace, origin)
    carried = pace.carried_bytes(origin + start, origin + start + length)
    assert carried == carried_by_walking(trace, start, start + length)


@given(trace=traces(), start=moments, size=sizes)
def test_the_last_byte_is_through_at_the_first_moment_it_can_be(
    trace: BandwidthTrace, start: Fraction, size: int
) -> None:
    pace = TracePace(trace, 0)
    end = pace.finish_s(start, size)
    assert end >= start
    assert carried_by_walking(trace, start, end) == size
    if size:
        just_before = max(start, end - Fraction(1, 10**9))
        assert carried_by_walking(trace, start, just_before) < size


@given(trace=traces(), start=moments, first=sizes, second=sizes)
def test_two_pieces_take_as_long_as_one(
    trace: BandwidthTrace, start: Fraction, first: int, second: int
) -> None:
    pace = TracePace(trace, 0)
    assert pace.finish_s(pace.finish_s(start, first), second) == pace.finish_s(
        start, first + second
    )


def test_real_traces_carry_their_own_mean(shared: Path) -> None:
    for path in sorted((shared / "data" / "traces").glob("*.csv")):
        trace = BandwidthTrace.from_csv(path)
        pace = TracePace(trace, 0)
        per_round = pace.carried_bytes(0, trace.period_s)
        assert pace.finish_s(0, 3.5 * per_round) == pytest.approx(
            3 * trace.period_s + pace.finish_s(0, per_round / 2)
        )
