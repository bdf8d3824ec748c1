"""Takes messages off a ROUTER socket, holding no more of them than a message may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import zmq

from protocol import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from protocol import Frame, Limits

# Kind, session, number and header, and one more so that too many can be told from enough.
_FRAMES_BESIDE_TENSORS = 5
_KIND, _SESSION, _NUMBER, _HEADER = range(4)
_SESSION_BYTES, _NUMBER_BYTES = 16, 8
# Some 2 ms of work, or eighty requests of one tensor; then finished work, ticks and stopping
# have their turn, even in the middle of a message of millions of parts.
_PARTS_A_TURN = 512


class Arrived(NamedTuple):
    """A message as it came."""

    peer: bytes
    frames: Sequence[Frame]
    size: int


class Receiver:
    """Takes messages in turns of bounded length.

    What comes beyond the limits is thrown away as it is read; the frames that are kept are then
    too many or too large, and the decoder refuses them. A message may take several turns, and
    while it does, those of other peers wait: the socket gives out one after the other.

    Args:
        socket: A ROUTER socket.
        limits: What a message may hold.
    """

    def __init__(self, socket: zmq.Socket[bytes], limits: Limits) -> None:
        self._socket = socket
        self._limits = limits
        self._peer: bytes | None = None
        self._frames: list[Frame] = []
        self._size = 0

    def turn(self) -> Iterator[Arrived]:
        """Take the messages that are there, until none is left or the turn is over."""
        for _ in range(_PARTS_A_TURN):
            try:
                part = self._socket.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            self._keep(part)
            if part.more:
                continue
            yield self._whole()
            # Asking costs a microsecond, an exception from an empty socket ten.
            if not int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                return

    def _keep(self, part: zmq.Frame) -> None:
        if self._peer is None:
            self._peer = part.bytes
        elif (
            self._size <= self._limits.message_bytes
            and len(self._frames) < self._limits.tensors + _FRAMES_BESIDE_TENSORS
        ):
            frame = part.buffer
            self._size += frame.nbytes
            self._frames.append(frame)

    def _whole(self) -> Arrived:
        arrived = Arrived(self._peer or b"", self._frames, self._size)
        self._peer, self._frames, self._size = None, [], 0
        return arrived


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
