"""From how long messages of different sizes took to the rate of a link. Pure and light.

One message divided by its time tells little: round trip, hand-overs between threads and the time
to start are in it. They are the same for a large and a small message, so the rate is the slope:
the bytes by which two sizes differ, over the time by which they differ, each the median of what was
seen of that size. Sizes grow until the difference is long enough to be measured.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.rates import HIGHEST_MBPS, LOWEST_MBPS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Room", "Sample", "estimate_mbps", "is_rough", "next_size_bytes"]

_FIRST_BYTES = 2_048  # 16 ms at 1 Mbit/s
_FACTOR = 8.0
_LONG_ENOUGH_S = 0.12
_REPEATS = 3
_ROUGH_S = 0.010  # a busy machine wakes a thread some milliseconds late
_ROUGH_SHARE = 0.1  # and a round trip varies by a part of itself
_SHORTEST_S = 1e-6


@dataclass(frozen=True)
class Sample:
    """One message: the size of what was timed, and seconds until the answer was there."""

    size_bytes: int
    seconds: float


@dataclass(frozen=True)
class Room:
    """What may still be spent on one direction.

    Attributes:
        size_bytes: In messages of the largest size allowed.
        seconds: Until the measurement must be over.
        largest_bytes: Of one message.
    """

    size_bytes: float
    seconds: float
    largest_bytes: int


def estimate_mbps(samples: Sequence[Sample]) -> float:
    """Return the rate in 10^6 bits a second: the slope from the smallest to the largest size.

    Raises:
        ValueError: All samples are of one size.
    """
    smallest, largest = _ends(samples)
    if smallest == largest:
        raise ValueError(f"a rate takes messages of two sizes, not only of {smallest} bytes")
    extra_s = max(_median_s(samples, largest) - _median_s(samples, smallest), _SHORTEST_S)
    rate_mbps = (largest - smallest) * 8 / extra_s / 1e6
    return min(max(rate_mbps, LOWEST_MBPS), HIGHEST_MBPS)


def is_rough(samples: Sequence[Sample]) -> bool:
    """Whether the largest messages took so little longer that the rate may be far off."""
    smallest, largest = _ends(samples)
    base_s = _median_s(samples, smallest)
    return _median_s(samples, largest) - base_s < max(_ROUGH_S, _ROUGH_SHARE * base_s)


def next_size_bytes(samples: Sequence[Sample], room: Room) -> int | None:
    """Return the size of the next message to time, or ``None`` if enough is known.

    Args:
        samples: What was seen of this direction; the smallest messages at least.
        room: What may still be spent on it.
    """
    smallest, largest = _ends(samples)
    if largest == smallest:
        return _FIRST_BYTES
    base_s = _median_s(samples, smallest)
    extra_s = _median_s(samples, largest) - base_s
    growth = min(_LONG_ENOUGH_S / extra_s, _FACTOR) if extra_s > 0 else _FACTOR
    grown = min(math.ceil(largest * growth), room.largest_bytes)
    seen = sum(sample.size_bytes == largest for sample in samples)
    wanted = [largest] if seen < _REPEATS else []
    if extra_s < _LONG_ENOUGH_S and grown > largest:
        wanted = [grown, largest]

    def fits(size_bytes: int) -> bool:
        time_s = base_s + max(extra_s, 0.0) * size_bytes / largest
        return size_bytes <= room.size_bytes and time_s <= room.seconds

    return next(filter(fits, wanted), None)


def _ends(samples: Sequence[Sample]) -> tuple[int, int]:
    sizes = [sample.size_bytes for sample in samples]
    return min(sizes), max(sizes)


def _median_s(samples: Sequence[Sample], size_bytes: int) -> float:
    return statistics.median(
        sample.seconds for sample in samples if sample.size_bytes == size_bytes
    )
