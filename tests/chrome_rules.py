"""The rules of Chrome's trace event format that a viewer relies on, for the traces we write.

From the format's description ("Trace Event Format", catapult): required keys of each phase, times
in microseconds, and complete events of one thread that lie beside or within each other.
"""

from __future__ import annotations

import json
import math
from typing import Any

ROUNDING_US = 0.002  # times are written with three places


def read_trace(text: str) -> list[dict[str, Any]]:
    """The events of a JSON array whose closing bracket may be missing."""
    assert text.startswith("[")
    closed = text if text.rstrip().endswith("]") else text.rstrip().rstrip(",") + "]"
    events: list[dict[str, Any]] = json.loads(closed, parse_constant=_refuse)
    return events


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def check_trace(text: str) -> list[dict[str, Any]]:
    """Check a trace and return its complete events."""
    events = read_trace(text)
    for event in events:
        assert {"name", "ph", "ts", "pid", "tid"} <= event.keys()
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        assert event["ph"] in {"M", "X"}
        if event["ph"] == "M":
            assert event["name"] in {"process_name", "process_sort_index", "thread_name"}
            assert event["args"].keys() == {
                "sort_index" if event["name"] == "process_sort_index" else "name"
            }
            continue
        for key in ("ts", "dur"):
            assert math.isfinite(event[key])
            assert event[key] >= 0
    complete = [event for event in events if event["ph"] == "X"]
    for lane in {(event["pid"], event["tid"]) for event in complete}:
        _check_nesting([event for event in complete if (event["pid"], event["tid"]) == lane])
        assert {"process_name", "thread_name"} <= {
            event["name"]
            for event in events
            if event["ph"] == "M" and (event["pid"], event["tid"]) == lane
        }
    return complete


def _check_nesting(events: list[dict[str, Any]]) -> None:
    open_ends: list[float] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        start, end = event["ts"], event["ts"] + event["dur"]
        while open_ends and open_ends[-1] <= start + ROUNDING_US:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1] + ROUNDING_US, event
        open_ends.append(end)
