"""Tables, colours and progress for people; plain text wherever nobody looks at a terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Literal, TextIO

from protocol.clock import Clock, SystemClock
from protocol.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

Style = Literal["bold", "dim", "green", "red", "yellow"]

_CODES: dict[Style, int] = {"bold": 1, "dim": 2, "green": 32, "red": 31, "yellow": 33}
_NUMBER = re.compile(r"[-+~]?[\d,.]+(e[-+]?\d+)?\s*(%|x|[a-zA-Z/]{1,7})?|-|")
_REDRAW_SECONDS = 0.1


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at the stream and control sequences mean something there."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, style: Style, stream: TextIO | None = None) -> str:
    """Return the text in a style, or as it is if the stream is no terminal or NO_COLOR is set.

    Args:
        text: What to show.
        style: How to show it.
        stream: Where it will be shown; standard output if not given.
    """
    if os.environ.get("NO_COLOR") or not is_terminal(stream or sys.stdout):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """Return rows under headers, columns aligned, numbers to the right.

    Args:
        rows: Cells, shown as ``str`` shows them; control characters are removed.
        headers: One a column.

    Raises:
        ValueError: A row has another number of cells than there are headers.
    """
    body = [[one_line(str(cell)) for cell in row] for row in rows]
    columns = list(zip(headers, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [all(map(_NUMBER.fullmatch, column[1:])) and bool(body) for column in columns]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(aligned).rstrip()

    rule = ["-" * width for width in widths]
    return "\n".join(map(line, [list(headers), rule, *body]))


class Progress:
    """A line that counts, on a terminal only; it disappears when done.

    Example:
        >>> with Progress("frames", total=3) as progress:
        ...     for _ in range(3):
        ...         progress.advance()
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        stream: TextIO | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Start at zero.

        Args:
            label: What is counted.
            total: How many there will be, if known.
            stream: Where to show it; standard error if not given.
            clock: For tests.
        """
        self._label = label
        self._total = total
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self._shown = is_terminal(self._stream)
        self._done = 0
        self._next_redraw_s = self._clock.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def advance(self, note: str = "") -> None:
        """Count one more.

        Args:
            note: Shown after the count.
        """
        self._done += 1
        now_s = self._clock.monotonic()
        if not self._shown or (now_s < self._next_redraw_s and self._done != self._total):
            return
        # Drawing for every frame would cost more than a fast frame does.
        self._next_redraw_s = now_s + _REDRAW_SECONDS
        count = f"{self._done}/{self._total}" if self._total is not None else f"{self._done}"
        # Terminals without a size, such as those of containers, say 0 in Python 3.10.
        width = (shutil.get_terminal_size().columns or 80) - 1
        text = one_line(f"{self._label} {count} {note}")[:width]
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()
