"""What the machines' bands make of latencies, against every corner of them."""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitter.bands import Bands
from splitter.plans import Prediction

_MS = st.floats(0, 100)
_PARTS = st.tuples(_MS, _MS, _MS, _MS)
_BANDS = st.tuples(*[st.floats(0, 0.9)] * 3)


def prediction(**known: Any) -> Prediction:
    """A prediction of which only some figures matter."""
    values: dict[str, Any] = {each.name: 0.0 for each in fields(Prediction)}
    values |= {"bottleneck": "device", "usd_per_1000": None, "kl_nats": None}
    return Prediction(**(values | known))


def cost(device: float, edge: float, cloud: float, rest: float) -> Prediction:
    total = device + edge + cloud + rest
    return prediction(latency_ms=total, device_ms=device, edge_ms=edge, cloud_ms=cloud)


def corners(of: Prediction, bands: tuple[float, float, float]) -> list[float]:
    parts = (of.device_ms, of.edge_ms, of.cloud_ms)
    return [
        of.latency_ms + sum(s * b * p for s, b, p in zip(signs, bands, parts, strict=True))
        for signs in itertools.product((-1, 1), repeat=3)
    ]


@given(_PARTS, _BANDS)
def test_a_range_is_from_the_least_to_the_most(
    parts: tuple[float, float, float, float], bands: tuple[float, float, float]
) -> None:
    every = corners(cost(*parts), bands)
    assert Bands(*bands).range_ms(cost(*parts)) == pytest.approx((min(every), max(every)))


@given(_PARTS, _PARTS, _BANDS)
def test_a_rival_may_win_if_it_does_in_some_corner(
    first: tuple[float, float, float, float],
    second: tuple[float, float, float, float],
    bands: tuple[float, float, float],
) -> None:
    chosen, rival = cost(*first), cost(*second)
    gaps = [
        theirs - ours
        for theirs, ours in zip(corners(rival, bands), corners(chosen, bands), strict=True)
    ]
    if abs(min(gaps)) > 1e-6:
        assert Bands(*bands).may_win(rival, chosen) == (min(gaps) < 0)


def test_a_band_of_more_than_all_does_not_go_below_nothing() -> None:
    low, high = Bands(1.5, 0, 0).range_ms(cost(10, 0, 0, 2))
    assert (low, high) == (2, 27)
