"""What a run came to."""

from __future__ import annotations

import re

import pytest

from device_agent._link_values import LinkCounters
from device_agent._summary import Summary
from device_agent.answers import Answer, AnswerTimes, ComputedOn, Reason


def answer(latency_ms: float, reason: Reason = Reason.PLANNED, uplink_bytes: int = 100) -> Answer:
    planned = reason is Reason.PLANNED
    return Answer(
        frame=0,
        source=None,
        computed_on=ComputedOn.CLOUD if planned else ComputedOn.DEVICE,
        reason=reason,
        cut="c1",
        times=AnswerTimes.of(latency_ms, 1.5, device_ms=latency_ms),
        uplink_bytes=uplink_bytes,
        downlink_bytes=7,
        deadline_missed=latency_ms > 2000,
        outputs={},
    )


def cells(text: str, name: str) -> list[str]:
    (line,) = re.findall(rf"^{re.escape(name)}  .*$", text, re.MULTILINE)
    return str(line).removeprefix(name).split()


def test_counts_places_reasons_and_bytes() -> None:
    summary = Summary()
    for reason in [Reason.PLANNED] * 3 + [Reason.LATE] + [Reason.OVERDUE] * 2:
        summary.add(answer(2001.0 if reason is Reason.LATE else 10.0, reason))
    text = summary.text("c1", 4, 5, LinkCounters(late=1, raw_pictures=2, raw_picture_bytes=99))
    assert cells(text, "frames") == ["6"]
    assert cells(text, "computed on cloud") == ["3"]
    assert cells(text, "computed on device") == ["3"]
    assert cells(text, "on the device because overdue") == ["2"]
    assert cells(text, "on the device because late") == ["1"]
    assert cells(text, "deadline missed") == ["1"]
    assert cells(text, "skipped") == ["4"]
    assert cells(text, "unanswered") == ["5"]
    assert cells(text, "sent raw, not as JPEG") == ["2"]
    assert cells(text, "bytes sent raw, not as JPEG") == ["99"]
    assert cells(text, "uplink bytes") == ["600"]
    assert cells(text, "uplink bytes a frame") == ["100"]
    assert cells(text, "late replies") == ["1"]
    assert "duplicates" not in text


@pytest.mark.parametrize("frames", [101, 25_001])
def test_tells_median_and_ninetieth_of_the_parts_that_were(frames: int) -> None:
    summary = Summary()
    for number in range(frames):
        summary.add(answer(float(number % 101)))
    text = summary.text("c1", 0, 0, LinkCounters())
    median, ninetieth = map(float, cells(text, "latency"))
    assert median == pytest.approx(50, abs=1)
    assert ninetieth == pytest.approx(90, abs=1)
    assert cells(text, "preprocess") == ["1.50", "1.50"]
    assert "queue" not in text


def test_the_times_of_device_and_cloud_are_kept_apart() -> None:
    summary = Summary()
    for _ in range(3):
        summary.add(answer(10.0))
        summary.add(answer(90.0, Reason.NO_SESSION))
    text = summary.text("c1", 0, 0, LinkCounters())
    assert re.search("^time +device median ms +device p90 ms +cloud median ms", text, re.MULTILINE)
    assert cells(text, "latency") == ["90.00", "90.00", "10.00", "10.00"]


def test_nothing_done_is_no_error() -> None:
    assert cells(Summary().text("c1", 0, 0, LinkCounters()), "frames") == ["0"]
