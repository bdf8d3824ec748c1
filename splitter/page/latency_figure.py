"""Where the time of each candidate goes, and how far it may be off. Pure and light."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from splitter.bands import Bands
from splitter.bars import PARTS
from splitter.page.elements import Markup, drawing, joined, percent, tag
from splitter.page.entries import Entry
from splitter.page.scales import LinearScale, Scale, scale_of, short, titled
from splitter.page.style import HATCHES
from splitter.plans import Plan, Prediction

_BAR_PX, _ROW_PX, _AXIS_PX = 24, 26, 34
_NARROWEST_PX, _CHARACTER_PX = 290.0, 6.6  # a phone's bar; labels must fit there
_LONGEST = 8.0  # times the decision; longer bars are cut off
_MUCH = 12.0  # ranges that differ so much are drawn on a logarithmic axis


def stacked_latency(entries: Sequence[Entry]) -> Markup:
    """Return a bar for each candidate, all to one scale, with the parts of its latency."""
    costs = [each.candidate.predicted for each in entries]
    most_ms = _LONGEST * costs[0].latency_ms
    scale = LinearScale.up_to(max(ms for cost in costs if (ms := cost.latency_ms) <= most_ms))
    rows = []
    for each, cost in zip(entries, costs, strict=True):
        ends = ", cut off" if cost.latency_ms > scale.end else ""
        rows.append(_row(each, f"{cost.latency_ms:,.2f} ms{ends}", _bar(each, scale)))
    legend = [
        tag("li", _swatch(field), title)
        for field, title, _ in PARTS
        if any(getattr(cost, field) for cost in costs)
    ]
    axis = tag("li", _axis(scale), class_="axis", aria_hidden="true")
    return joined([tag("ul", *legend, class_="legend"), tag("ol", *rows, axis, class_="rows")])


def prediction_bands(plan: Plan, entries: Sequence[Entry]) -> Markup:
    """Return the latency of each candidate with what the machines' uncertainty makes of it."""
    bands, chosen = Bands.of(plan), plan.chosen.predicted
    ranges = [bands.range_ms(each.candidate.predicted) for each in entries]
    scale = scale_of([end for both in ranges for end in both], _MUCH)
    ours = bands.range_ms(chosen)
    rows = []
    for each, (low, high) in zip(entries, ranges, strict=True):
        cost = each.candidate.predicted
        may_win = not each.is_chosen and not each.breaks and bands.may_win(cost, chosen)
        flag = [tag("strong", "may win", class_="role")] if may_win else []
        text = f"{cost.latency_ms:,.1f} ({low:,.1f} to {high:,.1f}) ms"
        rows.append(_row(each, text, _range(each, text, scale, (low, high), ours), *flag))
    axis = tag("li", _axis(scale), class_="axis", aria_hidden="true")
    return tag("ol", *rows, axis, class_="rows bands")


def _row(entry: Entry, figures: str, figure: Markup, *flags: Markup) -> Markup:
    return tag(
        "li",
        tag("div", joined([entry.label, *flags], " "), class_="who"),
        tag("div", figures, class_="figures"),
        figure,
        class_="chosen" if entry.is_chosen else None,
    )


def _bar(entry: Entry, scale: Scale) -> Markup:
    cost = entry.candidate.predicted
    parts, start_ms = [], 0.0
    for field, title, _ in PARTS:
        taken_ms = getattr(cost, field)
        start, end = (min(scale.place(ms), 1.0) for ms in (start_ms, start_ms + taken_ms))
        if end > start:
            parts.append(_part(field, title, start, end - start, taken_ms))
        start_ms += taken_ms
    return drawing(
        f"{entry.name}, {cost.latency_ms:,.2f} ms",
        _parts_text(cost),
        *parts,
        class_="plot",
        width="100%",
        height=_BAR_PX,
    )


def _part(field: str, title: str, start: float, width: float, taken_ms: float) -> Markup:
    name = field.removesuffix("_ms")
    fits = width * _NARROWEST_PX > len(title) * _CHARACTER_PX + 6
    label = tag(
        "text", title, x=percent(start + width / 2), y=17, class_=f"on {name}", text_anchor="middle"
    )
    return tag(
        "g",
        tag("title", f"{title} {taken_ms:,.2f} ms"),
        *_filled(name, (percent(start), percent(width), percent(start + width)), 1, _BAR_PX - 2),
        *([label] if fits else []),
    )


def _filled(name: str, across: tuple[str, str, str], top: int, height: int) -> Iterator[Markup]:
    """A part from its start, of a width, to its end; a broken thick line hatches it."""
    start, width, end = across
    yield tag("rect", x=start, width=width, y=top, height=height, class_=f"part {name}")
    if name in HATCHES:
        middle = top + height // 2
        yield tag("line", x1=start, x2=end, y1=middle, y2=middle, class_=f"hatch {name}")


def _parts_text(cost: Prediction) -> str:
    parts = ((title, getattr(cost, field)) for field, title, _ in PARTS)
    return ", ".join(f"{title} {taken_ms:,.2f} ms" for title, taken_ms in parts if taken_ms)


def _range(
    entry: Entry, text: str, scale: Scale, ends: tuple[float, float], ours: tuple[float, float]
) -> Markup:
    low, high = (scale.place(end) for end in ends)
    start, end = (scale.place(end) for end in ours)
    middle = percent(scale.place(entry.candidate.predicted.latency_ms))
    caps = (
        tag("line", x1=percent(x), x2=percent(x), y1=7, y2=17, class_="whisker")
        for x in (low, high)
    )
    return drawing(
        f"{entry.name}, {text}",
        "The dot is the prediction, the line what the machines' uncertainty makes of it.",
        tag(
            "rect", x=percent(start), width=percent(end - start), y=0, height="100%", class_="ours"
        ),
        tag("line", x1=percent(low), x2=percent(high), y1=12, y2=12, class_="whisker"),
        *caps,
        tag("circle", cx=middle, cy=12, r=5, class_="dot chosen" if entry.is_chosen else "dot"),
        class_="plot",
        width="100%",
        height=_BAR_PX,
    )


def _axis(scale: Scale) -> Markup:
    ticks = []
    for value in scale.ticks:
        x = percent(scale.place(value))
        ticks.append(tag("line", x1=x, x2=x, y1=0, y2=5, class_="axis-line"))
        ticks.append(tag("text", short(value), x=x, y=17, class_="tick", text_anchor="middle"))
    return tag(
        "svg",
        tag("line", x1="0", x2="100%", y1=0, y2=0, class_="axis-line"),
        *ticks,
        tag(
            "text",
            titled("latency of a frame, ms", scale),
            x="50%",
            y=32,
            class_="tick",
            text_anchor="middle",
        ),
        class_="plot",
        width="100%",
        height=_AXIS_PX,
    )


def _swatch(field: str) -> Markup:
    name = field.removesuffix("_ms")
    return tag(
        "svg",
        *_filled(name, ("0", "16", "16"), 0, 14),
        width=16,
        height=14,
        class_="swatch",
        aria_hidden="true",
    )
