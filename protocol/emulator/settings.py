"""What a link is like, and the words a person uses for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from protocol.emulator.errors import LinkSettingsError
from protocol.emulator.pace import BYTES_PER_S_PER_MBPS, Pace, SteadyPace, TracePace
from protocol.emulator.schedule import LinkShape
from protocol.emulator.trace import BandwidthTrace
from protocol.rates import LONGEST_MS, LOWEST_MBPS, parse_mbps
from protocol.text import one_line

# A queue must hold what the link carries while a busy machine wakes the emulator late; more would
# only hide the slowness of the link from the sender.
_QUEUE_S = 0.010
_QUEUE_BYTES = (4 * 1448, 1024 * 1024)
# A chunk is about two milliseconds of the link: long enough to cost little, short enough that bytes
# trickle in as they do on a wire.
_CHUNK_S = 0.002
_CHUNK_BYTES = (1448, 32 * 1024)


@dataclass(frozen=True)
class LinkSettings:
    """What a link is like. The default is one that takes no time.

    Attributes:
        uplink_mbps: Rate from the agent to the worker in Mbit/s of payload (headers of TCP and IP
            do not count), or a trace of rates, or infinity.
        downlink_mbps: The same from the worker to the agent.
        rtt_ms: Round-trip time; half of it is spent in each direction.
        jitter_ms: Each chunk travels up to this much longer or shorter, in each direction.
    """

    uplink_mbps: float | BandwidthTrace = math.inf
    downlink_mbps: float | BandwidthTrace = math.inf
    rtt_ms: float = 0
    jitter_ms: float = 0

    def __post_init__(self) -> None:
        for name in ("uplink_mbps", "downlink_mbps"):
            rate = getattr(self, name)
            if not isinstance(rate, BandwidthTrace) and not rate >= LOWEST_MBPS:
                raise LinkSettingsError(
                    f"{name} must be {LOWEST_MBPS:g} or more, not {rate:g}; "
                    "to stop a link, pause it"
                )
        for name in ("rtt_ms", "jitter_ms"):
            value = getattr(self, name)
            if not 0 <= value <= LONGEST_MS:
                raise LinkSettingsError(f"{name} must be 0 to {LONGEST_MS:.0f}, not {value:g}")

    def shape(self, rate: float | BandwidthTrace, link_time_s: float) -> LinkShape:
        """One direction with these delays; a trace begins at ``link_time_s``."""
        pace: Pace
        if isinstance(rate, BandwidthTrace):
            pace = TracePace(rate, link_time_s)
        else:
            pace = SteadyPace(rate * BYTES_PER_S_PER_MBPS)
        return LinkShape(pace, self.rtt_ms / 2000, self.jitter_ms / 1000)

    def queue_bytes(self, rate: float | BandwidthTrace) -> int:
        """How much may wait before the link: its bandwidth-delay product, or 10 ms if that is more.

        Within 5.8 kB and 1 MiB.
        """
        return _amount(rate, max(self.rtt_ms / 1000, _QUEUE_S), _QUEUE_BYTES)


def chunk_bytes(rate: float | BandwidthTrace) -> int:
    """The largest piece that crosses a link of this rate as one: 2 ms of it, 1.4 to 32 kB."""
    return _amount(rate, _CHUNK_S, _CHUNK_BYTES)


def parse_rates(text: str) -> tuple[float, float]:
    """Read ``20mbps/5mbps`` (up, down) or ``20mbps`` (both) as Mbit/s.

    Raises:
        LinkSettingsError: The text is no such pair.
    """
    up, slash, down = text.partition("/")
    try:
        uplink_mbps = parse_mbps(up)
        return uplink_mbps, parse_mbps(down) if slash else uplink_mbps
    except ValueError as error:
        raise LinkSettingsError(
            f"cannot read the rates {one_line(text, 80)!r}: {error}; write 20mbps or 20mbps/5mbps"
        ) from error


def _amount(rate: float | BandwidthTrace, duration_s: float, limits: tuple[int, int]) -> int:
    peak_mbps = rate.peak_mbps if isinstance(rate, BandwidthTrace) else rate
    smallest, largest = limits
    return int(min(max(peak_mbps * BYTES_PER_S_PER_MBPS * duration_s, smallest), largest))
