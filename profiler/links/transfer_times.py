"""How long a message takes on a link whose rate changes, over all moments to send it. Light.

The trace repeats. Within one round, C(t) counts the bytes carried until t; a message of b bytes
that starts at s is through at the first f with C(f) = C(s) + b. As s moves through the round, the
time f - s is a straight line as long as neither s nor f meets a step of the trace. There are at
most two such meetings a step, and on each piece between them two points tell the whole line. So
mean and percentiles come from sums over the pieces, without sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from protocol.emulator import BandwidthTrace

    Floats = NDArray[np.float64]

__all__ = ["Lines", "transfer_lines"]

_BYTES_PER_S_PER_MBPS = 125_000.0
_HALVINGS = 60  # from a round to less than a nanosecond, whatever the trace
_NO_TIME_S = 1e-12
_HAIR = 1e-12


@dataclass(frozen=True)
class Lines:
    """Transfer times as straight lines over pieces of a round.

    Attributes:
        weights: Share of the round of each piece; they add up to 1.
        least_s: The shortest time on each piece, in seconds.
        most_s: The longest time on each piece.
    """

    weights: Floats
    least_s: Floats
    most_s: Floats

    def mean_s(self) -> float:
        """The mean over all moments of the round."""
        return float(self.weights @ (self.least_s + self.most_s)) / 2

    def percentile_s(self, percent: float) -> float:
        """The time that so many of a hundred moments do not exceed."""
        weights, least_s, most_s = self.weights, self.least_s, self.most_s
        low, high, share = float(least_s.min()), float(most_s.max()), 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            width_s = np.maximum(most_s - least_s, _NO_TIME_S)
            within = share + weights @ np.clip((middle - least_s) / width_s, 0.0, 1.0)
            if within * 100 < percent:
                low = middle
            else:
                high = middle
            # Of pieces below the range all is counted, of those above nothing.
            share += float(weights[most_s <= low].sum())
            left = (most_s > low) & (least_s <= high)
            weights, least_s, most_s = weights[left], least_s[left], most_s[left]
        return high


def transfer_lines(trace: BandwidthTrace, size_bytes: float) -> Lines:
    """Return the times of a message of a size above 0, for all moments of a round."""
    edges_s = np.array((*trace.times_s, trace.period_s))
    rates = np.array(trace.mbps) * _BYTES_PER_S_PER_MBPS
    carried = np.concatenate(([0.0], np.cumsum(rates * np.diff(edges_s))))
    # A hair less, or rounding would put a message behind the outage that it just escapes.
    rounds, rest = divmod(size_bytes - _HAIR * max(size_bytes, carried[-1]), carried[-1])
    # Starts whose message ends just where a step of the trace begins.
    meetings_s = np.interp(np.mod(carried - rest, carried[-1]), carried, edges_s)
    starts_s = np.union1d(edges_s, meetings_s)
    length_s = np.diff(starts_s)
    quarter_s, three_quarters_s = (
        _times_s(starts_s[:-1] + part * length_s, rest, edges_s, rates, carried)
        for part in (0.25, 0.75)
    )
    middle_s = (quarter_s + three_quarters_s) / 2 + rounds * trace.period_s
    half_s = np.abs(three_quarters_s - quarter_s)
    # Rounding must not let a message arrive before it was sent.
    least_s = np.maximum(middle_s - half_s, 0.0)
    return Lines(length_s / trace.period_s, least_s, np.maximum(middle_s + half_s, least_s))


def _times_s(
    starts_s: Floats, size_bytes: float, edges_s: Floats, rates: Floats, carried: Floats
) -> Floats:
    """Times of a message of less than a round's bytes, from given starts within the round."""
    ends = np.interp(starts_s, edges_s, carried) + size_bytes
    again = ends > carried[-1]
    ends = np.where(again, ends - carried[-1], ends)
    # The last byte before an outage leaves before it: the first edge that has carried enough.
    steps = np.maximum(np.searchsorted(carried, ends, side="left") - 1, 0)
    within_s = edges_s[steps] + (ends - carried[steps]) / np.maximum(rates[steps], 1e-300)
    times: Floats = within_s + again * edges_s[-1] - starts_s
    return times
