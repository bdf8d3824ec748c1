"""What can be had for what: candidates by latency, bytes, energy and fidelity. Pure and light."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from splitter.page.elements import Markup, tag
from splitter.page.entries import Entry, front_metrics, pareto_front
from splitter.page.plots import Plot
from splitter.page.scales import scale_of, titled
from splitter.wishes import MetricName

_TITLES = {
    "latency_ms": "latency of a frame, ms",
    "uplink_bytes": "bytes up for a frame",
    "device_energy_mj": "energy of the device for a frame, mJ",
    "kl_nats": "loss of fidelity, nats",
}
_LABEL_PX, _PHONE_PX = (15.0, 11.0), 270.0
_AROUND = ((15, 0), (-15, 0), (0, -15), (0, 15), (12, -11), (12, 11), (-12, -11), (-12, 11))
_MUCH = 12.0  # values that differ so much are drawn on a logarithmic axis


def pareto_figures(entries: Sequence[Entry]) -> Markup:
    """Return latency against each other metric that is known, the front marked."""
    metrics = front_metrics(entries)
    front = pareto_front(entries, metrics)
    figures = (_scatter(entries, front, name) for name in metrics[1:])
    return tag("div", *figures, class_="pair")


@dataclass(frozen=True)
class _Point:
    """A candidate in a figure."""

    entry: Entry
    across: float
    down: float


def _scatter(entries: Sequence[Entry], front: frozenset[int], metric: MetricName) -> Markup:
    costs = [each.candidate.predicted for each in entries]
    across = scale_of([cost.metric(metric) or 0.0 for cost in costs], _MUCH)
    down = scale_of([cost.latency_ms for cost in costs], _MUCH)
    titles = (titled(_TITLES[metric], across), titled(_TITLES["latency_ms"], down))
    plot = Plot(across, down, *titles)
    points = [
        _Point(each, cost.metric(metric) or 0.0, cost.latency_ms)
        for each, cost in zip(entries, costs, strict=True)
    ]
    named = [each for each in points if each.entry.number in front or each.entry.roles]
    listed = ", ".join(each.name for each in entries if each.number in front)
    return plot.figure(
        f"Latency against {_TITLES[metric]}",
        f"Not dominated: {listed}.",
        *(_mark(plot, each, in_front=each.entry.number in front) for each in points),
        *_labels(plot, points, named),
    )


def _mark(plot: Plot, point: _Point, *, in_front: bool) -> Markup:
    entry, x, y = point.entry, plot.across(point.across), plot.down(point.down)
    if entry.breaks:
        shape = tag(
            "text", "\N{MULTIPLICATION SIGN}", x=x, y=y + 5, class_="cross", text_anchor="middle"
        )
    else:
        kind = "dot chosen" if entry.is_chosen else "dot front" if in_front else "dot"
        shape = tag("circle", cx=x, cy=y, r=6.0 if in_front else 4.5, class_=kind)
    text = f"{entry.name}: {point.across:,.6g}; {point.down:,.2f} ms"
    return tag("g", tag("title", text), shape)


def _labels(plot: Plot, points: Sequence[_Point], named: Sequence[_Point]) -> Iterator[Markup]:
    """Numbers beside their points, where they lie on as little as can be on a narrow page."""
    taken = [(plot.x.place(each.across) * _PHONE_PX, plot.down(each.down)) for each in points]
    for point in named:
        x, y = plot.x.place(point.across) * _PHONE_PX, plot.down(point.down)

        def hits(shift: tuple[int, int], x: float = x, y: float = y) -> tuple[int, bool]:
            right, below = x + shift[0], y + shift[1]
            near = (
                abs(right - a) < _LABEL_PX[0] and abs(below - b) < _LABEL_PX[1] for a, b in taken
            )
            return sum(near), not 0 <= right <= _PHONE_PX

        right, below = min(_AROUND, key=hits)
        taken.append((x + right, y + below))
        yield tag(
            "text",
            f"{point.entry.number}{'*' if point.entry.is_chosen else ''}",
            x=plot.across(point.across),
            y=y + below + 4,
            dx=right,
            class_="point-label",
            text_anchor="middle",
        )
