"""Takes messages off a ROUTER socket, holding no more of them than a message may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import zmq

from protocol import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol import Frame, Limits

# Kind, session, number and header, and one more so that too many can be told from enough.
_FRAMES_BESIDE_TENSORS = 5
_KIND, _SESSION, _NUMBER, _HEADER = range(4)
_SESSION_BYTES, _NUMBER_BYTES = 16, 8


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


class Envelope(NamedTuple):
    """Where a message belongs; no number means that it opens a session."""

    session: bytes
    number: int | None


def read_envelope(frames: Sequence[Frame]) -> Envelope | None:
    """Find out where a message belongs that cannot be read as a whole, so that it can be answered.

    None for what is no message of this protocol at all, and for what nobody waits for.
    """
    if len(frames) <= _HEADER or bytes(frames[_KIND][:1]) != bytes((PROTOCOL_VERSION,)):
        return None
    session, number = frames[_SESSION], frames[_NUMBER]
    lengths = (len(session), len(number))
    if lengths == (0, 0):
        return Envelope(b"", None)
    if lengths == (_SESSION_BYTES, _NUMBER_BYTES):
        return Envelope(bytes(session), int.from_bytes(number, "big"))
    return None
