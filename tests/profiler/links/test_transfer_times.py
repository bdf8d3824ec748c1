"""Times over all moments of a trace: exact, against brute force and against the link emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.links.transfer_times import transfer_lines
from protocol.emulator import BandwidthTrace, TracePace

MBYTE = 1_000_000


@st.composite
def traces(draw: st.DrawFn) -> BandwidthTrace:
    count = draw(st.integers(1, 8))
    steps = draw(st.lists(st.floats(0.05, 5), min_size=count, max_size=count))
    rates = draw(
        st.lists(st.one_of(st.just(0.0), st.floats(0.1, 50)), min_size=count, max_size=count)
    )
    rates[draw(st.integers(0, count - 1))] = draw(st.floats(0.1, 50))
    return BandwidthTrace((0.0, *np.cumsum(steps[:-1])), tuple(rates))


def sampled_s(trace: BandwidthTrace, size_bytes: float, moments: int) -> np.ndarray:
    """What the emulator's own arithmetic says, one moment after the other."""
    pace = TracePace(trace, 0.0)
    starts_s = (np.arange(moments) + 0.5) / moments * trace.period_s
    return np.array([pace.finish_s(start_s, size_bytes) - start_s for start_s in starts_s])


@settings(max_examples=60, deadline=None)
@given(traces(), st.floats(1, 3e7))
def test_mean_and_percentiles_are_those_of_many_moments(
    trace: BandwidthTrace, size_bytes: float
) -> None:
    moments = 4000
    times_s = sampled_s(trace, size_bytes, moments)
    lines = transfer_lines(trace, size_bytes)
    # Between two sampled moments a time may jump over an outage, once for each.
    off_s = 10 * trace.period_s / moments * len(trace.mbps)
    assert lines.weights.sum() == pytest.approx(1)
    assert lines.mean_s() == pytest.approx(times_s.mean(), rel=1e-3, abs=off_s)
    share = 10 / moments * len(trace.mbps)
    for percent in (50, 95):
        low, high = np.quantile(
            times_s, np.clip([percent / 100 - share, percent / 100 + share], 0, 1)
        )
        time_s = lines.percentile_s(percent)
        assert low - 1e-6 <= time_s <= high + 1e-6 or time_s == pytest.approx(low, abs=off_s)


@settings(max_examples=100, deadline=None)
@given(traces(), st.integers(1, 3))
def test_the_bytes_of_a_round_take_no_more_than_a_round(trace: BandwidthTrace, rounds: int) -> None:
    """What a round carries takes a round, or less where the message need not await an outage."""
    pace = TracePace(trace, 0.0)
    total = pace.carried_bytes(0, trace.period_s)
    lines = transfer_lines(trace, total * rounds)
    assert lines.mean_s() <= rounds * trace.period_s * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(traces(), st.floats(1, 1e7), st.floats(1.01, 5))
def test_a_larger_message_takes_longer(
    trace: BandwidthTrace, size_bytes: float, factor: float
) -> None:
    small, large = (transfer_lines(trace, size) for size in (size_bytes, size_bytes * factor))
    assert large.mean_s() > small.mean_s()
    for percent in (50, 95):
        assert large.percentile_s(percent) >= small.percentile_s(percent) - 1e-9


def test_a_steady_trace_is_a_steady_link() -> None:
    lines = transfer_lines(BandwidthTrace((0.0, 1.0, 2.0), (8.0, 8.0, 8.0)), 2.5 * MBYTE)
    assert lines.mean_s() == pytest.approx(2.5)
    assert lines.percentile_s(50) == lines.percentile_s(95) == pytest.approx(2.5)


def test_half_an_outage_by_hand() -> None:
    """One second at 1 MB/s, one second of nothing, a message of half a MB.

    Sent in the first half second it takes 0.5 s; in the second half, 1.5 s; in the outage, what is
    left of it and 0.5 s, from 1.5 down to 0.5 s.
    """
    lines = transfer_lines(BandwidthTrace((0.0, 1.0), (8.0, 0.0)), MBYTE / 2)
    assert lines.mean_s() == pytest.approx((0.5 * 0.5 + 0.5 * 1.5 + 1.0 * 1.0) / 2)
    assert lines.percentile_s(25) == pytest.approx(0.5)
    assert lines.percentile_s(50) == pytest.approx(1.0)
    assert lines.percentile_s(74) == pytest.approx(1.48)
    assert lines.percentile_s(95) == pytest.approx(1.5)


def test_the_mean_rate_would_flatter() -> None:
    trace = BandwidthTrace((0.0, 1.0), (39.2, 0.8))  # mean 20 Mbit/s
    assert transfer_lines(trace, 10_000).mean_s() > 5 * 10_000 / (20 * 125_000)


def test_a_recorded_drive(shared: Path) -> None:
    path = shared / "data" / "traces" / "mahimahi_ATT-LTE-driving-2016_up.csv"
    trace = BandwidthTrace.from_csv(path)
    for size_bytes in (1_000, 50_000, 2 * MBYTE):
        lines = transfer_lines(trace, size_bytes)
        times_s = sampled_s(trace, size_bytes, 40_000)
        assert lines.mean_s() == pytest.approx(times_s.mean(), rel=2e-3)
        for percent in (50, 95):
            assert lines.percentile_s(percent) == pytest.approx(
                np.quantile(times_s, percent / 100), rel=5e-3
            )
