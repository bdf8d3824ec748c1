"""Sends to peers that may be gone or slow, without ever waiting for one."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import zmq

if TYPE_CHECKING:
    from collections.abc import Sequence

Frames: TypeAlias = "Sequence[bytes | memoryview]"

# To learn when ZeroMQ is done with a frame costs some 40 us, which small ones are not worth: a pipe
# takes sixteen messages or so, and for small ones that is bound enough.
_TRACKED_BYTES = 16 << 10


class _Router(Protocol):
    def send_multipart(
        self, msg_parts: Sequence[bytes | memoryview | zmq.Frame], flags: int = 0
    ) -> object: ...


class _Held(NamedTuple):
    frames: Frames
    size: int
    give_up_at: float


class _Pushed(NamedTuple):
    """A message that ZeroMQ has and that may not have left yet."""

    trackers: Sequence[zmq.MessageTracker]
    size: int

    @property
    def has_left(self) -> bool:
        return all(tracker.done for tracker in self.trackers)


class _Backlog:
    """What one peer has not read: bytes here and bytes in ZeroMQ."""

    def __init__(self) -> None:
        self.held: deque[_Held] = deque()
        self.pushed: deque[_Pushed] = deque()
        self.size = 0


class Outbox:
    """Sends, and holds for a while what a slow peer's pipe has no room for.

    A ROUTER socket does not tell when one peer has room again, so what is held is tried again and
    again. Of what is given up the frame is finished on the device; a repeat finds it in the cache.

    The bytes that peers have not read are bounded, those that ZeroMQ holds included: its high-water
    mark counts messages. A peer's backlog may be as large as what is left for all others, so that
    one that does not read leaves half, a second one a quarter, and there is always some room.

    Args:
        socket: A ROUTER socket with ROUTER_MANDATORY.
        limit_bytes: Unread by all peers together.
        patience_s: How long a message is held.
        counts: ``unreachable``, ``held`` and ``given_up`` are counted here.
    """

    def __init__(
        self, socket: _Router, limit_bytes: int, patience_s: float, counts: Counter[str]
    ) -> None:
        self._socket = socket
        self._limit_bytes = limit_bytes
        self._patience_s = patience_s
        self._counts = counts
        self._backlogs: dict[bytes, _Backlog] = {}
        self.unread_bytes = 0

    def __bool__(self) -> bool:
        """Whether something is held that must be tried again."""
        return any(backlog.held for backlog in self._backlogs.values())

    def send(self, peer: bytes, frames: Frames, now: float) -> None:
        """Send a message to a peer, now or soon."""
        self._forget_what_left()
        size = sum(len(frame) for frame in frames)
        backlog = self._backlogs.get(peer) or _Backlog()
        if backlog.size + size > self._limit_bytes - self.unread_bytes:
            self._counts["given_up"] += 1
            return
        if not backlog.held and self._try(peer, backlog, frames, size):
            if backlog.pushed:
                self._backlogs[peer] = backlog
            return
        self._counts["held"] += 1
        backlog.held.append(_Held(frames, size, now + self._patience_s))
        self._charge(backlog, size)
        self._backlogs[peer] = backlog

    def retry(self, now: float) -> None:
        """Send what can be sent by now, each peer's messages in their order."""
        for peer, backlog in self._backlogs.items():
            while backlog.held:
                message = backlog.held[0]
                if now >= message.give_up_at:
                    self._counts["given_up"] += 1
                elif not self._try(peer, backlog, message.frames, message.size):
                    break
                backlog.held.popleft()
                self._charge(backlog, -message.size)
        self._forget_what_left()

    def _try(self, peer: bytes, backlog: _Backlog, frames: Frames, size: int) -> bool:
        """Send, or count a peer that is gone; False if its pipe is full."""
        parts = [_part(frame) for frame in frames]
        try:
            self._socket.send_multipart([peer, *parts], zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._counts["unreachable"] += 1
            return True
        trackers = [part.tracker for part in parts if isinstance(part, zmq.Frame)]
        if trackers:
            backlog.pushed.append(_Pushed(trackers, size))
            self._charge(backlog, size)
        return True

    def _forget_what_left(self) -> None:
        for peer, backlog in list(self._backlogs.items()):
            while backlog.pushed and backlog.pushed[0].has_left:
                self._charge(backlog, -backlog.pushed.popleft().size)
            if not backlog.size:
                del self._backlogs[peer]

    def _charge(self, backlog: _Backlog, size: int) -> None:
        backlog.size += size
        self.unread_bytes += size


def _part(frame: bytes | memoryview) -> bytes | memoryview | zmq.Frame:
    """The frame, in a form that tells when ZeroMQ is done with it if it is large."""
    if len(frame) < _TRACKED_BYTES:
        return frame
    return zmq.Frame(frame, track=True, copy=False)
