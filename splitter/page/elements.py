"""HTML and SVG as text in which nothing is forgotten to be escaped. Light.

Whatever is put into an element is escaped unless it is :class:`Markup`, and only the functions here
make that. Names of tensors come from files of strangers.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

_EMPTY_ELEMENTS = frozenset({"meta", "link", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Number(Markup):
    """The cell of a table that holds a number."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a text as it is shown; what cannot be seen, and could steer a reader, is a space."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape("".join(c if c.isprintable() else " " for c in text)))


def tag(name: str, /, *children: str, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: Of the element.
        children: What is in it, escaped unless it is markup.
        attributes: ``class_`` is ``class`` and ``stroke_width`` is ``stroke-width``; those that are
            ``None`` are left out, and those that are ``True`` stand without a value.
    """
    start = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY_ELEMENTS:
        return Markup(f"<{name}{start}>")
    return Markup(f"<{name}{start}>{joined(children)}</{name}>")


def joined(children: Iterable[str], separator: str = "") -> Markup:
    """Return elements and texts one after the other."""
    return Markup(escaped(separator).join(map(escaped, children)))


def _attribute(key: str, value: object) -> str:
    if value is None:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escaped(text)}"'


def percent(fraction: float) -> str:
    """Return a position along an axis for SVG."""
    return f"{fraction * 100:.3f}".rstrip("0").rstrip(".") + "%"


def number(text: str, value: Any, **attributes: object) -> Number:
    """Return a number as people read it that also carries what JSON says."""
    return Number(tag("data", text, value=json.dumps(value), **attributes))


def table(
    caption: str, headers: Sequence[str], rows: Iterable[Sequence[str]], **attributes: object
) -> Markup:
    """Return a table whose first column names the rows, in a box that scrolls if it is too wide."""
    body = (
        tag("tr", tag("th", row[0], scope="row"), *(_cell(cell) for cell in row[1:]))
        for row in rows
    )
    head = tag("tr", *(tag("th", each, scope="col") for each in headers))
    content = tag(
        "table", tag("caption", caption), tag("thead", head), tag("tbody", *body), **attributes
    )
    return scrolling(caption, content)


def scrolling(label: str, *children: str) -> Markup:
    """Return a box that scrolls by itself, by keyboard too."""
    return tag("div", *children, class_="scroll", role="region", tabindex="0", aria_label=label)


def _cell(cell: str) -> Markup:
    return tag("td", cell, class_="number" if isinstance(cell, Number) else None)


def drawing(title: str, description: str, *children: str, **attributes: object) -> Markup:
    """Return an SVG figure with what a screen reader says of it."""
    return tag(
        "svg", tag("title", title), tag("desc", description), *children, role="img", **attributes
    )


def embedded_json(content: Any, identifier: str) -> Markup:
    """Return data for programs: nothing in it ends the element, for there is no ``<`` in it."""
    text = json.dumps(content, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return tag("script", Markup(text), type="application/json", id=identifier)
