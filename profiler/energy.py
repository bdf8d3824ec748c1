"""What one frame costs the device in energy: computing, transmitting, waiting. Light.

Millijoules are watts times milliseconds. A frame lasts from its inputs being ready to its answer,
or to the next frame where a period is given, and

    device = compute + radio + waiting
    compute = busy power * time in which the device computes
    waiting = idle power * the rest of the frame, times of transfer included
    radio   = power of the radio above that of a device at rest * time of transfer, and the tail

Nothing is counted twice: while bytes are on their way the device itself draws its idle power
(``waiting``), and the radio comes on top. The published lines, P = alpha * throughput + beta *while
transferring*, are therefore taken less what the rest of the measured device drew (``base_mw``,
0 where only the radio was measured): of a whole telephone some 2.3 W are its screen and base, which
a camera does not have and whose own share is in its idle power already.

Some radios stay awake after the last byte (``tail_ms``). A frame pays for it until the radio
sleeps or the next transfer begins, whichever is first: at periods shorter than the tail the radio
never sleeps, and each frame pays for the pause only. A lone frame pays for the whole tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profiler.errors import PowerError

if TYPE_CHECKING:
    from profiler.links.link import Link

__all__ = ["DevicePower", "FrameBytes", "FrameEnergy", "FrameTimes", "Radio", "frame_energy"]


@dataclass(frozen=True)
class DevicePower:
    """What a device draws, radio apart.

    Attributes:
        idle_w: At rest, but awake.
        busy_w: With a network running on all the threads that it is given.
    """

    idle_w: float
    busy_w: float

    def __post_init__(self) -> None:
        if not 0 <= self.idle_w <= self.busy_w < math.inf:
            raise PowerError(
                f"idle_w is {self.idle_w:g} and busy_w {self.busy_w:g}; "
                "give watts with 0 <= idle_w <= busy_w"
            )


@dataclass(frozen=True)
class Radio:
    """A radio whose power is linear in the throughput while it transfers.

    Attributes:
        name: What users type.
        alpha_up_mw_per_mbps: Slope for sending.
        alpha_down_mw_per_mbps: Slope for receiving.
        beta_up_mw: Power while sending, at no throughput.
        beta_down_mw: Power while receiving, at no throughput.
        base_mw: How much of beta is not the radio's.
        tail_mw: Power after the last byte, ``base_mw`` not included.
        tail_ms: How long that lasts; 0 where the radio sleeps at once, or no tail was published.
        verified: Whether the figures were read in their first source.
    """

    name: str
    alpha_up_mw_per_mbps: float
    alpha_down_mw_per_mbps: float
    beta_up_mw: float
    beta_down_mw: float
    base_mw: float = 0.0
    tail_mw: float = 0.0
    tail_ms: float = 0.0
    verified: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name not in {"name", "verified"} and not 0 <= value < math.inf:
                raise PowerError(f"{name} of radio {self.name!r} is {value:g}; give 0 or more")
        if self.base_mw > min(self.beta_up_mw, self.beta_down_mw):
            raise PowerError(
                f"base_mw of radio {self.name!r} is {self.base_mw:g}, more than its beta; "
                "it is the part of beta that is not the radio's"
            )

    def sending_mw(self, mbps: float) -> float:
        """Power of the radio alone while it sends at this rate."""
        return self.alpha_up_mw_per_mbps * mbps + self.beta_up_mw - self.base_mw

    def receiving_mw(self, mbps: float) -> float:
        """Power of the radio alone while it receives at this rate."""
        return self.alpha_down_mw_per_mbps * mbps + self.beta_down_mw - self.base_mw


@dataclass(frozen=True)
class FrameTimes:
    """When the device works in a frame.

    Attributes:
        compute_ms: Head, encoding, and decoding of the result.
        latency_ms: From the inputs being ready to the answer being there.
        period_ms: From one frame to the next; None for a lone frame.
    """

    compute_ms: float
    latency_ms: float
    period_ms: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.compute_ms <= self.latency_ms < math.inf:
            raise PowerError(
                f"compute_ms is {self.compute_ms:g} and latency_ms {self.latency_ms:g}; "
                "computing is part of the latency"
            )
        if self.period_ms is not None and not 0 < self.period_ms < math.inf:
            raise PowerError(f"period_ms is {self.period_ms:g}; give a number above 0, or None")

    @property
    def frame_ms(self) -> float:
        """How long the frame lasts; frames that take longer than the period follow each other."""
        return max(self.latency_ms, self.period_ms or 0.0)


@dataclass(frozen=True)
class FrameBytes:
    """What a frame sends and receives, headers included."""

    uplink_bytes: int
    downlink_bytes: int


@dataclass(frozen=True)
class FrameEnergy:
    """Energy that a frame takes from the device; None where a figure for it is missing.

    Attributes:
        compute_mj: For computing.
        radio_mj: For the radio, above what the device draws at rest, its tail included.
        waiting_mj: For the device at rest, transfers included.
    """

    compute_mj: float | None
    radio_mj: float | None
    waiting_mj: float | None

    @property
    def device_energy_mj(self) -> float | None:
        """The sum; None where a part is not known."""
        if self.compute_mj is None or self.radio_mj is None or self.waiting_mj is None:
            return None
        return self.compute_mj + self.radio_mj + self.waiting_mj


def frame_energy(
    times: FrameTimes,
    payload: FrameBytes,
    power: DevicePower | None,
    radio: Radio | None,
    link: Link,
) -> FrameEnergy:
    """Return what a frame costs the device.

    Args:
        times: How long the device computes, and how long the frame lasts.
        payload: What crosses the link; a radio that nothing crosses sleeps.
        power: What the device draws; None where nobody knows.
        radio: What its radio draws; None where nobody knows.
        link: The rates at which the bytes cross.
    """
    return FrameEnergy(
        compute_mj=None if power is None else power.busy_w * times.compute_ms,
        radio_mj=_radio_mj(times, payload, radio, link),
        waiting_mj=None if power is None else power.idle_w * (times.frame_ms - times.compute_ms),
    )


def _radio_mj(
    times: FrameTimes, payload: FrameBytes, radio: Radio | None, link: Link
) -> float | None:
    if not payload.uplink_bytes and not payload.downlink_bytes:
        return 0.0
    if radio is None:
        return None
    sending_ms = payload.uplink_bytes * 8 / (link.uplink_mbps * 1e3)
    receiving_ms = payload.downlink_bytes * 8 / (link.downlink_mbps * 1e3)
    awake_ms = radio.tail_ms
    if times.period_ms is not None:
        awake_ms = min(awake_ms, max(0.0, times.frame_ms - sending_ms - receiving_ms))
    microjoules = (
        radio.sending_mw(link.uplink_mbps) * sending_ms
        + radio.receiving_mw(link.downlink_mbps) * receiving_ms
        + radio.tail_mw * awake_ms
    )
    return microjoules / 1e3
