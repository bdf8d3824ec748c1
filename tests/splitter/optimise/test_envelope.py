"""The envelope finds every plane that is lowest somewhere, and asks little."""

from __future__ import annotations

import numpy as np
import pytest

from splitter.optimise.envelope import Plane, Rectangle, lower_envelope, on_envelope

AREA = Rectangle((0.0, 4.0), (1.0, 3.0))


def random_planes(seed: int, count: int) -> list[Plane]:
    source = np.random.default_rng(seed)
    return [Plane(*source.integers(0, 20, 3).astype(float).tolist()) for _ in range(count)]


def least(planes: list[Plane], x: float, y: float) -> Plane:
    return min(planes, key=lambda plane: plane.at(x, y))


@pytest.mark.parametrize("seed", range(30))
def test_the_envelope_of_few_is_that_of_all(seed: int) -> None:
    planes = random_planes(seed, 60)
    found = lower_envelope(AREA, lambda x, y: least(planes, x, y))
    for x in np.linspace(*AREA.x, 23):
        for y in np.linspace(*AREA.y, 23):
            assert min(plane.at(x, y) for plane in found) == pytest.approx(
                least(planes, x, y).at(x, y)
            )
    assert len(found) < 20


def test_a_range_that_is_a_point() -> None:
    planes = random_planes(3, 40)
    line = Rectangle((0.0, 5.0), (2.0, 2.0))
    found = lower_envelope(line, lambda x, y: least(planes, x, y))
    for x in np.linspace(0, 5, 101):
        expected = least(planes, x, 2.0).at(x, 2.0)
        assert min(plane.at(x, 2.0) for plane in found) == pytest.approx(expected)


def test_planes_that_are_never_lowest_have_no_corner() -> None:
    low, high = Plane(0, 1, 1), Plane(100, 1, 1)
    assert set(on_envelope([low, high], AREA)) == {0}
