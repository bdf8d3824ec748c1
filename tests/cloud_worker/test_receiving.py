"""Taking messages off a real ROUTER."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest
import zmq

from cloud_worker._receiving import Arrived, Envelope, Receiver, read_envelope
from protocol import PROTOCOL_VERSION, FrameError, Limits, decode_message, worker_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair: TypeAlias = "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]"
LIMITS = Limits(tensors=4, message_bytes=4096)
VERSION = bytes((PROTOCOL_VERSION,))


@pytest.fixture
def pair(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Pair]:
    router, address = worker_socket(context, "inproc://receiving", LIMITS)
    dealer = context.socket(zmq.DEALER)
    dealer.routing_id = b"dealer"
    dealer.connect(address)
    yield router, dealer
    dealer.close(0)
    router.close(0)


def test_nothing_there(pair: Pair) -> None:
    assert list(Receiver(pair[0], LIMITS).turn()) == []


def test_messages_with_their_sizes(pair: Pair) -> None:
    router, dealer = pair
    dealer.send_multipart([b"ab", b"", b"cde"])
    dealer.send_multipart([b"next"])
    first, second = Receiver(router, LIMITS).turn()
    assert [bytes(frame) for frame in first.frames] == [b"ab", b"", b"cde"]
    assert first.size == 5
    assert [bytes(frame) for frame in second.frames] == [b"next"]
    router.send_multipart([first.peer, b"back"])
    assert dealer.recv() == b"back"


@pytest.mark.parametrize("frames", [[b"x"] * 5000, [b""] * 5000, [b"x" * 3000] * 40])
def test_endless_message_is_not_kept(pair: Pair, frames: list[bytes]) -> None:
    router, dealer = pair
    dealer.send_multipart(frames)
    dealer.send_multipart([b"next"])
    receiver = Receiver(router, LIMITS)
    taken: list[Arrived] = []
    while len(taken) < 2:
        taken += receiver.turn()
    arrived, following = taken
    assert len(arrived.frames) <= LIMITS.tensors + 5
    assert arrived.size <= LIMITS.message_bytes + 3000
    with pytest.raises(FrameError):
        decode_message(arrived.frames, LIMITS)
    assert [bytes(frame) for frame in following.frames] == [b"next"]


def test_a_turn_ends_in_the_middle_of_an_endless_message(pair: Pair) -> None:
    router, dealer = pair
    dealer.send_multipart([b"x"] * 5000)
    receiver = Receiver(router, LIMITS)
    turns = 0
    while not list(receiver.turn()):
        turns += 1
        router.send_multipart([dealer.routing_id, b"between"])  # the socket is free for replies
        assert dealer.recv() == b"between"
    assert turns == 5000 // 512


def test_a_turn_ends_among_many_small_messages(pair: Pair) -> None:
    router, dealer = pair
    receiver = Receiver(router, Limits(tensors=256))
    for _ in range(8):  # as many as the pipe holds without a reader
        dealer.send_multipart([b"x"] * 200)
    counts = [len(list(receiver.turn())) for _ in range(5)]
    assert sum(counts) == 8
    assert max(counts) <= 3


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
