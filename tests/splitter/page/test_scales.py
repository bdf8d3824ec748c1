"""Axes hold their values, their ticks are round and few, and nothing in a row overlaps."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitter.page.plots import stacked
from splitter.page.scales import LinearScale, LogScale, scale_of, short, spread

VALUES = st.floats(1e-6, 1e12)


@given(VALUES)
def test_a_linear_axis_holds_what_it_is_for(largest: float) -> None:
    scale = LinearScale.up_to(largest)
    assert scale.ticks[0] == 0
    assert 3 <= len(scale.ticks) <= 7
    assert largest <= scale.ticks[-1] * (1 + 1e-9)
    assert scale.place(scale.ticks[-1]) == pytest.approx(1)
    assert float(f"{scale.step:.0e}") == pytest.approx(scale.step)
    assert f"{scale.step:.0e}"[0] in "125"


@given(st.lists(st.one_of(VALUES, st.just(0.0)), min_size=1))
def test_a_logarithmic_axis_holds_what_it_is_for(values: list[float]) -> None:
    scale = LogScale.around(values)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
    ticks = scale.ticks
    assert 1 <= len(ticks) <= 22
    assert list(ticks) == sorted(ticks)
    assert (0.0 in ticks) == (0.0 in values)
    assert all(0 <= scale.place(tick) <= 1 + 1e-9 for tick in ticks)


def test_ticks_are_those_that_people_expect() -> None:
    assert LinearScale.up_to(68.1).ticks == (0, 20, 40, 60, 80)
    assert LinearScale.up_to(0).ticks == (0, 1)
    assert LogScale(2, 200).ticks == (2, 5, 10, 20, 50, 100, 200)
    assert LogScale(18, 62).ticks == (20, 40, 60)
    assert LogScale(0.5, 3e5).ticks == tuple(10.0**power for power in range(6))


def test_an_axis_is_logarithmic_where_values_differ_much() -> None:
    assert isinstance(scale_of([10, 100], 12), LinearScale)
    assert isinstance(scale_of([0, 10, 200], 12), LogScale)
    assert isinstance(scale_of([], 12), LinearScale)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.5, "0.5"), (150_000, "150 k"), (2e6, "2 M"), (3e9, "3 G")]
)
def test_numbers_of_axes_are_short(value: float, text: str) -> None:
    assert short(value) == text


ROWS = st.lists(
    st.tuples(st.floats(-100, 100), st.floats(1, 50), st.floats(1, 9)), min_size=1, max_size=9
)


@given(ROWS)
def test_things_in_a_row_do_not_overlap(row: list[tuple[float, float, float]]) -> None:
    wanted, sizes, weights = (list(part) for part in zip(*row, strict=True))
    places = spread(wanted, sizes, weights)
    for (place, size), (following, other) in itertools.pairwise(zip(places, sizes, strict=True)):
        assert following - place >= (size + other) / 2 - 1e-6
    # Together they are where they want to be together.
    total = sum(
        weight * (place - want) for place, want, weight in zip(places, wanted, weights, strict=True)
    )
    assert total == pytest.approx(0, abs=1e-6)


def test_what_has_room_stays() -> None:
    assert spread([0, 20, 40], [10, 10, 10], [1, 1, 1]) == [0, 20, 40]
    assert spread([0, 0], [10, 10], [1, 3]) == [-7.5, 2.5]


@given(st.lists(st.floats(0, 1)), st.floats(0.01, 0.5))
def test_labels_of_one_row_do_not_touch(places: list[float], width: float) -> None:
    places.sort()
    rows = stacked(places, width)
    for row in set(rows):
        inside = [place for place, at in zip(places, rows, strict=True) if at == row]
        assert all(b - a >= width - 1e-9 for a, b in itertools.pairwise(inside))
    assert not places or max(rows) < math.inf
