"""From values to places along an axis, and which values to write there. Pure and light."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_STEPS = (1.0, 2.0, 5.0, 10.0)
_DECADES_OF_MANY = 3.0  # from so many decades on, powers of ten are enough
_CLOSE = 1e-9


class Scale(Protocol):
    """An axis from 0 to 1."""

    @property
    def ticks(self) -> tuple[float, ...]:
        """Round values along the axis, from its start to its end."""
        ...

    def place(self, value: float) -> float:
        """Return where a value lies: 0 at the axis' start, 1 at its end."""
        ...


@dataclass(frozen=True)
class LinearScale:
    """An axis from 0 to the next round value."""

    end: float
    step: float

    @classmethod
    def up_to(cls, largest: float, steps: int = 5) -> LinearScale:
        """Return an axis with about so many steps that holds values from 0 to the largest."""
        if largest <= 0:
            return cls(1.0, 1.0)
        rough = largest / steps
        power = 10.0 ** math.floor(math.log10(rough))
        step = next((s * power for s in _STEPS if s * power >= rough * (1 - _CLOSE)), 10 * power)
        return cls(math.ceil(largest / step - _CLOSE) * step, step)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Multiples of the step."""
        return tuple(self.step * i for i in range(round(self.end / self.step) + 1))

    def place(self, value: float) -> float:
        """Return where a value lies."""
        return value / self.end


@dataclass(frozen=True)
class LogScale:
    """A logarithmic axis; ``zero`` is the share of it that is kept for 0, which has no logarithm.

    Attributes:
        start: Where the axis begins.
        end: Where it ends.
        zero: What lies before the start.
    """

    start: float
    end: float
    zero: float = 0.0

    @classmethod
    def around(cls, values: Sequence[float]) -> LogScale:
        """Return an axis with some air around values, of which some may be 0."""
        positive = [value for value in values if value > 0] or [1.0]
        low, high = min(positive), max(positive)
        air = max((high / low) ** 0.06, 1.05)
        return cls(low / air, high * air, 0.12 if min(values, default=1.0) <= 0 else 0.0)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Powers of ten, with twofold and fivefold between them where there are few; and 0."""
        decades = math.log10(self.end / self.start)
        factors = (1.0,) if decades > _DECADES_OF_MANY else (1.0, 2.0, 5.0)
        if decades < 1:
            inside = self._fine_ticks()
        else:
            powers = range(math.floor(math.log10(self.start)), math.ceil(math.log10(self.end)) + 1)
            every = (factor * 10.0**power for power in powers for factor in factors)
            inside = tuple(value for value in every if self._holds(value))
        return (0.0, *inside) if self.zero else inside

    def _fine_ticks(self) -> tuple[float, ...]:
        """Round values as a linear axis has them: less than a decade may hold no power of ten."""
        step = LinearScale.up_to(self.end - self.start, 4).step
        first = math.ceil(self.start / step - _CLOSE)
        return tuple(step * i for i in range(first, first + 12) if self._holds(step * i))

    def _holds(self, value: float) -> bool:
        return self.start * (1 - _CLOSE) <= value <= self.end * (1 + _CLOSE)

    def place(self, value: float) -> float:
        """Return where a value lies."""
        if value <= 0:
            return self.zero / 3
        share = math.log(value / self.start) / math.log(self.end / self.start)
        return self.zero + (1 - self.zero) * share


def scale_of(values: Sequence[float], most: float) -> LinearScale | LogScale:
    """Return an axis from 0, or a logarithmic one where values differ by more than a factor."""
    positive = [value for value in values if value > 0]
    if positive and max(positive) > most * min(positive):
        return LogScale.around(values)
    return LinearScale.up_to(max(values, default=0.0))


def titled(title: str, scale: Scale) -> str:
    """Return what an axis shows, and whether that is logarithmic."""
    return f"{title} (log scale)" if isinstance(scale, LogScale) else title


def short(value: float) -> str:
    """Return a round value in few characters."""
    for limit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {sign}"
    return f"{value:.3g}"


def spread(
    wanted: Sequence[float], sizes: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Return places for a row of things of these sizes that are as near to the wanted as can be.

    They keep their order and do not overlap. Least squares: neighbours that would overlap move
    together (pool adjacent violators).
    """
    offsets = [0.0]
    for size, following in itertools.pairwise(sizes):
        offsets.append(offsets[-1] + (size + following) / 2)
    pools: list[tuple[float, float, int]] = []  # mean of what is wanted, weight, how many
    for value, offset, weight in zip(wanted, offsets, weights, strict=False):
        pools.append((value - offset, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (mean, heavy, count), (last, more, others) = pools[-2:]
            total = heavy + more
            pools[-2:] = [((mean * heavy + last * more) / total, total, count + others)]
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
