"""Links between device and cloud: how they are written and how long bytes take on them.

Light.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from profiler.errors import LinkError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Link", "parse_link"]

_FORMS = "write 20mbps, 20mbps/5mbps (up/down) or 20mbps/5mbps,rtt=30ms; units: kbps, mbps, gbps"
_MBPS = {"kbps": 1e-3, "mbps": 1.0, "gbps": 1e3}
_NUMBER = r"([+-]?\d+\.?\d*(?:e[+-]?\d+)?|[+-]?\.\d+|[+-]?nan|[+-]?inf)"
_RATE = rf"{_NUMBER}\s*(kbps|mbps|gbps)"
_LINK = re.compile(
    rf"\s*{_RATE}\s*(?:/\s*{_RATE}\s*)?(?:,\s*rtt\s*=\s*{_NUMBER}\s*ms\s*)?",
    re.ASCII | re.IGNORECASE,
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
            if not (math.isfinite(rate) and rate > 0):
                raise LinkError(f"{name} is {rate:g}; it must be above 0 and finite")
        if not (math.isfinite(self.rtt_ms) and self.rtt_ms >= 0):
            raise LinkError(f"rtt_ms is {self.rtt_ms:g}; it must be 0 or more and finite")

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
    match = _LINK.fullmatch(text)
    if match is None:
        raise LinkError(f"cannot read link {text!r}: {_FORMS}")
    up, up_unit, down, down_unit, rtt = match.groups()
    uplink_mbps = float(up) * _MBPS[up_unit.lower()]
    downlink_mbps = uplink_mbps if down is None else float(down) * _MBPS[down_unit.lower()]
    try:
        return Link(uplink_mbps, downlink_mbps, float(rtt or 0))
    except LinkError as error:
        raise LinkError(f"cannot use link {text!r}: {error}") from error


def _bits_ms(size_bytes: float, rate_mbps: float) -> float:
    return size_bytes * 8 / (rate_mbps * 1e3)
