"""One direction of the emulated link, with all connections that share it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from protocol.emulator.connection import Ending, Pipe
from protocol.emulator.schedule import LinkSchedule
from protocol.emulator.settings import LinkSettings, chunk_bytes

if TYPE_CHECKING:
    from protocol.emulator.corruption import Corruption
    from protocol.emulator.trace import BandwidthTrace


@dataclass
class Lane:
    """A schedule, the bounds of what may wait before it, and what it does to the bytes.

    Reading from the senders stops when the queue is full and starts again when a quarter of it is
    free: that is what makes a slow link slow the sender.
    """

    rate: float | BandwidthTrace
    settings: LinkSettings
    seed: int
    corruption: Corruption | None = None
    delivered_bytes: int = 0
    corrupted_bytes: int = 0
    schedule: LinkSchedule[tuple[Pipe, bytes | Ending]] = field(init=False)
    _full: bool = False

    def __post_init__(self) -> None:
        random = Random(self.seed)  # noqa: S311 - repeatable jitter, no secret
        self.schedule = LinkSchedule(self.settings.shape(self.rate, 0), random)
        self._measure()

    def reshape(self, now_s: float, rate: float | BandwidthTrace, settings: LinkSettings) -> None:
        """Change what the link is like, from now on; a trace begins now."""
        self.rate = rate
        self.settings = settings
        self.schedule.reshape(now_s, settings.shape(rate, self.schedule.link_time(now_s)))
        self._measure()

    def room_bytes(self) -> int:
        """How many bytes may be read from the senders now."""
        backlog_bytes = self.schedule.backlog_bytes
        self._full = backlog_bytes > (self._resume_bytes if self._full else self.queue_bytes - 1)
        return 0 if self._full else self.queue_bytes - backlog_bytes

    def takes_from(self, pipe: Pipe) -> bool:
        """Whether this sender may be read from: the link has room, and its receiver keeps up."""
        return pipe.reading and pipe.overdue_bytes < self.queue_bytes and self.room_bytes() > 0

    def read(self, pipe: Pipe, now_s: float) -> None:
        """Take what a sender has, up to the room there is, and let it enter the link."""
        data = pipe.read(self.room_bytes())
        if data is None:
            return
        if isinstance(data, Ending):
            self.schedule.enqueue(now_s, 0, (pipe, data))
            return
        if self.corruption is not None:
            data, damaged = self.corruption.apply(data)
            self.corrupted_bytes += damaged
        for start in range(0, len(data), self.chunk_bytes):
            chunk = data[start : start + self.chunk_bytes]
            self.schedule.enqueue(now_s, len(chunk), (pipe, chunk))

    def deliver(self, now_s: float) -> None:
        """Hand on everything that has come out of the link."""
        for pipe, arrived in self.schedule.advance(now_s):
            if not (pipe.connection.dead or pipe.connection.swallowing):
                self.delivered_bytes += pipe.deliver(arrived)

    def next_event_s(self) -> float:
        """When the lane must be looked at again; infinity if only a socket can change it."""
        arrival_s = self.schedule.next_arrival_s()
        room_s = self.schedule.room_s(self._resume_bytes) if self._full else None
        return min((time for time in (arrival_s, room_s) if time is not None), default=math.inf)

    def _measure(self) -> None:
        self.queue_bytes = self.settings.queue_bytes(self.rate)
        self._resume_bytes = self.queue_bytes * 3 // 4
        self.chunk_bytes = chunk_bytes(self.rate)
