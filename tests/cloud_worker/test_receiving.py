"""Taking messages off a real ROUTER."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import zmq

from cloud_worker._receiving import Envelope, read_envelope, receive
from protocol import PROTOCOL_VERSION, FrameError, Limits, decode_message, worker_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = Limits(tensors=4, message_bytes=4096)
VERSION = bytes((PROTOCOL_VERSION,))


@pytest.fixture
def pair(
    context: zmq.Context[zmq.Socket[bytes]],
) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    router, address = worker_socket(context, "inproc://receiving", LIMITS)
    dealer = context.socket(zmq.DEALER)
    dealer.connect(address)
    yield router, dealer
    dealer.close(0)
    router.close(0)


def test_nothing_there(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    assert receive(pair[0], LIMITS) is None


def test_message_with_its_size(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    router, dealer = pair
    dealer.send_multipart([b"ab", b"", b"cde"])
    arrived = receive(router, LIMITS)
    assert arrived is not None
    assert [bytes(frame) for frame in arrived.frames] == [b"ab", b"", b"cde"]
    assert arrived.size == 5
    router.send_multipart([arrived.peer, b"back"])
    assert dealer.recv() == b"back"


@pytest.mark.parametrize("frames", [[b"x"] * 5000, [b"x" * 3000] * 40])
def test_endless_message_is_not_kept(
    pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]], frames: list[bytes]
) -> None:
    router, dealer = pair
    dealer.send_multipart(frames)
    dealer.send_multipart([b"next"])
    arrived = receive(router, LIMITS)
    assert arrived is not None
    assert len(arrived.frames) <= LIMITS.tensors + 5
    assert arrived.size <= LIMITS.message_bytes + 3000
    with pytest.raises(FrameError):
        decode_message(arrived.frames, LIMITS)
    following = receive(router, LIMITS)
    assert following is not None
    assert [bytes(frame) for frame in following.frames] == [b"next"]


@pytest.mark.parametrize(
    ("frames", "envelope"),
    [
        ([], None),
        ([VERSION + b"\x01", b"", b""], None),
        ([b"\x07\x01", b"", b"", b""], None),
        ([b"", b"", b"", b""], None),
        ([VERSION + b"\x01", b"", b"", b"junk"], Envelope(b"", None)),
        ([VERSION + b"\x04", b"s" * 16, b"\0" * 7 + b"\x05", b""], Envelope(b"s" * 16, 5)),
        ([VERSION + b"\x04", b"s" * 15, b"\0" * 8, b""], None),
        ([VERSION + b"\x09", b"s" * 16, b"", b""], None),
        ([memoryview(VERSION + b"\x01"), memoryview(b""), b"", b""], Envelope(b"", None)),
    ],
)
def test_where_a_message_belongs(
    frames: list[bytes | memoryview], envelope: Envelope | None
) -> None:
    assert read_envelope(frames) == envelope
