"""Events are read as Chrome's format means them, and what is no event is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from profiler.errors import ProfileError
from profiler.trace_events import outermost, read_events, read_json

if TYPE_CHECKING:
    from pathlib import Path


def complete(name: str, ts: float, dur: float, **other: Any) -> dict[str, Any]:
    return {"name": name, "ph": "X", "ts": ts, "dur": dur, "pid": 1, "tid": 1, **other}


def mark(phase: str, ts: float, name: str = "", tid: int = 1) -> dict[str, Any]:
    return {"name": name, "ph": phase, "ts": ts, "pid": 1, "tid": tid}


def seen(items: list[Any]) -> list[tuple[str, float, float]]:
    return [(event.name, event.start_us, event.duration_us) for event in read_events(items)]


def test_complete_events_come_in_the_order_of_their_start() -> None:
    items = [complete("b", 10, 2.5), complete("inner", 0, 1), complete("a", 0, 5)]
    assert seen(items) == [("a", 0, 5), ("inner", 0, 1), ("b", 10, 2.5)]


def test_an_end_closes_what_began_last_on_its_thread() -> None:
    items = [
        mark("B", 0, "outer"),
        mark("B", 1, "other", tid=2),
        mark("B", 2, "inner"),
        mark("E", 5),
        mark("E", 9, "outer"),
        mark("E", 7, tid=2),
    ]
    assert seen(items) == [("outer", 0, 9), ("other", 1, 6), ("inner", 2, 3)]


def test_ends_without_beginnings_and_open_ones_take_no_time() -> None:
    assert seen([mark("E", 1), mark("B", 2, "open"), complete("x", 3, 1)]) == [("x", 3, 1)]


def test_other_kinds_of_event_are_passed_over() -> None:
    others = [{"ph": phase, "name": "n"} for phase in ("M", "i", "C", "s", "b", "N")]
    assert seen([*others, {"name": "no phase"}]) == []


def test_events_within_others_of_their_thread_are_left_out() -> None:
    events = read_events(
        [
            complete("a", 0, 10),
            complete("in a", 2, 3),
            complete("beside", 3, 4, tid=2),
            complete("b", 10, 5),
        ]
    )
    assert [event.name for event in outermost(events)] == ["a", "beside", "b"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (7, "event 0 is 7; it must be a JSON object"),
        (complete("c", 0, -1), r"event 0 \('c'\): dur is -1; it must be 0 or more"),
        (
            complete("c", 0, float("nan")),
            "dur is nan; it must be a number of at most 1e\\+18 microseconds",
        ),
        (complete("c", float("inf"), 1), "ts is inf; it must be a number of at most"),
        (complete("c", 0, 10**400), "dur is 1000.*; it must be a number of at most"),
        ({"name": "c", "ph": "X", "ts": 0}, r"event 0 \('c'\) has no dur"),
        ({"name": "c", "ph": "X", "dur": 0}, r"event 0 \('c'\) has no ts"),
        ({"ph": "X", "ts": 0, "dur": 0}, "has no name"),
        ({"ph": "B", "name": "c"}, "has no ts"),
        (complete("c", 0, "1"), "dur is '1'; it must be a number of microseconds"),
        (complete("c", 0, True), "dur is True"),
        (complete("c", 0, 1, args=[]), r"args is \[\]; it must be a JSON object"),
    ],
)
def test_what_is_no_event_is_named(item: Any, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        read_events([item])


def test_an_array_may_lack_its_closing_bracket(tmp_path: Path) -> None:
    """As the format allows, for processes that were killed."""
    path = tmp_path / "t"
    for text in ('[{"a": 1},\n{"a": 2}', '[{"a": 1},\n{"a": 2},\n', '[{"a": 1},\n{"a": 2}\n]'):
        path.write_text(text)
        assert read_json(path) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty; name a profile or a trace"),
        (b" \n", "is empty"),
        (b'[{"a": 1}, {"a"', "is not JSON, or is cut short: .*column"),
        (b'{"traceEvents": [{"a": 1}', "is not JSON, or is cut short"),
        (b"[" * 200_000, "is not JSON, or is cut short"),
        (b"\xff\xfe\x00", "is not JSON"),
        (json.dumps([1]).encode()[:-1] + b"garbage", "is not JSON"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(data)
    with pytest.raises(ProfileError, match=message) as caught:
        read_json(path)
    assert "t.json" in str(caught.value)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(ProfileError, match=r"huge\.json': it holds more than 67,108,864 bytes"):
        read_json(path)
