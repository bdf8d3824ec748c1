"""Whatever is put into an element is text there."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from splitter.page.elements import embedded_json, number, percent, table, tag
from tests.splitter.page.plans import HOSTILE, read_page

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.one_of(st.text(), st.sampled_from([HOSTILE, f"'{HOSTILE}", "]]>", "-->"])))
def test_texts_and_attributes_are_escaped(text: str) -> None:
    read = read_page(tag("p", text, tag("b", "x"), title=text))
    assert [name for name, _ in read.elements] == ["p", "b"]
    shown = "".join(c if c.isprintable() else " " for c in text)
    assert read.elements[0][1] == {"title": shown}


@given(JSON)
def test_embedded_data_is_what_it_was(content: Any) -> None:
    markup = embedded_json(content, "plan")
    read = read_page(markup)
    assert len(read.elements) == 1
    assert json.loads(read.embedded[0]) == content
    assert "<" not in read.embedded[0]


def test_attributes() -> None:
    assert tag("a", class_="b", stroke_width=1.50, x=None, hidden=True) == (
        '<a class="b" stroke-width="1.5" hidden></a>'
    )
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert percent(0.5) == "50%"
    assert percent(1 / 3) == "33.333%"


def test_numbers_carry_what_json_says() -> None:
    rows = [["first", number("1,234.6", 1234.56), "words"]]
    read = read_page(table("caption", ["a", "b", "c"], rows))
    assert read.numbers == [("1,234.6", {"value": "1234.56"})]
    cells = [attributes for name, attributes in read.elements if name == "td"]
    assert cells == [{"class": "number"}, {}]
