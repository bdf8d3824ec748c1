"""Where the boxes of a network lie: rows by what needs what, tiers below each other. Pure, light.

The method is Sugiyama's: rows by the longest way, places within a row by the mean of the neighbours
in the rows beside it. A tier begins below all rows of the tiers before it, so that a cut is a
straight line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from splitter.page.network_boxes import Boxes
from splitter.page.scales import spread

_SWEEPS = 12
_WIRE_PX = 14.0  # room for an edge that passes a row
_HEAVY = 1e4  # what a box weighs; a wire weighs 1


@dataclass(frozen=True)
class Layout:
    """Places of boxes.

    Attributes:
        rows: Row of each box.
        centres: Place of each box within its row, in pixels from the left.
        wires: For each edge, its box, where it passes the rows between, and its other box.
        tier_rows: First row of each tier and the first behind it.
        width: Of it all.
    """

    rows: tuple[int, ...]
    centres: tuple[float, ...]
    wires: tuple[tuple[tuple[float, int], ...], ...]
    tier_rows: tuple[tuple[int, int], ...]
    width: float


@dataclass(frozen=True)
class _Point:
    """A box, or, with a row below its own, the place where what it makes passes that row."""

    box: int
    row: int


def layout_of(network: Boxes, tier_count: int, box_px: float) -> Layout:
    """Return where boxes of this width, with what lies between them, are."""
    rows, tier_rows = _rows(network, tier_count)
    last = list(rows)
    for made, reads in network.edges:
        last[made] = max(last[made], rows[reads] - 1)
    points = [_Point(box, row) for box, end in enumerate(last) for row in range(rows[box], end + 1)]
    links = _links(network, rows, points)
    table: list[list[_Point]] = [[] for _ in range(tier_rows[-1][1])]
    for point in points:
        table[point.row].append(point)
    sizes = {p: box_px if rows[p.box] == p.row else _WIRE_PX for p in points}
    centres = _centres(table, links, sizes, rows)
    left = min(centres[p] - sizes[p] / 2 for p in points)
    right = max(centres[p] + sizes[p] / 2 for p in points)
    at = {point: centre - left for point, centre in centres.items()}
    wires = tuple(
        (
            *((at[_Point(made, row)], row) for row in range(rows[made], rows[reads])),
            (at[_Point(reads, rows[reads])], rows[reads]),
        )
        for made, reads in sorted(network.edges)
    )
    places = tuple(at[_Point(box, row)] for box, row in enumerate(rows))
    return Layout(tuple(rows), places, wires, tier_rows, right - left)


def _rows(network: Boxes, tier_count: int) -> tuple[list[int], tuple[tuple[int, int], ...]]:
    """Row of each box, and rows of each tier; inputs lie just above who first reads them."""
    needs: list[list[int]] = [[] for _ in network.boxes]
    for made, reads in network.edges:
        needs[reads].append(made)
    rows = [0] * len(network.boxes)
    tier_rows = []
    start = 0
    for tier in range(tier_count):
        end = start
        for number, box in enumerate(network.boxes):  # makers come before their readers
            if box.tier == tier:
                rows[number] = max([start, *(rows[need] + 1 for need in needs[number])])
                end = max(end, rows[number] + 1)
        tier_rows.append((start, end))
        start = end
    for number, box in enumerate(network.boxes):
        if box.kind == "input":
            first = min((rows[reads] for made, reads in network.edges if made == number), default=1)
            rows[number] = min(first, tier_rows[0][1]) - 1
    return rows, tuple(tier_rows)


def _links(
    network: Boxes, rows: Sequence[int], points: Sequence[_Point]
) -> dict[_Point, list[_Point]]:
    """Points above and below each point that it is drawn together with."""
    links: dict[_Point, list[_Point]] = {point: [] for point in points}
    pairs = {
        (_Point(made, rows[reads] - 1), _Point(reads, rows[reads])) for made, reads in network.edges
    }
    pairs |= {(_Point(p.box, p.row - 1), p) for p in points if p.row > rows[p.box]}
    for above, below in sorted(pairs, key=lambda pair: (pair[0].row, pair[0].box, pair[1].box)):
        links[above].append(below)
        links[below].append(above)
    return links


def _centres(
    table: Sequence[list[_Point]],
    links: Mapping[_Point, list[_Point]],
    sizes: Mapping[_Point, float],
    rows: Sequence[int],
) -> dict[_Point, float]:
    """Sweep down and up: each row is ordered and placed by its neighbours' means."""
    centres: dict[_Point, float] = {}
    for row in table:
        _place(row, [0.0] * len(row), sizes, centres)
    for sweep in range(_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for row in table[::step]:
            wanted = {point: _mean(point, links[point], step, rows, centres) for point in row}
            if sweep < _SWEEPS - 4:  # the last sweeps only move, so that it comes to rest
                row.sort(key=wanted.__getitem__)
            _place(row, [wanted[point] for point in row], sizes, centres)
    return centres


def _mean(
    point: _Point,
    links: Iterable[_Point],
    step: int,
    rows: Sequence[int],
    centres: Mapping[_Point, float],
) -> float:
    """The mean of the neighbours in the row that was placed before, or where it is.

    Boxes go by boxes as far as they can: what only passes does not push a straight way aside.
    """
    before = [each for each in links if each.row == point.row - step]
    boxes = [each for each in before if each.row == rows[each.box]]
    if boxes and point.row == rows[point.box]:
        before = boxes
    return sum(centres[each] for each in before) / len(before) if before else centres[point]


def _place(
    row: Sequence[_Point],
    wanted: Sequence[float],
    sizes: Mapping[_Point, float],
    centres: dict[_Point, float],
) -> None:
    room = [sizes[point] for point in row]
    places = spread(wanted, room, [_HEAVY if size > _WIRE_PX else 1.0 for size in room])
    centres.update(zip(row, places, strict=True))
