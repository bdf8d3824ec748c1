"""A link whose rate follows a recorded trace, planned for as it varies. Light."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from profiler.errors import LinkError
from profiler.links.link import TransferTime, bits_ms, check_round_trip
from profiler.links.transfer_times import transfer_lines
from protocol.emulator import BandwidthTrace, EmulatorError
from protocol.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TracedLink", "read_trace"]

# Exact times of one message size take some 0.3 s at the limit, and a plan weighs a dozen sizes.
_MOST_STEPS = 20_000
_MOST_BYTES = 1 << 20
# What a frame sends, compressed, is from ten to some hundred kilobytes.
_TYPICAL_BYTES = 100_000.0
_GAP_STEPS = 10


@dataclass(frozen=True)
class TracedLink:
    """A link whose rate follows a trace.

    A frame is as likely at one moment of the trace as at any other, and the trace repeats. Times
    are expectations over all moments; they do not add up over the parts of a message. The effective
    rate is that of one more byte in a typical message: 100 kB divided by how much longer they are
    expected to take than a single byte, which must only wait for the end of an outage. The mean
    rate would flatter the link, for most of it is carried in good moments and most waiting is done
    in bad ones. The effective rate finds the cuts worth ranking; the exact times rank them.

    Attributes:
        trace: The rate over time.
        rtt_ms: Round trip of an empty message.
        name: Of the trace, for people.
    """

    trace: BandwidthTrace
    rtt_ms: float
    name: str
    _times: dict[float, TransferTime] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_round_trip(self.rtt_ms)

    @cached_property
    def uplink_mbps(self) -> float:
        """The effective rate of both directions, in 10^6 bits a second."""
        first, last = (self.uplink_ms(size_bytes) for size_bytes in (1.0, _TYPICAL_BYTES))
        return (_TYPICAL_BYTES - 1) * 8 / ((last - first) * 1e3)

    @property
    def downlink_mbps(self) -> float:
        """See :attr:`uplink_mbps`."""
        return self.uplink_mbps

    @cached_property
    def mean_mbps(self) -> float:
        """The mean over time, in 10^6 bits a second."""
        return self._sum_over_time(self.trace.mbps)

    @cached_property
    def outage_share(self) -> float:
        """Share of the time in which nothing moves."""
        return self._sum_over_time(tuple(float(rate == 0) for rate in self.trace.mbps))

    @cached_property
    def _waiting_ms(self) -> float:
        """How long a single byte is expected to wait for the link."""
        return self.uplink_ms(1.0) - self.rtt_ms / 2

    @property
    def source(self) -> str:
        """See :class:`~profiler.links.link.Link`."""
        return (
            f"trace {self.name}: mean {self.mean_mbps:.3g} Mbit/s over {self.trace.period_s:.0f} s,"
            f" outages {self.outage_share:.0%}; the rate above is what a message's bytes take in "
            f"expectation, after a wait of {self._waiting_ms:.3g} ms for the end of an outage"
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """See :class:`~profiler.links.link.Link`."""
        starts_s, steps_s = self.trace.times_s, self._steps_s
        usual_s = statistics.median(steps_s)
        gaps = [
            (start_s, step_s)
            for start_s, step_s in zip(starts_s, steps_s, strict=True)
            if step_s > _GAP_STEPS * usual_s
        ]
        notes = ["Frames are taken to come at any moment of the trace, which repeats."]
        if len(starts_s) == 1:
            notes.append(f"The trace {self.name} has one line: its rate is taken to last for ever.")
        if gaps:
            start_s, step_s = max(gaps, key=lambda gap: gap[1])
            notes.append(
                f"The trace {self.name} has {len(gaps)} gap{'s' * (len(gaps) > 1)} of more than "
                f"{_GAP_STEPS} times its usual step, the longest of {step_s:g} s at {start_s:g} s; "
                "the rate before a gap is taken to last through it."
            )
        return tuple(notes)

    def uplink_ms(self, size_bytes: float) -> float:
        """Expected time of a message, half of the round trip included."""
        return self.uplink_time(size_bytes).expected_ms

    def downlink_ms(self, size_bytes: float) -> float:
        """Time of an answer, half of the round trip included.

        It follows within moments of a request that got through, which has done the waiting for an
        outage to end; so the answer takes what its bytes take on a link that works.
        """
        return bits_ms(size_bytes, self.downlink_mbps) + self.rtt_ms / 2

    def uplink_time(self, size_bytes: float) -> TransferTime:
        """Expected time of a message, and how it varies with the moment."""
        if size_bytes not in self._times:
            self._times[size_bytes] = self._transfer_time(size_bytes)
        return self._times[size_bytes]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "uplink_mbps": self.uplink_mbps,
            "downlink_mbps": self.downlink_mbps,
            "rtt_ms": self.rtt_ms,
            "source": self.source,
            "trace": {
                "name": self.name,
                "steps": len(self.trace.times_s),
                "period_s": self.trace.period_s,
                "mean_mbps": self.mean_mbps,
                "outage_share": self.outage_share,
            },
        }

    def _transfer_time(self, size_bytes: float) -> TransferTime:
        delay_ms = self.rtt_ms / 2
        if size_bytes <= 0:
            return TransferTime(delay_ms, delay_ms, delay_ms)
        lines = transfer_lines(self.trace, size_bytes)
        times_s = (lines.mean_s(), lines.percentile_s(50), lines.percentile_s(95))
        return TransferTime(*(time_s * 1e3 + delay_ms for time_s in times_s))

    @cached_property
    def _steps_s(self) -> tuple[float, ...]:
        edges_s = (*self.trace.times_s, self.trace.period_s)
        return tuple(end - start for start, end in pairwise(edges_s))

    def _sum_over_time(self, values: tuple[float, ...]) -> float:
        total = sum(value * step for value, step in zip(values, self._steps_s, strict=True))
        return total / self.trace.period_s


def read_trace(path: Path) -> BandwidthTrace:
    """Read a file with the header ``t_s,mbps`` and one step a line, as the link emulator does.

    Raises:
        LinkError: It cannot be read, is no such trace, or is too large to plan with.
    """
    try:
        size_bytes = os.stat(path).st_size  # noqa: PTH116 - of a bad path says no more
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LinkError(
            f"cannot read the trace {one_line(str(path), 80)!r}: {reason} "
            "(a link with a dot or a slash in it names a file)"
        ) from error
    if size_bytes > _MOST_BYTES:
        raise LinkError(
            f"the trace {path} has {size_bytes:,} bytes; the limit is {_MOST_BYTES:,}, "
            "give a part of it"
        )
    try:
        trace = BandwidthTrace.from_csv(path)
    except EmulatorError as error:
        raise LinkError(str(error)) from error
    if len(trace.times_s) > _MOST_STEPS:
        raise LinkError(
            f"the trace {path} has {len(trace.times_s):,} steps; the limit is {_MOST_STEPS:,}, "
            "give a part of it or longer steps"
        )
    return trace
