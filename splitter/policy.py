"""How plans do on a link that follows a trace: one cut for ever, or the best of a family. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from profiler.links.traced import TracedLink
from protocol.emulator import TracePace
from splitter.family import Family, Member

_MOMENTS = 2_000


@dataclass(frozen=True)
class Policy:
    """What a way of choosing cuts costs in expectation over the moments of a trace.

    Attributes:
        name: ``static``, ``by rate`` or ``clairvoyant``.
        cuts: Share of the moments in which each cut is chosen.
        latency_ms: Expected latency.
        regret_ms: By how much that is more than for who knows how long each frame will take.
    """

    name: str
    cuts: dict[str, float]
    latency_ms: float
    regret_ms: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return asdict(self)


def trace_policies(family: Family, link: TracedLink, load: float) -> tuple[Policy, ...]:
    """Return the best static cut, the choice by the rate of the moment, and the best of all.

    Frames come at any moment of the trace alike.
    """
    starts_s = (np.arange(_MOMENTS) + 0.5) / _MOMENTS * link.trace.period_s
    pace = TracePace(link.trace, 0.0)
    times = np.array([_times_ms(member, link, load, pace, starts_s) for member in family.members])
    cuts = [member.cut for member in family.members]
    least = times.min(axis=0)
    static = int(times.mean(axis=1).argmin())
    rates = np.array(link.trace.mbps)[
        np.searchsorted(np.array(link.trace.times_s), starts_s, side="right") - 1
    ]
    by_rate = np.array([_choice(family, float(rate), link.rtt_ms, load) for rate in rates])
    moments = np.arange(_MOMENTS)
    chosen = (
        ("static", np.full(_MOMENTS, static)),
        ("by rate", by_rate),
        ("clairvoyant", times.argmin(axis=0)),
    )
    return tuple(
        Policy(
            name,
            {cuts[i]: float(np.mean(choice == i)) for i in np.unique(choice).tolist()},
            float(times[choice, moments].mean()),
            float((times[choice, moments] - least).mean()),
        )
        for name, choice in chosen
    )


def _times_ms(
    member: Member, link: TracedLink, load: float, pace: TracePace, starts_s: np.ndarray
) -> np.ndarray:
    """Latency of a frame that begins at each moment; its message leaves at that moment."""
    rest_ms = member.latency_ms(1.0, link.rtt_ms, load) - member.uplink_bytes * 8e-3
    if not member.uses_link:
        return np.full(len(starts_s), rest_ms)
    sending_s = [pace.finish_s(start, member.uplink_bytes) - start for start in starts_s.tolist()]
    return rest_ms + 1e3 * np.array(sending_s)


def _choice(family: Family, mbps: float, rtt_ms: float, load: float) -> int:
    if mbps <= 0:  # nothing moves: whoever needs no link, else whoever sends least
        return min(
            range(len(family.members)),
            key=lambda i: (family.members[i].uses_link, family.members[i].uplink_bytes),
        )
    values = [member.latency_ms(mbps, rtt_ms, load) for member in family.members]
    return int(np.argmin(values))
