"""How fast bytes get through: a steady rate, or one that follows a trace.

All numbers are plain arithmetic on what comes in, so tests can put exact fractions through it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from protocol.emulator.trace import BandwidthTrace

BYTES_PER_S_PER_MBPS = 125_000


class Pace(Protocol):
    """Answers when bytes that start now are through."""

    def finish_s(self, start_s: float, size_bytes: float) -> float:
        """When the last of ``size_bytes`` is through, if the first starts at ``start_s``."""
        ...

    def carried_bytes(self, start_s: float, end_s: float) -> float:
        """How many bytes get through between two moments."""
        ...


class SteadyPace:
    """The same rate for ever; infinity is a link that takes no time."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s

    def finish_s(self, start_s: float, size_bytes: float) -> float:
        """See :class:`Pace`."""
        return start_s + size_bytes / self._bytes_per_s

    def carried_bytes(self, start_s: float, end_s: float) -> float:
        """See :class:`Pace`."""
        return (end_s - start_s) * self._bytes_per_s


class TracePace:
    """A trace that begins at ``origin_s`` and repeats."""

    def __init__(self, trace: BandwidthTrace, origin_s: float) -> None:
        self._origin_s = origin_s
        self._times_s = (*trace.times_s, trace.period_s)
        self._rates = tuple(mbps * BYTES_PER_S_PER_MBPS for mbps in trace.mbps)
        steps = zip(self._rates, self._times_s, self._times_s[1:], strict=False)
        # Bytes carried from the start of a round to the start of each step, and to its end.
        self._carried = (
            0,
            *accumulate(rate * (end - start) for rate, start, end in steps),
        )

    def finish_s(self, start_s: float, size_bytes: float) -> float:
        """See :class:`Pace`."""
        if size_bytes <= 0:
            return start_s
        rounds, rest = divmod(self._carried_until(start_s) + size_bytes, self._carried[-1])
        if (
            rest == 0
        ):  # The last byte of a round leaves in that round, before any outage at its end.
            rounds, rest = rounds - 1, self._carried[-1]
        step = bisect_left(self._carried, rest) - 1
        within_s = self._times_s[step] + (rest - self._carried[step]) / self._rates[step]
        # Rounding must not let bytes leave before they came.
        return max(start_s, self._origin_s + rounds * self._times_s[-1] + within_s)

    def carried_bytes(self, start_s: float, end_s: float) -> float:
        """See :class:`Pace`."""
        return self._carried_until(end_s) - self._carried_until(start_s)

    def _carried_until(self, moment_s: float) -> float:
        rounds, within_s = divmod(moment_s - self._origin_s, self._times_s[-1])
        step = min(bisect_right(self._times_s, within_s), len(self._rates)) - 1
        partial = (within_s - self._times_s[step]) * self._rates[step]
        return rounds * self._carried[-1] + self._carried[step] + partial
