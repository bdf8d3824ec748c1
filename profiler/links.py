"""Links between device and cloud: how they are written and how long bytes take on them.

Light.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from profiler.errors import LinkError
from protocol.rates import HIGHEST_MBPS, LONGEST_MS, LOWEST_MBPS, parse_mbps
from protocol.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Link", "parse_link"]

_FORMS = "write 20mbps, 20mbps/5mbps (up/down) or 20mbps/5mbps,rtt=30ms"
_ROUND_TRIP = re.compile(
    r"\s*rtt\s*=\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*ms\s*", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True)
class Link:
    """A link with constant rates.

    Attributes:
        uplink_mbps: From device to cloud, in 10^6 bits a second.
        downlink_mbps: From cloud to device, in 10^6 bits a second.
        rtt_ms: Round trip of an empty message.
    """

    uplink_mbps: float
    downlink_mbps: float
    rtt_ms: float = 0.0

    def __post_init__(self) -> None:
        for name in ("uplink_mbps", "downlink_mbps"):
            rate = getattr(self, name)
            if not LOWEST_MBPS <= rate <= HIGHEST_MBPS:
                raise LinkError(
                    f"{name} is {rate:g}; it must be {LOWEST_MBPS:g} to {HIGHEST_MBPS:g}"
                )
        if not 0 <= self.rtt_ms <= LONGEST_MS:
            raise LinkError(f"rtt_ms is {self.rtt_ms:g}; it must be 0 to {LONGEST_MS:.0f}")

    def uplink_ms(self, size_bytes: float) -> float:
        """How long a message of this size takes to the cloud: its bits, and half the round trip."""
        return _bits_ms(size_bytes, self.uplink_mbps) + self.rtt_ms / 2

    def downlink_ms(self, size_bytes: float) -> float:
        """How long a message of this size takes to the device; see :meth:`uplink_ms`."""
        return _bits_ms(size_bytes, self.downlink_mbps) + self.rtt_ms / 2

    def to_dict(self) -> dict[str, float]:
        """Return a JSON-ready mapping."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Link:
        """Read what :meth:`to_dict` wrote."""
        return cls(float(data["uplink_mbps"]), float(data["downlink_mbps"]), float(data["rtt_ms"]))


def parse_link(text: str) -> Link:
    """Read a link as people type it.

    One rate counts for both directions; without ``rtt`` the round trip is 0 ms.

    Args:
        text: Such as ``20mbps``, ``20mbps/5mbps`` (up/down) or ``800kbps,rtt=30ms``.

    Raises:
        LinkError: The text has another form, or a number is out of range.
    """
    rates, comma, round_trip = text.partition(",")
    up, slash, down = rates.partition("/")
    try:
        uplink_mbps = parse_mbps(up)
        downlink_mbps = parse_mbps(down) if slash else uplink_mbps
        return Link(uplink_mbps, downlink_mbps, _rtt_ms(round_trip) if comma else 0.0)
    except ValueError as error:
        raise LinkError(f"cannot read link {one_line(text, 80)!r}: {error}; {_FORMS}") from error


def _rtt_ms(text: str) -> float:
    match = _ROUND_TRIP.fullmatch(text)
    if match is None:
        raise ValueError(f"{one_line(text, 40)!r} is no round trip")
    return float(match[1])


def _bits_ms(size_bytes: float, rate_mbps: float) -> float:
    return size_bytes * 8 / (rate_mbps * 1e3)
