"""The rate from sizes and seconds: a pure function, tried on links of pure arithmetic."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.links.estimate import Room, Sample, estimate_mbps, is_rough, next_size_bytes
from protocol.testing import FakeClock

LARGEST_BYTES = 512 * 1024
MOST_BYTES, MOST_S = 1_900_000, 1.2


def probe(
    mbps: float, rtt_s: float = 0.02, late_s: float = 0.0, seed: int = 0
) -> tuple[list[Sample], int, float]:
    """Probe one direction of a link; returns the samples, their bytes and what they took."""
    clock, late = FakeClock(), random.Random(seed)

    def send(size_bytes: int) -> Sample:
        seconds = rtt_s + size_bytes * 8 / (mbps * 1e6) + late.uniform(0, late_s)
        clock.advance(seconds)
        return Sample(size_bytes, seconds)

    samples = [send(0) for _ in range(5)]
    clock, room_bytes = FakeClock(), MOST_BYTES
    while True:
        room = Room(room_bytes, MOST_S - clock.monotonic(), LARGEST_BYTES)
        size_bytes = next_size_bytes(samples, room)
        if size_bytes is None:
            return samples, MOST_BYTES - room_bytes, clock.monotonic()
        samples.append(send(size_bytes))
        room_bytes -= size_bytes


@settings(deadline=None)
@given(st.floats(0.2, 1000), st.floats(0, 0.1))
def test_the_rate_of_a_quiet_link_is_found(mbps: float, rtt_s: float) -> None:
    samples, size_bytes, seconds = probe(mbps, rtt_s)
    assert estimate_mbps(samples) == pytest.approx(mbps, rel=1e-3)
    assert size_bytes <= MOST_BYTES
    assert seconds <= MOST_S


@settings(deadline=None)
@given(st.floats(1, 200), st.integers(0, 1000))
def test_a_machine_that_wakes_late_costs_less_than_a_tenth(mbps: float, seed: int) -> None:
    samples, _, _ = probe(mbps, late_s=0.002, seed=seed)
    assert estimate_mbps(samples) == pytest.approx(mbps, rel=0.1)


@settings(deadline=None)
@given(st.floats(0.005, 5000), st.floats(0, 2), st.floats(0, 0.05), st.integers(0, 1000))
def test_it_ends_whatever_the_link_is_like(
    mbps: float, rtt_s: float, late_s: float, seed: int
) -> None:
    samples, size_bytes, _ = probe(mbps, rtt_s, late_s, seed)
    assert len(samples) < 25
    assert size_bytes <= MOST_BYTES
    assert 1e-4 <= estimate_mbps(samples) <= 1e6


def test_a_constant_delay_does_not_count() -> None:
    """One message divided by its time would say 4 Mbit/s."""
    samples = [Sample(0, 0.1), Sample(100_000, 0.2)]
    assert estimate_mbps(samples) == pytest.approx(8)


def test_one_late_message_does_not_count() -> None:
    samples = [Sample(0, 0.1), Sample(0, 0.1), Sample(0, 0.9)]
    samples += [Sample(100_000, 0.2), Sample(100_000, 0.2), Sample(100_000, 0.7)]
    assert estimate_mbps(samples) == pytest.approx(8)


def test_larger_messages_that_take_no_longer_are_a_fast_link_and_a_rough_guess() -> None:
    samples = [Sample(0, 0.1), Sample(LARGEST_BYTES, 0.09)]
    assert estimate_mbps(samples) == 1e6
    assert is_rough(samples)
    assert not is_rough([Sample(0, 0.1), Sample(LARGEST_BYTES, 0.12)])


def test_one_size_is_no_slope() -> None:
    with pytest.raises(ValueError, match="two sizes, not only of 0 bytes"):
        estimate_mbps([Sample(0, 0.1), Sample(0, 0.2)])


def test_sizes_grow_until_the_time_is_long_enough_and_are_then_repeated() -> None:
    samples, _, _ = probe(20)
    sizes = [sample.size_bytes for sample in samples if sample.size_bytes]
    assert sizes == sorted(sizes)
    assert sizes.count(sizes[-1]) == 3
    assert sizes[-1] * 8 / 20e6 >= 0.12
