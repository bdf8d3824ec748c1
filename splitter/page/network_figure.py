"""The network with the cut through it. Pure and light."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.text import one_line
from splitter.page.elements import Markup, drawing, joined, number, scrolling, table, tag
from splitter.page.network_boxes import Box, boxes_of
from splitter.page.network_layout import Layout, layout_of
from splitter.plans import CrossingTensor, Plan
from splitter.report import short_name

if TYPE_CHECKING:
    from splitter.cuts import CutSpace

_BOX_PX, _NARROW_PX, _GAP_PX = 122.0, 96.0, 10.0
_LANES = 4  # more are drawn narrow
_BOX_HEIGHT, _ROW_PX = 22, 36
_HEADING_PX, _TENSOR_PX = 26, 32
_MARGIN, _LEAST_WIDTH = 10, 318.0
_CHARACTER_PX = 6.3
_SHOWN_TENSORS = 6


@dataclass(frozen=True)
class _Rows:
    """Where rows and headings are, in pixels from the top.

    Attributes:
        tops: Of each row.
        sections: Top and bottom of each tier.
        height: Of it all.
    """

    tops: tuple[int, ...]
    sections: tuple[tuple[int, int], ...]
    height: int


def network_figure(plan: Plan, space: CutSpace) -> Markup:
    """Return the network from top to bottom, one section a tier, and what crosses between them."""
    crossing = (plan.chosen.tensors, *plan.chosen.onward)
    names = _tier_names(plan)
    network = boxes_of(space, plan.chosen.tiers)
    layout = layout_of(network, len(names), _BOX_PX + _GAP_PX)
    box_px = _BOX_PX
    if layout.width > _LANES * (_BOX_PX + _GAP_PX):
        box_px = _NARROW_PX
        layout = layout_of(network, len(names), _NARROW_PX + _GAP_PX)
    rows = _rows(layout, crossing)
    width = max(layout.width + 2 * _MARGIN, _LEAST_WIDTH)
    left = (width - layout.width) / 2
    marks = [
        *_sections(plan, names, rows, width),
        *(_wire(wire, rows, left) for wire in layout.wires),
        *(
            _box(box, left + centre, rows.tops[row], box_px)
            for box, centre, row in zip(network.boxes, layout.centres, layout.rows, strict=True)
        ),
        *_cuts(plan, crossing, rows, width),
    ]
    svg = drawing(
        f"The network of {one_line(plan.model.name)} with the cut {plan.chosen.cut}",
        _description(plan, names),
        *marks,
        class_="network",
        width=width,
        height=rows.height,
        viewBox=f"0 0 {width:g} {rows.height}",
    )
    beside = [scrolling("The network and its cut", svg)]
    if any(crossing):
        beside.append(_crossing_table(plan, crossing))
    return tag("div", *beside, class_="beside")


def _tier_names(plan: Plan) -> list[str]:
    edges = [machine.name for machine, _ in plan.edges]
    titles = ["edge"] if len(edges) == 1 else [f"edge {i + 1}" for i in range(len(edges))]
    machines = (plan.device.name, *edges, plan.cloud.name)
    pairs = zip(("device", *titles, "cloud"), machines, strict=True)
    return [f"{title}: {one_line(name, 30)}" for title, name in pairs]


def _rows(layout: Layout, crossing: Sequence[Sequence[CrossingTensor]]) -> _Rows:
    tops, sections, y = [0] * layout.tier_rows[-1][1], [], 0
    for tier, (first, end) in enumerate(layout.tier_rows):
        top = y
        y += _HEADING_PX
        for row in range(first, end):
            tops[row] = y
            y += _ROW_PX
        sections.append((top, y))
        if tier < len(crossing) and crossing[tier]:
            lines = min(len(crossing[tier]), _SHOWN_TENSORS)
            more = 18 if len(crossing[tier]) > lines else 0
            y += _HEADING_PX + lines * _TENSOR_PX + more + 8
        else:
            y += 6
    return _Rows(tuple(tops), tuple(sections), y)


def _sections(plan: Plan, names: Sequence[str], rows: _Rows, width: float) -> Iterator[Markup]:
    used = set(plan.chosen.tiers)
    for tier, ((top, bottom), name) in enumerate(zip(rows.sections, names, strict=True)):
        colour = _colour(tier, len(names))
        heading = name if tier in used else f"{name} (runs nothing)"
        yield tag(
            "rect", x=0, y=top, width=width, height=bottom - top, rx=6, class_=f"tier {colour}"
        )
        yield tag("text", heading, x=10, y=top + 17, class_="tier-name")


def _cuts(
    plan: Plan, crossing: Sequence[Sequence[CrossingTensor]], rows: _Rows, width: float
) -> Iterator[Markup]:
    """A dashed line at the upper end of each link that is used, and below it what crosses."""
    for link, tensors in enumerate(crossing):
        if not tensors:
            continue
        y = rows.sections[link][1] + 5
        size = sum(tensor.bytes for tensor in tensors)
        title = "cut" if link == 0 else f"cut above {'the edge' if len(plan.edges) == 1 else link}"
        yield tag("line", x1=0, x2=width, y1=y, y2=y, class_="cut")
        yield _plate(
            f"{title}: {size:,} bytes in {_plural(len(tensors), 'tensor')}", y + 17, "cut-name"
        )
        y += _HEADING_PX
        for tensor in tensors[:_SHOWN_TENSORS]:
            yield _plate(short_name(tensor.name), y + 9, "crossing-name")
            yield _plate(_tensor_text(tensor), y + 22, "crossing")
            y += _TENSOR_PX
        if len(tensors) > _SHOWN_TENSORS:
            more = f"and {len(tensors) - _SHOWN_TENSORS} more, in the table"
            yield _plate(more, y + 9, "crossing")


def _plate(text: str, y: float, class_: str) -> Markup:
    """A text that stays readable where an edge passes behind it."""
    width = len(text) * _CHARACTER_PX + 8
    plate = tag("rect", x=6, y=y - 11, width=width, height=14, class_="plate")
    return tag("g", plate, tag("text", text, x=10, y=y, class_=class_))


def _tensor_text(tensor: CrossingTensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} {tensor.codec} {tensor.bytes:,} bytes"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _colour(tier: int, count: int) -> str:
    return "device" if tier == 0 else "cloud" if tier == count - 1 else "edge"


def _wire(wire: Sequence[tuple[float, int]], rows: _Rows, left: float) -> Markup:
    """An edge: down out of a box, straight past the rows between, down into the other box."""
    x, row = wire[0]
    path = [f"M{left + x:.1f} {rows.tops[row] + _BOX_HEIGHT}"]
    for (start, above), (end, below) in itertools.pairwise(wire):
        y, to = rows.tops[above] + _BOX_HEIGHT, rows.tops[below]
        middle = (y + to) / 2
        path.append(
            f"C{left + start:.1f} {middle:g} {left + end:.1f} {middle:g} {left + end:.1f} {to}"
        )
        if (end, below) != wire[-1]:
            path.append(f"V{to + _BOX_HEIGHT}")
    return tag("path", d=" ".join(path), class_="wire")


def _box(box: Box, centre: float, top: int, width: float) -> Markup:
    text = one_line(box.label, int((width - 8) / _CHARACTER_PX))
    return tag(
        "g",
        tag("title", f"{box.label}: {box.names}"),
        tag(
            "rect",
            x=centre - width / 2,
            y=top,
            width=width,
            height=_BOX_HEIGHT,
            rx=11 if box.kind != "units" else 3,
            class_=f"box {box.kind}",
        ),
        tag("text", text, x=centre, y=top + 15, class_="box-label", text_anchor="middle"),
    )


def _description(plan: Plan, names: Sequence[str]) -> str:
    tiers = plan.chosen.tiers
    counts = (
        f"{name} runs {_plural(tiers.count(tier), 'unit')}" for tier, name in enumerate(names)
    )
    return f"From the inputs at the top to the outputs at the bottom. {'; '.join(counts)}."


def _crossing_table(plan: Plan, crossing: Sequence[Sequence[CrossingTensor]]) -> Markup:
    links = ["device", *(one_line(machine.name) for machine, _ in plan.edges)]
    rows = [
        [
            tag("code", one_line(tensor.name)),
            links[link],
            f"{tensor.dtype} {list(tensor.shape)}",
            tensor.codec,
            number(f"{tensor.bytes:,}", tensor.bytes),
        ]
        for link, tensors in enumerate(crossing)
        for tensor in tensors
    ]
    headers = ["tensor", "leaves", "type and shape", "codec", "bytes"]
    caption = "What crosses the cut"
    down = plan.chosen.predicted.downlink_bytes
    back = tag("p", f"Results come back in {down:,} bytes.") if down else Markup("")
    return tag("div", joined([table(caption, headers, rows, class_="wrap"), back]))
