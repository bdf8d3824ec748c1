"""What a link is to those who plan, and the link of constant rates. Light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from profiler.errors import LinkError
from protocol.rates import HIGHEST_MBPS, LONGEST_MS, LOWEST_MBPS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Link", "SteadyLink", "TransferTime", "bits_ms", "check_round_trip"]


@dataclass(frozen=True)
class TransferTime:
    """How long a message takes that is sent at a moment chosen at random.

    Attributes:
        expected_ms: The mean over all moments.
        p50_ms: Half of the moments are no worse.
        p95_ms: 95 of 100 moments are no worse.
    """

    expected_ms: float
    p50_ms: float
    p95_ms: float


class Link(Protocol):
    """What lies between device and cloud.

    The effective rates are for algorithms that need times which add up over the parts of a message:
    what one more byte costs. Where rates vary, the times below are exact and do not add up.
    """

    @property
    def uplink_mbps(self) -> float:
        """Effective rate from device to cloud, in 10^6 bits a second."""
        ...

    @property
    def downlink_mbps(self) -> float:
        """Effective rate from cloud to device, in 10^6 bits a second."""
        ...

    @property
    def rtt_ms(self) -> float:
        """Round trip of an empty message."""
        ...

    @property
    def source(self) -> str:
        """Where the numbers come from, for people; empty if a user gave them."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a plan should know of the link, one sentence each."""
        ...

    def uplink_ms(self, size_bytes: float) -> float:
        """Expected time of a message to the cloud, half of the round trip included."""
        ...

    def downlink_ms(self, size_bytes: float) -> float:
        """Expected time of a message to the device; see :meth:`uplink_ms`."""
        ...

    def uplink_time(self, size_bytes: float) -> TransferTime:
        """Expected time of a message to the cloud, and how it varies."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping with at least ``uplink_mbps, downlink_mbps, rtt_ms``."""
        ...


@dataclass(frozen=True)
class SteadyLink:
    """A link with constant rates.

    Attributes:
        uplink_mbps: From device to cloud, in 10^6 bits a second.
        downlink_mbps: From cloud to device, in 10^6 bits a second.
        rtt_ms: Round trip of an empty message.
        source: See :class:`Link`.
        power: Name of the power model of its radio, if one is known.
        notes: See :class:`Link`.
    """

    uplink_mbps: float
    downlink_mbps: float
    rtt_ms: float = 0.0
    source: str = ""
    power: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("uplink_mbps", "downlink_mbps"):
            rate = getattr(self, name)
            if not LOWEST_MBPS <= rate <= HIGHEST_MBPS:
                raise LinkError(
                    f"{name} is {rate:g}; it must be {LOWEST_MBPS:g} to {HIGHEST_MBPS:g}"
                )
        check_round_trip(self.rtt_ms)

    def uplink_ms(self, size_bytes: float) -> float:
        """How long a message of this size takes to the cloud: its bits, and half the round trip."""
        return bits_ms(size_bytes, self.uplink_mbps) + self.rtt_ms / 2

    def downlink_ms(self, size_bytes: float) -> float:
        """How long a message of this size takes to the device; see :meth:`uplink_ms`."""
        return bits_ms(size_bytes, self.downlink_mbps) + self.rtt_ms / 2

    def uplink_time(self, size_bytes: float) -> TransferTime:
        """The same time at every moment; see :class:`Link`."""
        time_ms = self.uplink_ms(size_bytes)
        return TransferTime(time_ms, time_ms, time_ms)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping; ``source`` and ``power`` only where they are known."""
        rates: dict[str, Any] = {
            "uplink_mbps": self.uplink_mbps,
            "downlink_mbps": self.downlink_mbps,
            "rtt_ms": self.rtt_ms,
        }
        known = {"source": self.source or None, "power": self.power}
        return rates | {name: value for name, value in known.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SteadyLink:
        """Read what :meth:`to_dict` wrote."""
        return cls(
            float(data["uplink_mbps"]),
            float(data["downlink_mbps"]),
            float(data["rtt_ms"]),
            str(data.get("source", "")),
            data.get("power"),
        )


def check_round_trip(rtt_ms: float) -> None:
    """Refuse a round trip that no link has.

    Raises:
        LinkError: It is out of range.
    """
    if not 0 <= rtt_ms <= LONGEST_MS:
        raise LinkError(f"rtt_ms is {rtt_ms:g}; it must be 0 to {LONGEST_MS:.0f}")


def bits_ms(size_bytes: float, rate_mbps: float) -> float:
    """How long the bits of a message take at a constant rate."""
    return size_bytes * 8 / (rate_mbps * 1e3)
