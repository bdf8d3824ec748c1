"""The worker's log: lines with the time, on a stream, so few that nobody can flood it."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from cloud_worker._lanes import Lane
from protocol import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol import Clock

_LONGEST_LINE = 300
_BURST = 50  # lines at once, where there was silence before
_LINES_PER_S = 1.0


def _local_time() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


class Log:
    """Writes lines from a thread of its own, since a terminal or a pipe may stop taking them.

    Lines above the rate are left out, and their number is told in the next one. What peers say is
    part of some lines: control characters are removed.

    Args:
        stream: Where the lines go.
        clock: For the rate.
        time: The time of day that begins a line.
    """

    def __init__(self, stream: TextIO, clock: Clock, time: Callable[[], str] = _local_time) -> None:
        self._stream = stream
        self._clock = clock
        self._time = time
        self._lane: Lane[str] = Lane("log", self._write)
        self._allowance = float(_BURST)
        self._allowed_at = clock.monotonic()
        self._left_out = 0

    def __call__(self, text: str) -> None:
        """Write a line, soon; this neither waits nor raises."""
        now = self._clock.monotonic()
        refilled = self._allowance + (now - self._allowed_at) * _LINES_PER_S
        self._allowance, self._allowed_at = min(refilled, float(_BURST)), now
        if self._allowance < 1:
            self._left_out += 1
            return
        self._allowance -= 1
        more = f" ({self._left_out} lines before this one were left out)" if self._left_out else ""
        self._left_out = 0
        self._lane.put(f"{self._time()} {one_line(text, _LONGEST_LINE)}{more}\n")

    def close(self, timeout_s: float) -> None:
        """Write what was said, as far as the stream takes it in this time."""
        self._lane.stop(timeout_s)

    def _write(self, line: str) -> None:
        # A reader that went away, or a stream that cannot write a character, ends no worker.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line)
            self._stream.flush()
