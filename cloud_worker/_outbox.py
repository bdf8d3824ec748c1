"""Sends to peers that may be gone or slow, without ever waiting for one."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import zmq

if TYPE_CHECKING:
    from collections.abc import Sequence

Frames: TypeAlias = "Sequence[bytes | memoryview]"


class _Router(Protocol):
    def send_multipart(self, msg_parts: Frames, flags: int = 0) -> object: ...


class _Held(NamedTuple):
    frames: Frames
    size: int
    give_up_at: float


class Outbox:
    """Sends, and holds for a while what a slow peer's pipe has no room for.

    A ROUTER socket does not tell when one peer has room again, so what is held is tried again and
    again. Of what is given up the frame is finished on the device; a repeat finds it in the cache.

    Args:
        socket: A ROUTER socket with ROUTER_MANDATORY.
        limit_bytes: Held for all peers together.
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
        self._held: dict[bytes, deque[_Held]] = {}
        self.held_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._held)

    def send(self, peer: bytes, frames: Frames, now: float) -> None:
        """Send a message to a peer, now or soon."""
        if peer not in self._held and self._try(peer, frames):
            return
        size = sum(len(frame) for frame in frames)
        if self.held_bytes + size > self._limit_bytes:
            self._counts["given_up"] += 1
            return
        self._counts["held"] += 1
        self.held_bytes += size
        held = _Held(frames, size, now + self._patience_s)
        self._held.setdefault(peer, deque()).append(held)

    def retry(self, now: float) -> None:
        """Send what can be sent by now, each peer's messages in their order."""
        for peer, waiting in list(self._held.items()):
            while waiting:
                message = waiting[0]
                if now >= message.give_up_at:
                    self._counts["given_up"] += 1
                elif not self._try(peer, message.frames):
                    break
                waiting.popleft()
                self.held_bytes -= message.size
            if not waiting:
                del self._held[peer]

    def _try(self, peer: bytes, frames: Frames) -> bool:
        """Send, or count a peer that is gone; False if its pipe is full."""
        try:
            self._socket.send_multipart([peer, *frames], zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._counts["unreachable"] += 1
        return True
