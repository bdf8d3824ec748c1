"""A run on a time line: the format's rules, the places of the parts, and a killed run."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent._timeline import LANES, Timeline, open_timeline
from device_agent.answers import Answer, AnswerTimes, ComputedOn, Reason
from device_agent.errors import OptionError
from profiler.chrome_trace import ChromeTrace
from protocol.testing import FakeClock
from tests.chrome_rules import ROUNDING_US, check_trace

if TYPE_CHECKING:
    from pathlib import Path

DEVICE, LINK, CLOUD = (lane.process for lane in LANES)
PARTS = [
    part.name for part in fields(AnswerTimes) if part.name not in ("latency_ms", "overhead_ms")
]


def answer(number: int, latency_ms: float, preprocess_ms: float = 0.0, **parts: float) -> Answer:
    cut = "device" if parts.keys() == {"device_ms"} else "c1"
    return Answer(
        frame=number,
        source=None,
        computed_on=ComputedOn.CLOUD if "cloud_ms" in parts else ComputedOn.DEVICE,
        reason=Reason.PLANNED,
        cut=cut,
        times=AnswerTimes.of(latency_ms, preprocess_ms, **parts),
        uplink_bytes=3000,
        downlink_bytes=1000,
        deadline_missed=False,
        outputs={"y": np.zeros(1)},
    )


def timeline_of(*frames: tuple[float, Answer]) -> list[dict[str, Any]]:
    """The events of frames that were answered so many seconds after the start."""
    clock, stream = FakeClock(100.0), io.StringIO()
    with ChromeTrace(stream, LANES) as trace:
        timeline = Timeline(trace, clock)
        for seconds, each in frames:
            clock.advance(100.0 + seconds - clock.monotonic())
            timeline.add(each)
    return check_trace(stream.getvalue())


def placed(events: list[dict[str, Any]]) -> list[tuple[str, int, float, float]]:
    return [
        (event["name"], event["pid"], event["ts"] / 1e3, event["dur"] / 1e3) for event in events
    ]


def test_a_frames_life_on_device_link_and_cloud() -> None:
    parts = {
        "device_ms": 4.0,
        "encode_ms": 1.0,
        "network_ms": 8.0,
        "queue_ms": 0.5,
        "decode_ms": 0.25,
        "cloud_ms": 3.0,
        "cloud_encode_ms": 0.25,
    }
    events = timeline_of((1.0, answer(7, 18.0, preprocess_ms=2.0, **parts)))
    assert placed(events) == [
        ("frame 7", DEVICE, 980, 20),
        ("preprocess", DEVICE, 980, 2),
        ("head", DEVICE, 982, 4),
        ("encode", DEVICE, 986, 1),
        ("uplink", LINK, 987, 6),
        ("queue", CLOUD, 993, 0.5),
        ("decode", CLOUD, 993.5, 0.25),
        ("tail", CLOUD, 993.75, 3),
        ("encode results", CLOUD, 996.75, 0.25),
        ("downlink", LINK, 997, 2),
        ("other work", DEVICE, 999, 1),
    ]
    assert events[0]["args"]["computed_on"] == "cloud"
    assert events[0]["args"]["latency_ms"] == 18.0


def test_a_frame_that_was_finished_here() -> None:
    late = answer(0, 100.0, device_ms=5.0, encode_ms=1.0, wait_ms=80.0, finish_ms=14.0)
    names = [name for name, *_ in placed(timeline_of((1.0, late)))]
    assert names == ["frame 0", "head", "encode", "wait in vain", "local tail"]
    alone = answer(1, 9.0, device_ms=9.0)
    names = [name for name, *_ in placed(timeline_of((1.0, alone)))]
    assert names == ["frame 1", "whole model"]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 10),
            st.dictionaries(st.sampled_from(PARTS), st.floats(0, 5000), min_size=1),
        ),
        max_size=5,
    )
)
def test_any_run_keeps_the_rules_and_every_part(
    run: list[tuple[float, dict[str, float]]],
) -> None:
    """Frames do not overlap, even where clocks and parts do not quite agree."""
    frames, now_s = [], 0.0
    for number, (pause_s, parts) in enumerate(run):
        now_s += pause_s
        latency_ms = sum(value for name, value in parts.items() if name != "preprocess_ms")
        frames.append((now_s, answer(number, latency_ms, **parts)))
    events = timeline_of(*frames)
    wholes = [event for event in events if event["name"].startswith("frame ")]
    assert len(wholes) == len(run)
    for earlier, later in pairwise(wholes):
        assert later["ts"] >= earlier["ts"] + earlier["dur"] - ROUNDING_US
    parts_us = sum(event["dur"] for event in events if event not in wholes)
    wanted_us = sum(sum(parts.values()) for _, parts in run) * 1e3
    assert parts_us == pytest.approx(wanted_us, abs=0.01 * len(events) + 0.01)


def test_a_killed_run_leaves_what_it_had_answered(tmp_path: Path) -> None:
    path, clock = tmp_path / "trace.json", FakeClock()
    with open_timeline(path, clock) as timeline:
        for number in range(3):
            clock.advance(1.0)
            timeline.add(answer(number, 9.0, device_ms=9.0))
            names = [event["name"] for event in check_trace(path.read_text())]
            assert names[-2:] == [f"frame {number}", "whole model"]
    json.loads(path.read_text())


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with (
        pytest.raises(OptionError, match=r"cannot write --chrome-trace .*none/t: No such file"),
        open_timeline(tmp_path / "none" / "t", FakeClock()),
    ):
        pass


def test_the_cloud_says_whose_clock_it_is() -> None:
    stream = io.StringIO()
    with ChromeTrace(stream, LANES):
        pass
    assert "durations by its own clock, put between send and receive" in stream.getvalue()
