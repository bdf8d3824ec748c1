"""Words for people: one-line texts and suggestions for mistyped names."""

from __future__ import annotations

import difflib
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def one_line(text: str, maximum_characters: int | None = None) -> str:
    """Return the text on one line, without control characters.

    Texts come from peers and files too: a line break would break "one line an error", and an
    escape sequence would steer the reader's terminal.

    Args:
        text: Any text.
        maximum_characters: Longer results are cut and end in an ellipsis.
    """
    visible = (" " if unicodedata.category(c) in _UNPRINTABLE else c for c in text)
    line = " ".join("".join(visible).split())
    if maximum_characters is not None and len(line) > maximum_characters:
        line = line[: maximum_characters - 1] + "…"
    return line


def quoted(text: str, maximum_characters: int = 80) -> str:
    """Return what somebody gave as a name, in quotes, on one line and of bounded length."""
    if len(text) > maximum_characters:
        text = text[: maximum_characters - 1] + "…"
    return one_line(repr(text))


# Control, format (which includes direction overrides), surrogates, line and paragraph separators.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known word, or an empty text."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""
