"""ZeroMQ through the link: this is what the link is for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
import zmq

from protocol.emulator import EmulatedLink, LinkSettings

TIMEOUT_MS = 20_000


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as made:
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
        made.setsockopt(zmq.SNDTIMEO, TIMEOUT_MS)
        yield made


@pytest.fixture
def worker(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[str]:
    """Address of a ROUTER that sends everything back, until it hears ``stop``."""
    with context.socket(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")

        def echo() -> None:
            while (message := router.recv_multipart())[1:] != [b"stop"]:
                router.send_multipart(message)

        thread = threading.Thread(target=echo)
        thread.start()
        yield f"tcp://127.0.0.1:{port}"
        with context.socket(zmq.DEALER) as dealer:
            dealer.connect(f"tcp://127.0.0.1:{port}")
            dealer.send(b"stop")
            thread.join()


def dealer_on(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.IMMEDIATE, 1)
    dealer.setsockopt(zmq.RECONNECT_IVL, 10)
    dealer.connect(address)
    return dealer


def test_multipart_messages_come_back_in_order(
    context: zmq.Context[zmq.Socket[bytes]], worker: str
) -> None:
    settings = LinkSettings(uplink_mbps=200, downlink_mbps=100, rtt_ms=4, jitter_ms=1)
    with EmulatedLink(worker, settings) as link, dealer_on(context, link.address) as dealer:
        messages = [[str(n).encode(), os.urandom(n * 500)] for n in range(60)]
        for message in messages:
            dealer.send_multipart(message)
        assert [dealer.recv_multipart() for _ in messages] == messages


def test_an_agent_connects_again_after_a_cut(
    context: zmq.Context[zmq.Socket[bytes]], worker: str
) -> None:
    with EmulatedLink(worker) as link, dealer_on(context, link.address) as dealer:
        dealer.send(b"one")
        assert dealer.recv() == b"one"
        link.cut()
        link.restore()
        link.wait_until(lambda now: now.accepted_connections >= 2)
        dealer.send(b"two")
        assert dealer.recv() == b"two"


def test_a_black_hole_takes_a_request_and_a_restored_link_the_next(
    context: zmq.Context[zmq.Socket[bytes]], worker: str
) -> None:
    with EmulatedLink(worker) as link, dealer_on(context, link.address) as dealer:
        dealer.send(b"one")
        assert dealer.recv() == b"one"
        link.blackhole()
        dealer.send(bytes(10_000))
        link.wait_until(lambda now: now.swallowed_bytes >= 10_000)
        link.restore()
        link.wait_until(lambda now: now.accepted_connections >= 2)
        dealer.send(b"two")
        assert dealer.recv() == b"two"


def test_a_paused_message_arrives_late_and_whole(
    context: zmq.Context[zmq.Socket[bytes]], worker: str
) -> None:
    with EmulatedLink(worker) as link, dealer_on(context, link.address) as dealer:
        dealer.send(b"one")
        assert dealer.recv() == b"one"
        link.pause()
        before = link.counters
        message = os.urandom(500_000)
        dealer.send(message)
        assert link.counters == before
        link.resume()
        assert dealer.recv() == message
