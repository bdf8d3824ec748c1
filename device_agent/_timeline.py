"""A run as a time line, for ``--chrome-trace``: each frame's life on device, link and cloud.

Light. Times on the device are placed by its clock. Of the cloud only durations are known, by its
own clock: they stand one after the other between sending and receiving. What the network took is
known for both ways together, and is shared out by the bytes that went each way.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from device_agent.errors import OptionError
from profiler.chrome_trace import ChromeTrace, Lane, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from device_agent.answers import Answer
    from protocol import Clock

__all__ = ["LANES", "Timeline", "open_timeline"]

_WHOLE = "device"  # the cut that leaves nothing to a worker

_DEVICE = Lane(1, "device", 1, "frames")
_LINK = Lane(2, "link (both ways measured together, shared out by bytes)", 1, "messages")
_CLOUD = Lane(3, "cloud (durations by its own clock, put between send and receive)", 1, "worker")
LANES = (_DEVICE, _LINK, _CLOUD)


@contextmanager
def open_timeline(path: Path, clock: Clock) -> Iterator[Timeline]:
    """Write a time line to a file, which can be read whenever the process ends.

    Raises:
        OptionError: The file cannot be opened.
    """
    try:
        stream = path.open("w", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"cannot write --chrome-trace {path}: {error.strerror}") from error
    with stream, ChromeTrace(stream, LANES) as trace:
        yield Timeline(trace, clock)


class Timeline:
    """Places the parts of answers one after the other.

    Args:
        trace: Where they are written, frame by frame; its lanes are :data:`LANES`.
        clock: The time that the agent measures by. The time line begins now.
    """

    def __init__(self, trace: ChromeTrace, clock: Clock) -> None:
        self._trace = trace
        self._clock = clock
        self._origin_s = clock.monotonic()
        self._free_ms = 0.0  # the device is on an earlier frame until then

    def add(self, answer: Answer) -> None:
        """Write a frame that has been answered just now."""
        now_ms = (self._clock.monotonic() - self._origin_s) * 1000
        spent_ms = answer.times.latency_ms + answer.times.preprocess_ms
        begun_ms = max(self._free_ms, now_ms - spent_ms)
        spans = _frame_spans(answer, begun_ms)
        self._free_ms = max(span.end_ms for span in spans)
        self._trace.add(spans)


def _frame_spans(answer: Answer, begun_ms: float) -> list[Span]:
    """The frame, then its parts, in the order in which they were done."""
    parts = _in_a_row(list(_parts(answer)), begun_ms)
    end_ms = max((span.end_ms for span in parts), default=begun_ms)
    details = {
        "source": answer.source,
        "computed_on": answer.computed_on.value,
        "reason": answer.reason.value,
        "cut": answer.cut,
        "latency_ms": answer.times.latency_ms,
        "uplink_bytes": answer.uplink_bytes,
        "downlink_bytes": answer.downlink_bytes,
        "deadline_missed": answer.deadline_missed,
    }
    return [Span(f"frame {answer.frame}", _DEVICE, begun_ms, end_ms, details), *parts]


def _parts(answer: Answer) -> Iterator[tuple[str, Lane, float]]:
    times = answer.times
    sent, received = answer.uplink_bytes, answer.downlink_bytes
    up = sent / (sent + received) if sent + received else 0.5
    yield "preprocess", _DEVICE, times.preprocess_ms
    yield "whole model" if answer.cut == _WHOLE else "head", _DEVICE, times.device_ms
    yield "encode", _DEVICE, times.encode_ms
    yield "uplink", _LINK, times.network_ms * up
    yield "queue", _CLOUD, times.queue_ms
    yield "decode", _CLOUD, times.decode_ms
    yield "tail", _CLOUD, times.cloud_ms
    yield "encode results", _CLOUD, times.cloud_encode_ms
    yield "downlink", _LINK, times.network_ms * (1 - up)
    yield "wait in vain", _DEVICE, times.wait_ms
    yield "local tail", _DEVICE, times.finish_ms
    yield "other work", _DEVICE, times.overhead_ms


def _in_a_row(parts: Sequence[tuple[str, Lane, float]], start_ms: float) -> list[Span]:
    spans = []
    for name, lane, time_ms in parts:
        if time_ms > 0:
            spans.append(Span(name, lane, start_ms, start_ms + time_ms, {}))
            start_ms += time_ms
    return spans
