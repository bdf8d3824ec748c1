"""Probing real workers over emulated links: what is found, what it costs, and that it ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import zmq

from cloud_worker import Worker
from profiler.errors import LinkError
from profiler.links.parsing import parse_link
from profiler.links.probe import ProbedLink, probe_link
from protocol import (
    AddressError,
    Limits,
    Probe,
    Probed,
    RefusalCode,
    Refuse,
    decode_message,
    encode_message,
    worker_socket,
)
from protocol.emulator import EmulatedLink, LinkSettings
from tests.cloud_worker.support import tails
from tests.cloud_worker.test_server import serve

LIMIT_S = 3.0
BUSY_S = 1.5  # a busy machine may run a thread late
LIMIT_BYTES = 4_000_000


@pytest.fixture
def worker() -> Iterator[Worker]:
    with serve(tails()) as running:
        yield running


def timed(address: str) -> ProbedLink:
    start_s = time.monotonic()
    probed = probe_link(address)
    assert time.monotonic() - start_s < LIMIT_S + BUSY_S
    assert probed.seconds < LIMIT_S + BUSY_S
    assert probed.size_bytes < LIMIT_BYTES
    return probed


def refused(address: str, message: str) -> None:
    start_s = time.monotonic()
    with pytest.raises(LinkError, match=message) as caught:
        probe_link(address)
    assert time.monotonic() - start_s < LIMIT_S + BUSY_S
    assert "cannot probe" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("up", "down", "rtt_ms"), [(1, 1, 20), (20, 5, 20), (2, 50, 100), (100, 100, 5)]
)
def test_rates_and_round_trip_are_found(
    worker: Worker, up: float, down: float, rtt_ms: float
) -> None:
    with EmulatedLink(worker.address, LinkSettings(up, down, rtt_ms)) as link:
        probed = timed(link.address)
    # The benchmark says how exact it is where every part has a process of its own.
    assert probed.link.uplink_mbps == pytest.approx(up, rel=0.25)
    assert probed.link.downlink_mbps == pytest.approx(down, rel=0.25)
    assert rtt_ms - 1 <= probed.link.rtt_ms < rtt_ms + 15


def test_a_link_that_is_too_far_for_its_rate_is_measured_roughly_and_says_so(
    worker: Worker,
) -> None:
    with EmulatedLink(worker.address, LinkSettings(50, 50, 400)) as link:
        probed = timed(link.address)
    assert probed.link.rtt_ms == pytest.approx(400, rel=0.1)
    assert any("too fast or too far for a probe" in note for note in probed.link.notes)


def test_a_link_says_how_it_was_measured(worker: Worker) -> None:
    link = parse_link(f"probe:{worker.address}")
    assert link.source.startswith(f"measured to {worker.address} in ")
    assert link.to_dict()["source"] == link.source
    assert link.uplink_mbps > 100
    assert worker.counts["probes"] > 10
    assert "sessions_expired" not in worker.counts


def test_the_emulator_agrees_on_the_bytes(worker: Worker) -> None:
    with EmulatedLink(worker.address, LinkSettings(200, 200, 1)) as link:
        probed = probe_link(link.address)
        # What has just arrived is counted a moment later, by another thread.
        end_s = time.monotonic() + BUSY_S
        while on_the_wire(link) < probed.size_bytes:
            assert time.monotonic() < end_s
        assert on_the_wire(link) < LIMIT_BYTES


def on_the_wire(link: EmulatedLink) -> int:
    return link.counters.uplink_bytes + link.counters.downlink_bytes


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    refused(f"tcp://127.0.0.1:{port}", "no worker has answered within 2.8 s; start cloud-worker")


def test_somebody_listens_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused(f"tcp://127.0.0.1:{server.getsockname()[1]}", "no worker has answered")


def test_somebody_speaks_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with server.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(100))
                connection.recv(1)

        thread = threading.Thread(target=greet)
        thread.start()
        refused(f"tcp://127.0.0.1:{server.getsockname()[1]}", "is it a cloud-worker|has answered")
        thread.join()


def test_a_link_that_swallows_everything(worker: Worker) -> None:
    with EmulatedLink(worker.address) as link:
        link.blackhole()
        refused(link.address, "no worker has answered")


@pytest.mark.parametrize("fault", [EmulatedLink.blackhole, EmulatedLink.cut, EmulatedLink.pause])
@pytest.mark.parametrize("uplink_bytes", [500, 20_000])
def test_a_worker_or_link_that_dies_half_way(
    worker: Worker, fault: Callable[[EmulatedLink], None], uplink_bytes: int
) -> None:
    with EmulatedLink(worker.address, LinkSettings(2, 2, 10)) as link:

        def break_it() -> None:
            link.wait_until(lambda counters: counters.uplink_bytes > uplink_bytes)
            fault(link)

        thread = threading.Thread(target=break_it)
        thread.start()
        refused(link.address, "too slow, or went away|the connection is gone")
        thread.join()


def test_a_link_too_slow_to_be_measured(worker: Worker) -> None:
    with EmulatedLink(worker.address, LinkSettings(0.004, 0.004, 20)) as link:
        refused(link.address, "too slow, or went away|no worker has answered|does not answer")


@contextmanager
def fake_worker(answer: Callable[[Probe], list[bytes]]) -> Iterator[str]:
    """A ROUTER that answers the first probe as a test wants it."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router, address = worker_socket(context, "tcp://127.0.0.1:0", Limits())

    def serve_once() -> None:
        peer, *frames = router.recv_multipart()
        probe = decode_message(frames, Limits())
        assert isinstance(probe, Probe)
        router.send_multipart([peer, *answer(probe)])

    thread = threading.Thread(target=serve_once)
    thread.start()
    try:
        yield address
    finally:
        thread.join()
        context.destroy(linger=0)


def as_frames(message: Probed | Refuse) -> list[bytes]:
    return [bytes(frame) for frame in encode_message(message)]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda _: [b"hello"], "it speaks something else"),
        (lambda probe: as_frames(Probed(probe.number + 1, b"")), "what was not asked for"),
        (lambda probe: as_frames(Probed(probe.number, b"x")), "answers 0 bytes with 1"),
        (
            lambda _: as_frames(Refuse(RefusalCode.BUSY, "later", 1500)),
            r"says no \(busy: later\); ask again in 1.5 s",
        ),
    ],
)
def test_answers_of_a_strange_worker_are_no_measurement(
    answer: Callable[[Probe], list[bytes]], message: str
) -> None:
    with fake_worker(answer) as address:
        refused(address, message)


def test_a_worker_that_knows_no_probes() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    _, address = worker_socket(context, "tcp://127.0.0.1:0", Limits())
    try:
        refused(address, r"does not answer \(is it a cloud-worker of this version")
    finally:
        context.destroy(linger=0)


def test_a_worker_that_has_been_probed_too_often_says_when_to_come_back(worker: Worker) -> None:
    def probe_again_and_again() -> None:
        for _ in range(20):
            probe_link(worker.address)

    with pytest.raises(LinkError, match=r"says no \(busy: .*; ask again in"):
        probe_again_and_again()


def test_a_name_server_that_does_not_answer_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = threading.Event()

    def look_up(*_: object, **__: object) -> tuple[str, bool]:
        answer.wait()
        return "127.0.0.1", False

    monkeypatch.setattr("profiler.links.probe.resolve_host", look_up)
    refused("tcp://worker.example:5555", "looking up host 'worker.example' takes more than 3 s")
    answer.set()


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("", AddressError, "names no transport"),
        ("tcp://127.0.0.1", AddressError, "has no port"),
        ("tcp://127.0.0.1:0", AddressError, "has port 0"),
        ("tcp://127.0.0.1:5,rtt=30ms", AddressError, "cannot be read"),
        ("tcp://no.such.host.invalid:5", AddressError, "cannot be resolved"),
        ("ipc:///tmp/x", LinkError, "only tcp://HOST:PORT is a link"),
    ],
)
def test_what_is_no_address_of_a_link(address: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_link(f"probe:{address}")
