"""What figures with two axes share: the frame, axes with numbers, curves. Pure and light.

Places along the horizontal axis are percentages, so that a figure fills whatever width there is and
its letters keep their size; along the vertical axis they are pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from splitter.page.elements import Markup, drawing, percent, tag
from splitter.page.scales import Scale, short


@dataclass(frozen=True)
class Plot:
    """A figure with a horizontal and a vertical axis.

    Attributes:
        x: The horizontal axis.
        y: The vertical axis.
        x_title: What it shows, with its unit.
        y_title: Likewise.
        height: In pixels, without the axes' numbers.
    """

    x: Scale
    y: Scale
    x_title: str
    y_title: str
    height: int = 300

    def across(self, value: float) -> str:
        """Return where a value lies on the horizontal axis."""
        return percent(self.x.place(value))

    def down(self, value: float) -> float:
        """Return where a value lies on the vertical axis, in pixels."""
        return (1 - self.y.place(value)) * self.height

    def figure(self, title: str, description: str, *marks: str, head: int = 0) -> Markup:
        """Return the figure with its axes; ``head`` is room above it for marks, in pixels."""
        svg = drawing(
            title,
            description,
            *self._axes(),
            *marks,
            class_="plot",
            width="100%",
            height=self.height,
        )
        above = tag("div", self.y_title, class_="y-title", style=f"margin-bottom:{10 + head}px")
        return tag("div", above, svg, class_="axes")

    def curve(self, points: Iterable[tuple[float, float]], class_: str) -> Markup:
        """Return a line through points."""
        path = " L".join(
            f"{self.x.place(x) * 100:.2f} {(1 - self.y.place(y)) * 100:.2f}" for x, y in points
        )
        line = tag("path", d=f"M{path}", class_=class_, vector_effect="non-scaling-stroke")
        return tag(
            "svg",
            line,
            width="100%",
            height=self.height,
            viewBox="0 0 100 100",
            preserveAspectRatio="none",
        )

    def _axes(self) -> Iterable[Markup]:
        bottom = self.height
        for value in self.y.ticks:
            y = self.down(value)
            yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid")
            yield tag("text", short(value), x=-6, y=y + 4, class_="tick", text_anchor="end")
        for value in self.x.ticks:
            x = self.across(value)
            yield tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 5, class_="axis-line")
            yield tag("text", short(value), x=x, y=bottom + 18, class_="tick", text_anchor="middle")
        yield tag("line", x1="0", x2="100%", y1=bottom, y2=bottom, class_="axis-line")
        yield tag("text", self.x_title, x="50%", y=bottom + 36, class_="tick", text_anchor="middle")


def stacked(places: Sequence[float], width: float) -> list[int]:
    """Return rows for labels at ascending places, such that no two in one row touch.

    Args:
        places: Along the axis, from 0 to 1.
        width: Of a label on the narrowest page, as a share of the axis.
    """
    ends: list[float] = []
    rows = []
    for place in places:
        row = next((i for i, end in enumerate(ends) if place - width / 2 >= end), len(ends))
        ends[row : row + 1] = [place + width / 2]
        rows.append(row)
    return rows
