"""The ZeroMQ transport and the one in memory do the same."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
import zmq

from device_agent._transport import ZeroMqTransport
from device_agent.testing import Arrival, Incident, InMemoryTransport
from protocol import (
    AddressError,
    Limits,
    Ping,
    Pong,
    SystemClock,
    decode_message,
    encode_message,
    worker_socket,
)
from protocol.testing import FakeClock
from tests.device_agent.transport_conformance import PATIENCE_S, SESSION, TransportConformance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol import Message


class MemoryPeer:
    def __init__(self, transport: InMemoryTransport) -> None:
        self._transport = transport

    def next(self) -> Message:
        return self._transport.sent.pop(0)

    def send(self, message: Message) -> None:
        self._transport.push(Arrival(message))

    def send_garbage(self) -> None:
        self._transport.push(Arrival(Incident.GARBAGE))

    def vanish(self) -> None:
        self._transport.push(Arrival(Incident.DISCONNECT, after_s=0.1))

    def come_back(self) -> None:
        self._transport.push(Arrival(Incident.CONNECT, after_s=0.1))


class TestInMemoryTransport(TransportConformance):
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def transport(self, clock: FakeClock) -> InMemoryTransport:
        return InMemoryTransport(clock)

    @pytest.fixture
    def peer(self, transport: InMemoryTransport) -> MemoryPeer:
        return MemoryPeer(transport)

    def test_waiting_moves_the_clock(self, transport: InMemoryTransport, clock: FakeClock) -> None:
        transport.push(Arrival(Pong(SESSION, 1), after_s=0.5))
        assert transport.receive(2.0) == Pong(SESSION, 1)
        assert clock.monotonic() == 0.5
        assert transport.receive(2.0) is None
        assert clock.monotonic() == 2.5

    def test_what_was_under_way_is_lost_with_the_connection(
        self, transport: InMemoryTransport, clock: FakeClock
    ) -> None:
        transport.push(Arrival(Pong(SESSION, 1), after_s=2.0))
        transport.push(Arrival(Incident.DISCONNECT, after_s=1.0))
        transport.push(Arrival(Incident.CONNECT, after_s=3.0))
        clock.advance(1.0)
        assert not transport.connected
        clock.advance(2.0)
        assert transport.connected
        assert transport.receive(9.0) is None

    def test_a_closed_one_cannot_be_used(self, transport: InMemoryTransport) -> None:
        transport.close()
        with pytest.raises(RuntimeError, match="closed"):
            transport.receive(0.0)


def bind_again(
    context: zmq.Context[zmq.Socket[bytes]], address: str, tries: int = 10_000
) -> zmq.Socket[bytes]:
    """Bind where a socket was closed a moment ago; libzmq gives the port back late."""
    while True:
        try:
            return worker_socket(context, address, Limits())[0]
        except AddressError:
            tries -= 1
            if not tries:
                raise


class RouterPeer:
    """A worker's socket, read by the test's own thread."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._context = context
        self._socket, self.address = worker_socket(context, "tcp://127.0.0.1:0", Limits())
        self._device = b""

    def next(self) -> Message:
        assert self._socket.poll(int(PATIENCE_S * 1000))
        self._device, *frames = self._socket.recv_multipart()
        return decode_message(frames, Limits())

    def send(self, message: Message) -> None:
        self._socket.send_multipart([self._device, *encode_message(message)])

    def send_garbage(self) -> None:
        self._socket.send_multipart([self._device, b"garbage"])

    def vanish(self) -> None:
        self._socket.close()

    def come_back(self) -> None:
        self._socket = bind_again(self._context, self.address)

    def close(self) -> None:
        self._socket.close()


class TestZeroMqTransport(TransportConformance):
    @pytest.fixture
    def router(self) -> Iterator[RouterPeer]:
        with zmq.Context() as context:
            peer = RouterPeer(context)
            yield peer
            peer.close()

    @pytest.fixture
    def transport(self, router: RouterPeer) -> Iterator[ZeroMqTransport]:
        transport = ZeroMqTransport(router.address, Limits(), SystemClock())
        assert transport.receive(PATIENCE_S) is None
        yield transport
        transport.close()

    @pytest.fixture
    def peer(self, router: RouterPeer, transport: ZeroMqTransport) -> RouterPeer:
        return router

    def test_belongs_to_the_thread_that_made_it(self, transport: ZeroMqTransport) -> None:
        errors = []

        def use() -> None:
            try:
                transport.send(Ping(SESSION, 1))
            except RuntimeError as error:
                errors.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert errors == ["a ZeroMqTransport belongs to the thread that made it"]

    def test_an_oversized_message_costs_the_connection_and_nothing_else(
        self, router: RouterPeer
    ) -> None:
        clock = FakeClock()
        transport = ZeroMqTransport(router.address, Limits(message_bytes=4096), clock)
        assert transport.receive(PATIENCE_S) is None
        transport.send(Ping(SESSION, 1))
        router.next()
        router._socket.send_multipart([router._device, bytes(10_000)])
        assert transport.receive(PATIENCE_S) is None
        assert not transport.connected
        clock.advance(1.0)
        assert transport.receive(0.0) is None  # libzmq has given up; here we connect anew
        assert transport.receive(PATIENCE_S) is None
        assert transport.send(Ping(SESSION, 2))
        assert router.next() == Ping(SESSION, 2)
        transport.close()

    def test_where_something_else_listened_a_worker_is_found_later(self) -> None:
        clock = FakeClock()
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
            transport = ZeroMqTransport(address, Limits(), clock)
            stranger, _ = server.accept()
            with stranger:
                stranger.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with zmq.Context() as context:
            worker = bind_again(context, address)
            clock.advance(120.0)
            assert transport.receive(0.0) is None
            assert transport.receive(PATIENCE_S) is None
            assert transport.send(Ping(SESSION, 1))
            assert worker.poll(int(PATIENCE_S * 1000))
            worker.close()
        transport.close()

    def test_an_address_that_is_none_is_refused(self) -> None:
        with pytest.raises(AddressError, match="names no transport"):
            ZeroMqTransport("nonsense", Limits(), SystemClock())


class TestAHostThatNobodyKnows:
    """Look-ups are faked: none leaves this machine."""

    @pytest.fixture(autouse=True)
    def again_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("device_agent._opening._AGAIN_S", 0.0)

    def test_is_looked_up_until_somebody_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known, look_up = threading.Event(), socket.getaddrinfo
        asked = threading.Semaphore(0)

        def getaddrinfo(*arguments: Any, **options: Any) -> Any:
            if arguments[0] == "localhost":
                asked.release()
            if arguments[0] == "localhost" and not known.is_set():
                raise socket.gaierror(-3, "Temporary failure in name resolution")
            return look_up(*arguments, **options)

        monkeypatch.setattr("protocol.addresses.socket.getaddrinfo", getaddrinfo)
        with zmq.Context() as context:
            router, address = worker_socket(context, "tcp://127.0.0.1:0", Limits())
            by_name = address.replace("127.0.0.1", "localhost")
            transport = ZeroMqTransport(by_name, Limits(), SystemClock())
            for _ in range(3):
                assert asked.acquire(timeout=PATIENCE_S)
            assert "host 'localhost' cannot be resolved" in transport.trouble
            assert not transport.connected
            assert not transport.send(Ping(SESSION, 1))
            assert transport.receive(0.0) is None
            known.set()
            while not transport.connected:
                assert transport.receive(PATIENCE_S) is None
            assert transport.trouble == ""
            assert transport.send(Ping(SESSION, 2))
            assert router.poll(int(PATIENCE_S * 1000))
            transport.close()
            router.close()

    def test_a_look_up_that_hangs_holds_nobody_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked, gate = threading.Event(), threading.Event()

        def getaddrinfo(*_: Any, **__: Any) -> Any:
            asked.set()
            gate.wait()
            raise socket.gaierror(-3, "Temporary failure in name resolution")

        monkeypatch.setattr("protocol.addresses.socket.getaddrinfo", getaddrinfo)
        transport = ZeroMqTransport("tcp://localhost:5555", Limits(), SystemClock())
        assert asked.wait(PATIENCE_S)
        assert transport.receive(0.0) is None
        assert transport.trouble == "host 'localhost' is still being looked up"
        transport.close()
        gate.set()

    @pytest.mark.parametrize(
        ("address", "message"),
        [
            ("tcp://localhost", "has no port"),
            ("tcp://localhost:0", "has port 0"),
            ("tcp://127.0.0.1:0", "has port 0"),
            ("http://localhost:1", "unknown transport"),
        ],
    )
    def test_an_address_that_is_malformed_is_an_error_all_the_same(
        self, address: str, message: str
    ) -> None:
        with pytest.raises(AddressError, match=message):
            ZeroMqTransport(address, Limits(), SystemClock())
