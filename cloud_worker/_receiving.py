"""Takes messages off a ROUTER socket, holding no more of them than a message may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import zmq

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol import Frame, Limits

# Kind, session, number and header, and one more so that too many can be told from enough.
_FRAMES_BESIDE_TENSORS = 5


class Arrived(NamedTuple):
    """A message as it came."""

    peer: bytes
    frames: Sequence[Frame]
    size: int


def receive(socket: zmq.Socket[bytes], limits: Limits) -> Arrived | None:
    """Take one message, or None when none is there.

    What comes beyond the limits is thrown away as it is read; the frames that are kept are then
    too many or too large, and the decoder refuses them.
    """
    try:
        part = socket.recv(zmq.NOBLOCK, copy=False)
    except zmq.Again:
        return None
    peer = part.bytes
    frames: list[Frame] = []
    size = 0
    while part.more:
        # The other parts of a message are there when its first one is.
        part = socket.recv(copy=False)
        if size <= limits.message_bytes and len(frames) < limits.tensors + _FRAMES_BESIDE_TENSORS:
            frame = part.buffer
            size += frame.nbytes
            frames.append(frame)
    return Arrived(peer, frames, size)
