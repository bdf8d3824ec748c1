"""Sending to peers that are gone, slow or well."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest
import zmq

from cloud_worker._outbox import Outbox
from protocol import Limits, agent_socket, worker_socket

if TYPE_CHECKING:
    from collections.abc import Sequence


class FakeRouter:
    """A ROUTER whose peers have room for so many messages; unknown ones are unreachable."""

    def __init__(self, **room: int) -> None:
        self.room = {name.encode(): count for name, count in room.items()}
        self.sent: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self.error: zmq.ZMQError | None = None

    def send_multipart(self, msg_parts: Sequence[bytes | memoryview], flags: int = 0) -> None:
        assert flags == zmq.NOBLOCK
        peer, body = bytes(msg_parts[0]), bytes(msg_parts[1])
        if self.error is not None:
            raise self.error
        if peer not in self.room:
            raise zmq.ZMQError(zmq.EHOSTUNREACH)
        if not self.room[peer]:
            raise zmq.Again
        self.room[peer] -= 1
        self.sent[peer].append(body)


@pytest.fixture
def counts() -> Counter[str]:
    return Counter()


def outbox(router: FakeRouter, counts: Counter[str], limit_bytes: int = 100) -> Outbox:
    return Outbox(router, limit_bytes, 5.0, counts)


def test_message_goes_out_at_once(counts: Counter[str]) -> None:
    router = FakeRouter(a=1)
    box = outbox(router, counts)
    box.send(b"a", [b"1"], 0.0)
    assert router.sent == {b"a": [b"1"]}
    assert not box
    assert counts == {}


def test_peer_that_is_gone_is_counted(counts: Counter[str]) -> None:
    box = outbox(FakeRouter(), counts)
    box.send(b"a", [b"1"], 0.0)
    assert not box
    assert counts == {"unreachable": 1}


def test_slow_peer_gets_its_messages_later_and_in_order(counts: Counter[str]) -> None:
    router = FakeRouter(slow=1, quick=9)
    box = outbox(router, counts)
    for number in (b"1", b"2", b"3"):
        box.send(b"slow", [number], 0.0)
        box.send(b"quick", [number], 0.0)
    assert router.sent[b"quick"] == [b"1", b"2", b"3"]
    router.room[b"slow"] = 1
    box.retry(1.0)
    box.send(b"slow", [b"4"], 1.0)
    assert router.sent[b"slow"] == [b"1", b"2"]
    router.room[b"slow"] = 9
    box.retry(2.0)
    assert router.sent[b"slow"] == [b"1", b"2", b"3", b"4"]
    assert not box
    assert box.unread_bytes == 0
    assert counts == {"held": 3}


def test_held_bytes_are_bounded(counts: Counter[str]) -> None:
    router = FakeRouter(a=0)
    box = outbox(router, counts, limit_bytes=10)
    for _ in range(5):
        box.send(b"a", [b"1234"], 0.0)
    assert box.unread_bytes == 4
    assert counts == {"held": 1, "given_up": 4}


def test_peer_that_does_not_read_leaves_room_for_others(counts: Counter[str]) -> None:
    router = FakeRouter(a=0, b=0, c=0, quick=99)
    box = outbox(router, counts, limit_bytes=80)
    for _ in range(9):
        for peer in (b"a", b"b", b"c"):
            box.send(peer, [bytes(10)], 0.0)
    assert box.unread_bytes < 80
    box.send(b"quick", [bytes(10)], 0.0)
    assert len(router.sent[b"quick"]) == 1
    assert counts["held"] == 6  # two each: a third would be more than what is left for others


def test_bytes_that_zeromq_holds_count_until_they_are_read(
    context: zmq.Context[zmq.Socket[bytes]], counts: Counter[str]
) -> None:
    router, address = worker_socket(context, "tcp://127.0.0.1:0", Limits())
    slow, quick = agent_socket(context, address, Limits()), agent_socket(context, address, Limits())
    names = []
    for peer in (slow, quick):
        peer.setsockopt(zmq.RCVTIMEO, 30_000)
        peer.send(b"hello")
        names.append(router.recv_multipart()[0])
    box = Outbox(router, 100 << 20, 1e9, counts)
    reply = bytes(5 << 20)
    for _ in range(20):
        box.send(names[0], [b"head", reply], 0.0)
    taken = 20 - counts["given_up"]
    assert 0 < taken * len(reply) <= 55 << 20
    box.send(names[1], [b"head", reply], 0.0)
    assert quick.recv_multipart() == [b"head", reply]
    read = 0
    while read < taken:
        router.poll(0)  # as the worker does: ZeroMQ then hears that there is room
        box.retry(0.0)
        read += bool(slow.poll(1) and slow.recv_multipart())
    while box.unread_bytes:
        box.retry(0.0)
    for socket in (router, slow, quick):
        socket.close(0)


def test_patience_ends(counts: Counter[str]) -> None:
    box = outbox(FakeRouter(a=0), counts)
    box.send(b"a", [b"1"], 0.0)
    box.send(b"a", [b"2"], 3.0)
    box.retry(5.0)
    assert counts == {"held": 2, "given_up": 1}
    assert box.unread_bytes == 1
    box.retry(8.0)
    assert not box
    assert counts["given_up"] == 2


def test_peer_that_leaves_while_its_messages_wait(counts: Counter[str]) -> None:
    router = FakeRouter(a=0)
    box = outbox(router, counts)
    box.send(b"a", [b"1"], 0.0)
    del router.room[b"a"]
    box.retry(1.0)
    assert not box
    assert counts == {"held": 1, "unreachable": 1}


def test_other_errors_are_not_swallowed(counts: Counter[str]) -> None:
    router = FakeRouter(a=1)
    router.error = zmq.ZMQError(zmq.ETERM)
    with pytest.raises(zmq.ZMQError):
        outbox(router, counts).send(b"a", [b"1"], 0.0)
