"""Write time lines that Perfetto and chrome://tracing show: the JSON array form of trace events.

Light. Events are written as they come, so that a long run needs no memory for them. The form lets
the closing bracket be missing, so what a killed process leaves behind can still be read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ChromeTrace", "Lane", "Span"]


@dataclass(frozen=True)
class Lane:
    """A row of the time line.

    Attributes:
        process: Number of the group of rows.
        process_name: What the group shows.
        thread: Number of the row in its group.
        thread_name: What the row shows.
    """

    process: int
    process_name: str
    thread: int
    thread_name: str


@dataclass(frozen=True)
class Span:
    """Something that took time.

    Attributes:
        name: What.
        lane: Where it is shown.
        start_ms: When it began, from the start of the time line.
        end_ms: When it ended; not before it began.
        arguments: What is shown when it is selected.
    """

    name: str
    lane: Lane
    start_ms: float
    end_ms: float
    arguments: Mapping[str, Any]


class ChromeTrace:
    """A trace that is being written. A context manager; leaving it closes the array.

    Args:
        stream: Where the text goes; it is flushed after each call and left open.
        lanes: The rows, in the order in which they are shown.
    """

    def __init__(self, stream: TextIO, lanes: Sequence[Lane]) -> None:
        self._stream = stream
        self._separator = "["
        self._write([event for lane in lanes for event in _names(lane)])

    def __enter__(self) -> ChromeTrace:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.write("\n]\n")
        self._stream.flush()

    def add(self, spans: Sequence[Span]) -> None:
        """Write spans; of two on one lane that overlap, one must lie within the other."""
        self._write([_complete(span) for span in spans])

    def _write(self, events: Sequence[Mapping[str, Any]]) -> None:
        # In one piece: a process that is killed then leaves whole events.
        text = ""
        for event in events:
            text += f"{self._separator}\n{json.dumps(event, allow_nan=False)}"
            self._separator = ","
        self._stream.write(text)
        self._stream.flush()


def _names(lane: Lane) -> list[dict[str, Any]]:
    place = {"ph": "M", "ts": 0, "pid": lane.process, "tid": lane.thread}
    return [
        {"name": "process_name", **place, "args": {"name": lane.process_name}},
        {"name": "process_sort_index", **place, "args": {"sort_index": lane.process}},
        {"name": "thread_name", **place, "args": {"name": lane.thread_name}},
    ]


def _complete(span: Span) -> dict[str, Any]:
    start_us, end_us = _microseconds(span.start_ms), _microseconds(span.end_ms)
    return {
        "name": span.name,
        "ph": "X",
        "ts": start_us,
        "dur": round(end_us - start_us, 3),
        "pid": span.lane.process,
        "tid": span.lane.thread,
        "args": dict(span.arguments),
    }


def _microseconds(time_ms: float) -> float:
    return round(time_ms * 1e3, 3)
