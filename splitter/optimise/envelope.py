"""The lower envelope of planes over a rectangle, with an oracle that finds missing planes. Pure.

Every placement's cost is linear in two parameters: a plane. The best cost is the lower envelope of
all planes, which is concave, so a set of planes holds it everywhere if it holds it at the corners
of its own envelope. As long as the oracle knows a lower plane at one of them, it is added.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CLOSE = 1e-7


@dataclass(frozen=True)
class Plane:
    """A cost that is linear in two parameters.

    Attributes:
        base: At the origin.
        x_slope: By the first parameter.
        y_slope: By the second.
    """

    base: float
    x_slope: float
    y_slope: float

    def at(self, x: float, y: float) -> float:
        """Return the cost at a point."""
        return self.base + self.x_slope * x + self.y_slope * y


@dataclass(frozen=True)
class Rectangle:
    """Ranges of the two parameters."""

    x: tuple[float, float]
    y: tuple[float, float]

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """The four corners; fewer if a range is a point."""
        return tuple(dict.fromkeys(itertools.product(self.x, self.y)))


def lower_envelope(area: Rectangle, oracle: Callable[[float, float], Plane]) -> list[Plane]:
    """Return planes whose least is the least of all planes everywhere in the rectangle.

    Args:
        area: Where to look.
        oracle: Returns the lowest of all planes at a point.
    """
    planes: list[Plane] = []
    checked: dict[tuple[float, float], float] = {}
    while True:
        points = corners_of(planes, area) if planes else list(area.corners)
        fresh = next((point for point in points if not _is_checked(point, planes, checked)), None)
        if fresh is None:
            return planes
        plane = oracle(*fresh)
        known = min((other.at(*fresh) for other in planes), default=math.inf)
        if plane.at(*fresh) < known - _CLOSE * max(1.0, abs(known)) or not planes:
            planes.append(plane)
        checked[fresh] = min(known, plane.at(*fresh))


def _is_checked(
    point: tuple[float, float],
    planes: Sequence[Plane],
    checked: dict[tuple[float, float], float],
) -> bool:
    if point not in checked:
        return False
    value = min(plane.at(*point) for plane in planes)
    return abs(value - checked[point]) <= _CLOSE * max(1.0, abs(value))


def corners_of(planes: Sequence[Plane], area: Rectangle) -> list[tuple[float, float]]:
    """Return the corners of the envelope of these planes: where three of planes and sides meet."""
    rows = np.array([[plane.x_slope, plane.y_slope, plane.base] for plane in planes])
    points = list(area.corners)
    for first, second in itertools.combinations(range(len(rows)), 2):
        difference = rows[second] - rows[first]
        points.extend(_on_sides(difference, area))
        for third in range(second + 1, len(rows)):
            points.extend(_meeting(difference, rows[third] - rows[first], area))
    if not points:
        return []
    unique = np.unique(np.array(points), axis=0)
    return [(float(x), float(y)) for x, y in unique]


def _on_sides(difference: NDArray[np.float64], area: Rectangle) -> list[tuple[float, float]]:
    """Where a line, along which two planes are equal, crosses the sides of the rectangle."""
    x_slope, y_slope, base = difference.tolist()
    found = []
    if y_slope:
        found += [(x, -(base + x_slope * x) / y_slope) for x in area.x]
    if x_slope:
        found += [(-(base + y_slope * y) / x_slope, y) for y in area.y]
    return [point for point in found if _inside(point, area)]


def _meeting(
    first: NDArray[np.float64], second: NDArray[np.float64], area: Rectangle
) -> list[tuple[float, float]]:
    determinant = float(first[0] * second[1] - first[1] * second[0])
    if not determinant:
        return []
    point = (
        float(first[1] * second[2] - first[2] * second[1]) / determinant,
        float(first[2] * second[0] - first[0] * second[2]) / determinant,
    )
    return [point] if _inside(point, area) else []


def _inside(point: tuple[float, float], area: Rectangle) -> bool:
    return area.x[0] <= point[0] <= area.x[1] and area.y[0] <= point[1] <= area.y[1]


def on_envelope(planes: Sequence[Plane], area: Rectangle) -> dict[int, list[tuple[float, float]]]:
    """Return the corners of the envelope at which each plane is lowest; none if it never is."""
    found: dict[int, list[tuple[float, float]]] = {}
    for point in corners_of(planes, area):
        values = [plane.at(*point) for plane in planes]
        least = min(values)
        for number, value in enumerate(values):
            if value <= least + _CLOSE * max(1.0, abs(least)):
                found.setdefault(number, []).append(point)
    return found
