"""Traces that are written: the format's rules, and what a killed process leaves behind."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.chrome_trace import ChromeTrace, Lane, Span
from profiler.errors import ProfileError
from profiler.profile import LayerCost
from profiler.profile_trace import write_profile_trace
from profiler.testing import fake_profile
from tests.chrome_rules import check_trace, read_trace

if TYPE_CHECKING:
    from pathlib import Path

LANE = Lane(1, "device", 2, "frames")


def test_an_event_has_what_viewers_need() -> None:
    stream = io.StringIO()
    with ChromeTrace(stream, [LANE]) as trace:
        trace.add([Span('he said "hi"\n', LANE, 1.0, 3.5004, {"bytes": 7})])
    events = json.loads(stream.getvalue())
    assert [event["name"] for event in events[:3]] == [
        "process_name",
        "process_sort_index",
        "thread_name",
    ]
    assert events[3] == {
        "name": 'he said "hi"\n',
        "ph": "X",
        "ts": 1000.0,
        "dur": 2500.4,
        "pid": 1,
        "tid": 2,
        "args": {"bytes": 7},
    }


def test_what_was_added_can_be_read_at_any_time() -> None:
    """Nothing is held back: a killed process leaves all but the closing bracket."""
    stream = io.StringIO()
    trace = ChromeTrace(stream, [LANE])
    for count in range(3):
        complete = [event for event in read_trace(stream.getvalue()) if event["ph"] == "X"]
        assert len(complete) == count
        trace.add([Span("frame", LANE, count, count + 0.5, {})])


def test_nothing_at_all_is_a_trace_too() -> None:
    stream = io.StringIO()
    with ChromeTrace(stream, [LANE]):
        pass
    assert check_trace(stream.getvalue()) == []


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_neighbours_stay_neighbours_when_times_are_rounded(lengths_ms: list[float]) -> None:
    stream = io.StringIO()
    spans, start_ms = [], 0.0
    for length_ms in lengths_ms:
        spans.append(Span("part", LANE, start_ms, start_ms + length_ms, {}))
        start_ms += length_ms
    with ChromeTrace(stream, [LANE]) as trace:
        trace.add([Span("whole", LANE, 0.0, start_ms, {}), *spans])
    assert len(check_trace(stream.getvalue())) == len(lengths_ms) + 1


def test_a_profile_is_one_run_on_a_time_line(tmp_path: Path) -> None:
    layers = (
        LayerCost("relu", ("conv", "relu"), 2.0, 0.1, "Conv", 4096, layout_ms=0.25),
        LayerCost("fc", ("fc",), 1.0, 0.0, "Gemm"),
    )
    profile = replace(
        fake_profile({}), layers=layers, overhead_ms=0.5, unattributed_ms=0.25, whole_ms=4.0
    )
    path = tmp_path / "trace.json"
    write_profile_trace(profile, path)
    events = check_trace(path.read_text())
    json.loads(path.read_text())
    assert [(event["name"], event["ts"], event["dur"]) for event in events] == [
        (f"run of {profile.model.name}", 0, 4000),
        ("overhead", 0, 500),
        ("relu", 500, 2000),
        ("layout change at relu", 2500, 250),
        ("fc", 2750, 1000),
        ("unattributed", 3750, 250),
    ]
    assert events[2]["args"]["nodes"] == ["conv", "relu"]


def test_a_trace_that_cannot_be_written_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"cannot write .*none/t\.json"):
        write_profile_trace(fake_profile({}), tmp_path / "none" / "t.json")
