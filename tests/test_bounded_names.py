"""A name that a user gives is told back in a few words, however long it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from device_agent import Agent, open_source
from profiler.graph.feeds import resolve_feeds
from profiler.links.parsing import parse_link
from profiler.presets import load_preset
from profiler.providers import provider_name
from profiler.radios import load_radio
from protocol import HeadtailError, parse_codec
from protocol.text import quoted
from tests.device_agent import toys

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "name\n" + "x" * 50_000


@pytest.mark.parametrize(
    "use",
    [
        load_preset,
        load_radio,
        provider_name,
        parse_codec,
        parse_link,
        lambda name: resolve_feeds((), {}, {name: ()}),
        lambda name: Agent(toys.bundle(), cut=name),
        lambda name: open_source(name.replace("x", "y/"), toys.bundle()),
    ],
)
def test_a_complaint_about_a_name_is_short(use: Callable[[str], object]) -> None:
    with pytest.raises(HeadtailError, match="…") as caught:
        use(NAME)
    assert "name" in str(caught.value)
    assert len(str(caught.value)) < 900
    assert not str(caught.value).endswith("…")


def test_a_quoted_name_is_one_line_of_bounded_length() -> None:
    assert quoted("a 'b'\n") == repr("a 'b'\n")
    assert len(quoted(NAME)) < 90
