"""A slow, far or broken link in user space, for tests, drills and the demo. No root needed.

A TCP proxy stands between agent and worker and lets bytes through at a rate, after a delay, with
jitter, along a bandwidth trace; or it pauses, cuts, swallows, forgets or damages them.
"""

from __future__ import annotations

from protocol.emulator.errors import EmulatorClosedError, EmulatorError, LinkSettingsError
from protocol.emulator.link import EmulatedLink, LinkCounters
from protocol.emulator.pace import Pace, SteadyPace, TracePace
from protocol.emulator.schedule import LinkSchedule, LinkShape
from protocol.emulator.settings import LinkSettings, parse_rates
from protocol.emulator.trace import BandwidthTrace

__all__ = [
    "BandwidthTrace",
    "EmulatedLink",
    "EmulatorClosedError",
    "EmulatorError",
    "LinkCounters",
    "LinkSchedule",
    "LinkSettings",
    "LinkSettingsError",
    "LinkShape",
    "Pace",
    "SteadyPace",
    "TracePace",
    "parse_rates",
]
