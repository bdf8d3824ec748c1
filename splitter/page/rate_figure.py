"""How the best cut depends on the uplink. Pure and light."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from splitter.family import Family, Member
from splitter.page.elements import Markup, joined, number, table, tag
from splitter.page.plots import Plot, stacked
from splitter.page.scales import LogScale
from splitter.plans import Plan

_POINTS = 65
_LEVEL_PX, _LABEL_PX, _PHONE_PX = 16, 54.0, 270.0
_ROOM_PX = 20.0
_LEAST_MS = 1e-3  # what takes no time has no place on a logarithmic axis


def rate_sweep(plan: Plan, family: Family, numbers: Mapping[str, int]) -> Markup:
    """Return latency against the uplink for each member of the family, and where the best changes.

    Args:
        plan: For its link.
        family: What is drawn, at its own round trip and load.
        numbers: Number of each cut on the page.
    """
    low, high = family.box.uplink_mbps
    rates = [low * (high / low) ** (i / (_POINTS - 1)) for i in range(_POINTS)]
    rates = sorted({*rates, *(each.uplink_mbps for each in family.crossovers)})
    lines = {
        member.cut: [_latency_ms(family, member, rate) for rate in rates]
        for member in family.members
    }
    envelope = [min(values) for values in zip(*lines.values(), strict=True)]
    # Members that are never near the best may be far above it.
    shown = [value for values in lines.values() for value in values if value <= 4 * max(envelope)]
    plot = Plot(
        LogScale(low, high),
        LogScale.around([*shown, *envelope]),
        "uplink, Mbit/s (log scale)",
        "latency of a frame, ms (log scale)",
    )
    curves = (
        tag("g", tag("title", cut), plot.curve(_visible(plot, rates, values), "member"))
        for cut, values in lines.items()
    )
    marks, head = _marks(plot, plan, family)
    figure = plot.figure(
        "Latency against the uplink",
        _description(plan, family),
        *curves,
        plot.curve(zip(rates, envelope, strict=True), "envelope"),
        *marks,
        *_names(plot, plan, family, numbers),
        head=head,
    )
    return joined([figure, _segments_table(family, numbers)])


def segments(family: Family) -> list[tuple[float, float, Member]]:
    """Return from which rate to which each cut is the best, slow rates first."""
    by_cut = {member.cut: member for member in family.members}
    low, high = family.box.uplink_mbps
    rates = [low, *(each.uplink_mbps for each in family.crossovers), high]
    first = (
        by_cut[family.crossovers[0].slower]
        if family.crossovers
        else family.best(math.sqrt(low * high), family.rtt_ms, family.load)
    )
    best = [first, *(by_cut[each.faster] for each in family.crossovers)]
    return list(zip(rates[:-1], rates[1:], best, strict=True))


def _latency_ms(family: Family, member: Member, rate: float) -> float:
    return max(member.latency_ms(rate, family.rtt_ms, family.load), _LEAST_MS)


def _visible(
    plot: Plot, rates: Sequence[float], values: Sequence[float]
) -> Iterator[tuple[float, float]]:
    """The part of a line that is not above the figure; it falls, so that is one piece."""
    for rate, value in zip(rates, values, strict=True):
        if plot.y.place(value) <= 1:
            yield rate, value


def _marks(plot: Plot, plan: Plan, family: Family) -> tuple[list[Markup], int]:
    """Lines at the crossovers and at the link's own rate, and the height of their numbers."""
    now = plan.link.uplink_mbps
    marks = [
        (each.uplink_mbps, f"{each.uplink_mbps:.3g}", "crossover") for each in family.crossovers
    ]
    marks = sorted([*marks, (now, f"now {now:.3g}", "now")])
    levels = stacked([plot.x.place(rate) for rate, _, _ in marks], _LABEL_PX / _PHONE_PX)
    drawn = []
    for (rate, text, class_), level in zip(marks, levels, strict=True):
        x, y = plot.across(rate), -8 - _LEVEL_PX * level
        drawn.append(tag("line", x1=x, x2=x, y1=y + 4, y2=plot.height, class_=class_))
        drawn.append(
            tag("text", text, x=x, y=y, class_=f"mark {class_} point-label", text_anchor="middle")
        )
    return drawn, _LEVEL_PX * (max(levels) + 1)


def _names(plot: Plot, plan: Plan, family: Family, numbers: Mapping[str, int]) -> Iterator[Markup]:
    """The number of the best cut by each piece of the envelope that has room for it."""
    now = plot.x.place(plan.link.uplink_mbps)
    for start, end, member in segments(family):
        if plot.x.place(end) - plot.x.place(start) < _ROOM_PX / _PHONE_PX:
            continue
        middle = math.sqrt(start * end)
        y = plot.down(_latency_ms(family, member, middle))
        beside = abs(plot.x.place(middle) - now) < _ROOM_PX / _PHONE_PX
        yield tag(
            "text",
            str(numbers[member.cut]),
            x=plot.across(middle),
            y=y + 18 if y + 22 < plot.height else y - 10,
            dx=_ROOM_PX if beside else None,
            class_="point-label",
            text_anchor="middle",
        )


def _description(plan: Plan, family: Family) -> str:
    pieces = ", ".join(
        f"{member.cut} from {start:.3g} to {end:.3g}" for start, end, member in segments(family)
    )
    return f"The best by uplink in Mbit/s: {pieces}. The link has {plan.link.uplink_mbps:.3g}."


def _segments_table(family: Family, numbers: Mapping[str, int]) -> Markup:
    rows = []
    for start, end, member in segments(family):
        label = joined(
            [tag("span", str(numbers[member.cut]), class_="sign"), tag("code", member.cut)], " "
        )
        latencies = (_latency_ms(family, member, rate) for rate in (start, end))
        rows.append(
            [
                label,
                number(f"{start:.3g}", start),
                number(f"{end:.3g}", end),
                *(number(f"{value:,.2f}", value) for value in latencies),
                number(f"{member.uplink_bytes:,.0f}", member.uplink_bytes),
            ]
        )
    headers = ["best cut", "from Mbit/s", "to Mbit/s", "ms there", "ms at the end", "bytes up"]
    return table("The best cut by uplink", headers, rows, class_="compact")
