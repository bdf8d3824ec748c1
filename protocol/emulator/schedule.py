"""When each chunk that enters one direction of a link comes out at its far end.

The link is a queue before a transmitter before a wire: one chunk after another is transmitted at
the pace of the link, and a chunk arrives one delay after its last bit has left. Nothing here reads
a clock or touches a socket. Late calls do no harm: every time follows from the times before it,
not from the moment of the call, so a busy machine makes single chunks late but never slows the
link down.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from random import Random

    from protocol.emulator.pace import Pace

T = TypeVar("T")


@dataclass(frozen=True)
class LinkShape:
    """One direction of a link.

    Attributes:
        pace: How fast bytes get through.
        delay_s: How long a bit travels.
        jitter_s: Each chunk travels up to this much longer or shorter, evenly spread. Chunks never
            overtake one another, and none travels for less than no time.
    """

    pace: Pace
    delay_s: float = 0
    jitter_s: float = 0


@dataclass
class _Queued(Generic[T]):
    item: T
    size_bytes: int
    unsent_bytes: float
    ready_s: float
    travel_s: float


class LinkSchedule(Generic[T]):
    """One direction of a link, shared by all that crosses it, first in first out.

    Times are seconds of any one clock that never goes back. While the link is paused it stands
    still as a whole: nothing is transmitted, nothing travels, a trace does not go on.
    """

    def __init__(self, shape: LinkShape, random: Random) -> None:
        self._shape = shape
        self._random = random
        self._queue: deque[_Queued[T]] = deque()
        self._travelling: deque[tuple[float, T]] = deque()
        self._backlog_bytes = 0
        self._head_start_s: float = 0
        self._head_finish_s: float = 0
        self._free_s: float | None = None
        self._last_arrival_s: float | None = None
        self._paused_at_s: float | None = None
        self._stood_still_s: float = 0

    @property
    def backlog_bytes(self) -> int:
        """Bytes of the chunks that are not transmitted yet; those that travel do not count."""
        return self._backlog_bytes

    def enqueue(self, now_s: float, size_bytes: int, item: T) -> None:
        """Let a chunk enter the link."""
        now_s = self.link_time(now_s)
        shape = self._shape
        travel_s = shape.delay_s
        if shape.jitter_s:
            travel_s = max(0, travel_s + shape.jitter_s * (2 * self._random.random() - 1))
        self._queue.append(_Queued(item, size_bytes, size_bytes, now_s, travel_s))
        self._backlog_bytes += size_bytes
        if len(self._queue) == 1:
            self._start_head()

    def advance(self, now_s: float) -> list[T]:
        """Move the link on to ``now_s`` and return what has come out, in order."""
        if self._paused_at_s is not None:
            return []
        now_s = self.link_time(now_s)
        self._transmit(now_s)
        arrived: list[T] = []
        while self._travelling and self._travelling[0][0] <= now_s:
            arrived.append(self._travelling.popleft()[1])
        return arrived

    def next_arrival_s(self) -> float | None:
        """When :meth:`advance` next returns something; ``None`` if nothing is due or all stands."""
        if self._paused_at_s is not None:
            return None
        if self._travelling:
            return self._travelling[0][0] + self._stood_still_s
        if self._queue:
            return self._head_finish_s + self._queue[0].travel_s + self._stood_still_s
        return None

    def room_s(self, target_bytes: int) -> float | None:
        """When the backlog will have fallen to ``target_bytes``; ``None`` while all stands."""
        if self._paused_at_s is not None:
            return None
        left = self._backlog_bytes
        unsent: float = 0
        for chunk in self._queue:
            if left <= target_bytes:
                break
            unsent += chunk.unsent_bytes
            left -= chunk.size_bytes
        return self._shape.pace.finish_s(self._head_start_s, unsent) + self._stood_still_s

    def pause(self, now_s: float) -> None:
        """Let the link stand still; pausing twice is pausing once."""
        if self._paused_at_s is None:
            self._paused_at_s = now_s

    def resume(self, now_s: float) -> None:
        """Let the link go on where it stood."""
        if self._paused_at_s is not None:
            self._stood_still_s += now_s - self._paused_at_s
            self._paused_at_s = None

    def reshape(self, now_s: float, shape: LinkShape) -> None:
        """Change pace, delay and jitter; the part of a chunk that is through stays through.

        Chunks in the queue go on at the new pace, with the delay they came in with.
        """
        now_s = self.link_time(now_s)
        self._transmit(now_s)
        if self._queue and self._head_start_s < now_s:
            head = self._queue[0]
            sent = self._shape.pace.carried_bytes(self._head_start_s, now_s)
            head.unsent_bytes = max(0, head.unsent_bytes - sent)
            self._free_s = now_s
        self._shape = shape
        if self._queue:
            self._start_head()

    def discard(self) -> None:
        """Lose everything that is queued or travels."""
        self._queue.clear()
        self._travelling.clear()
        self._backlog_bytes = 0
        self._free_s = None

    def link_time(self, now_s: float) -> float:
        """The link's own time, which stands still while it is paused; traces begin in it."""
        if self._paused_at_s is not None:
            now_s = self._paused_at_s
        return now_s - self._stood_still_s

    def _transmit(self, now_s: float) -> None:
        while self._queue and self._head_finish_s <= now_s:
            chunk = self._queue.popleft()
            self._backlog_bytes -= chunk.size_bytes
            self._free_s = self._head_finish_s
            arrival_s = self._free_s + chunk.travel_s
            if self._last_arrival_s is not None:
                arrival_s = max(arrival_s, self._last_arrival_s)
            self._last_arrival_s = arrival_s
            self._travelling.append((arrival_s, chunk.item))
            if self._queue:
                self._start_head()

    def _start_head(self) -> None:
        head = self._queue[0]
        start_s = head.ready_s if self._free_s is None else max(self._free_s, head.ready_s)
        self._head_start_s = start_s
        self._head_finish_s = self._shape.pace.finish_s(start_s, head.unsent_bytes)
