"""Read events of Chrome's trace format, as ONNX Runtime and other profilers write them. Light.

Read are complete events (``X``) and pairs of begin and end (``B``, ``E``); other kinds name rows or
mark moments and take no time.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from profiler.errors import ProfileError
from protocol.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["Event", "outermost", "read_events", "read_json"]

_LONGEST_US = 1e18  # moments may count from 1970
_LARGEST_BYTES = 1 << 26  # ONNX Runtime writes a kilobyte a kernel and run


@dataclass(frozen=True)
class Event:
    """Something that took time.

    Attributes:
        name: What.
        lane: Process and thread that it ran on.
        start_us: When it began.
        duration_us: How long it took.
        arguments: What else the profiler noted.
    """

    name: str
    lane: tuple[str, str]
    start_us: float
    duration_us: float
    arguments: Mapping[str, Any]

    @property
    def end_us(self) -> float:
        """When it ended."""
        return self.start_us + self.duration_us


def read_json(path: Path) -> Any:
    """Return what is in a JSON file; an array may lack its closing bracket, as the format allows.

    Raises:
        ProfileError: It cannot be read, is too large, or is no JSON.
    """
    shown = repr(os.fspath(path))
    try:
        text = read_file(path, _LARGEST_BYTES)
    except OSError as error:
        raise ProfileError(f"cannot read {shown}: {error.strerror}") from error
    if not text.strip():
        raise ProfileError(f"{shown} is empty; name a profile or a trace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        unclosed = text.rstrip().rstrip(b",")
        if unclosed.lstrip().startswith(b"[") and unclosed.endswith(b"}"):
            try:
                return json.loads(unclosed + b"]")
            except (ValueError, RecursionError):
                pass  # the first error tells where it breaks
        raise ProfileError(f"{shown} is not JSON, or is cut short: {error}") from error


def read_events(items: Sequence[Any]) -> list[Event]:
    """Return the events that took time, in the order in which they began.

    Raises:
        ProfileError: Something is no event, or its time is no time. The message names it.
    """
    events: list[Event] = []
    begun: list[tuple[float, int, Mapping[str, Any]]] = []
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise ProfileError(f"event {index} is {reprlib.repr(item)}; it must be a JSON object")
        phase = item.get("ph")
        if phase == "X":
            events.append(_event(item, _time(item, index, "ts"), _duration(item, index), index))
        elif phase in ("B", "E"):
            begun.append((_time(item, index, "ts"), index, item))
    events.extend(_paired(sorted(begun, key=lambda entry: entry[:2])))
    # Written twice, an event is no second measurement.
    once = {(event.name, event.lane, event.start_us, event.duration_us): event for event in events}
    return sorted(once.values(), key=lambda event: (event.start_us, -event.duration_us))


def outermost(events: Iterable[Event]) -> Iterator[Event]:
    """Leave out events that lie within an earlier one of their lane; they must come in order."""
    ends_us: dict[tuple[str, str], float] = {}
    for event in events:
        end_us = ends_us.get(event.lane, -math.inf)
        if event.end_us > end_us or event.start_us >= end_us:
            ends_us[event.lane] = max(end_us, event.end_us)
            yield event


def _paired(begun: Iterable[tuple[float, int, Mapping[str, Any]]]) -> Iterator[Event]:
    """An end closes what began last on its lane; what a killed process left open took no time."""
    stacks: dict[tuple[str, str], list[tuple[float, int, Mapping[str, Any]]]] = {}
    for time_us, index, item in begun:
        stack = stacks.setdefault(_lane(item), [])
        if item["ph"] == "B":
            stack.append((time_us, index, item))
        elif stack:
            start_us, index_begun, first = stack.pop()
            yield _event(first, start_us, time_us - start_us, index_begun)


def _event(item: Mapping[str, Any], start_us: float, duration_us: float, index: int) -> Event:
    name, arguments = item.get("name"), item.get("args", {})
    if not isinstance(name, str):
        _refuse(item, index, "name", "a text")
    if not isinstance(arguments, Mapping):
        _refuse(item, index, "args", "a JSON object")
    return Event(name, _lane(item), start_us, duration_us, arguments)


def _lane(item: Mapping[str, Any]) -> tuple[str, str]:
    return str(item.get("pid")), str(item.get("tid"))


def _duration(item: Mapping[str, Any], index: int) -> float:
    duration_us = _time(item, index, "dur")
    return duration_us if duration_us >= 0 else _refuse(item, index, "dur", "0 or more")


def _time(item: Mapping[str, Any], index: int, key: str) -> float:
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _refuse(item, index, key, "a number of microseconds")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= _LONGEST_US:  # which no NaN is
        _refuse(item, index, key, f"a number of at most {_LONGEST_US:.0e} microseconds")
    return number


def _refuse(item: Mapping[str, Any], index: int, key: str, wanted: str) -> NoReturn:
    where = f"event {index} ({reprlib.repr(item.get('name'))})"
    if key not in item:
        raise ProfileError(f"{where} has no {key}; it must be {wanted}")
    raise ProfileError(f"{where}: {key} is {reprlib.repr(item[key])}; it must be {wanted}")
