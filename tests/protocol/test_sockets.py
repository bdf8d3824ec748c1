"""The socket factory on real sockets; each test holds a trap that was once measured."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import errno
import socket
import threading
from pathlib import Path
from typing import ClassVar

import pytest
import zmq
import zmq.asyncio

from protocol import sockets
from protocol.errors import AddressError
from protocol.frames import encode_message
from protocol.limits import Limits
from protocol.messages import Ping
from protocol.sockets import agent_socket, worker_socket

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("protocol", "profiler", "splitter", "device_agent", "cloud_worker")
LIMITS = Limits()
LOCAL = "tcp://127.0.0.1:0"
PATIENCE_MS = 20_000


class KeepingContext(zmq.Context):
    """Holds on to its sockets, which would complain when collected before they are closed."""

    def socket(self, *arguments, **options):
        made = super().socket(*arguments, **options)
        self.kept.append(made)
        return made

    kept: ClassVar[list[zmq.Socket]] = []


@pytest.fixture
def context():
    with KeepingContext() as made:
        yield made
        while made.kept:
            made.kept.pop().close(0)


def receive(received_by):
    assert received_by.poll(PATIENCE_MS), "nothing came"
    return received_by.recv_multipart()


def send(sent_by, frames):
    assert sent_by.poll(PATIENCE_MS, zmq.POLLOUT), "no connection"
    sent_by.send_multipart(frames, zmq.NOBLOCK)


COMMON = {
    zmq.LINGER: 0,
    zmq.SNDHWM: 8,
    zmq.RCVHWM: 8,
    zmq.MAXMSGSIZE: LIMITS.message_bytes,
    zmq.HEARTBEAT_IVL: 10_000,
    zmq.HEARTBEAT_TIMEOUT: 60_000,
    zmq.HEARTBEAT_TTL: 60_000,
    zmq.HANDSHAKE_IVL: 10_000,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 15,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 3,
    zmq.TCP_MAXRT: 30_000,
    zmq.IPV6: 0,
}


class TestOptions:
    def test_of_the_agent(self, context):
        made = agent_socket(context, "tcp://127.0.0.1:9", LIMITS)
        assert made.type == zmq.DEALER
        expected = {**COMMON, zmq.IMMEDIATE: 1, zmq.RECONNECT_IVL_MAX: 32_000}
        assert {option: made.getsockopt(option) for option in expected} == expected
        assert 1_000 <= made.getsockopt(zmq.RECONNECT_IVL) < 1_500

    def test_of_the_worker(self, context):
        made, _ = worker_socket(context, LOCAL, LIMITS)
        assert made.type == zmq.ROUTER
        assert {option: made.getsockopt(option) for option in COMMON} == COMMON

    def test_reconnection_does_not_come_in_step(self, context):
        intervals = {
            agent_socket(context, "tcp://127.0.0.1:9", LIMITS).getsockopt(zmq.RECONNECT_IVL)
            for _ in range(20)
        }
        assert len(intervals) > 1

    def test_the_largest_frame_follows_the_limits(self, context):
        small = Limits(message_bytes=4_096)
        assert agent_socket(context, "tcp://127.0.0.1:9", small).maxmsgsize == 4_096
        assert worker_socket(context, LOCAL, small)[0].maxmsgsize == 4_096

    def test_the_heartbeat_does_not_overflow(self):
        """libzmq#4226: from about 65,600 ms on, peers hang up all the time."""
        assert sockets.HEARTBEAT_SILENCE_MS <= 65_000

    def test_asyncio_contexts_give_asyncio_sockets(self):
        async def ask():
            with zmq.asyncio.Context() as context:
                worker, address = worker_socket(context, LOCAL, LIMITS)
                agent = agent_socket(context, address, LIMITS)
                await agent.send(b"hello")
                frames = await asyncio.wait_for(worker.recv_multipart(), PATIENCE_MS / 1_000)
                worker.close()
                agent.close()
            return frames[1:]

        assert asyncio.run(ask()) == [b"hello"]

    def test_no_socket_is_made_elsewhere(self):
        """Sockets made by hand forget an option; the emulator's are plain TCP."""
        found = set()
        for package in PRODUCT:
            for path in (ROOT / package).rglob("*.py"):
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Call) and makes_a_zmq_socket(ast.unparse(node.func)):
                        found.add(path.relative_to(ROOT).as_posix())
        assert found == {"protocol/sockets.py"}
        source = (ROOT / "protocol" / "sockets.py").read_text(encoding="utf-8")
        assert source.count(".socket(") == 1


def makes_a_zmq_socket(called):
    return called != "socket.socket" and called.split(".")[-1] in ("socket", "Socket")


class TestAddresses:
    @pytest.mark.parametrize("address", [LOCAL, "tcp://localhost:0", "tcp://*:0", "inproc://w"])
    def test_messages_pass(self, context, address):
        worker, bound = worker_socket(context, address, LIMITS)
        agent = agent_socket(context, bound.replace("//0.0.0.0", "//127.0.0.1"), LIMITS)
        send(agent, [b"question"])
        name, question = receive(worker)
        send(worker, [name, question.upper()])
        assert receive(agent) == [b"QUESTION"]

    def test_ipc(self, context, tmp_path):
        worker, bound = worker_socket(context, f"ipc://{tmp_path}/w", LIMITS)
        send(agent_socket(context, bound, LIMITS), [b"question"])
        assert receive(worker)[1:] == [b"question"]

    @pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
    def test_ipv6(self, context):
        try:
            worker, bound = worker_socket(context, "tcp://[::1]:0", LIMITS)
        except AddressError:
            pytest.skip("this machine has no IPv6 loopback")
        send(agent_socket(context, bound, LIMITS), [b"question"])
        assert receive(worker)[1:] == [b"question"]

    def test_port_0_becomes_the_real_one(self, context):
        _, bound = worker_socket(context, LOCAL, LIMITS)
        host, port = bound.removeprefix("tcp://").split(":")
        assert host == "127.0.0.1"
        assert int(port) > 0

    def refused(self, make, match):
        with pytest.raises(AddressError, match=match) as caught:
            make()
        assert "\n" not in str(caught.value)

    def test_an_address_in_use(self, context):
        _, bound = worker_socket(context, LOCAL, LIMITS)
        self.refused(lambda: worker_socket(context, bound, LIMITS), "choose another port")

    def test_a_port_in_use_by_another_program(self, context):
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
            self.refused(lambda: worker_socket(context, address, LIMITS), "in use")

    @pytest.mark.parametrize(
        ("address", "match"),
        [
            ("tcp://192.0.2.1:0", "no such address"),
            ("tcp://nobody.invalid:0", "cannot be resolved"),
            ("tcp://127.0.0.1", "has no port"),
            ("ipc:///nowhere/at/all", "folder does not exist"),
        ],
    )
    def test_the_worker_refuses(self, context, address, match):
        self.refused(lambda: worker_socket(context, address, LIMITS), match)

    @pytest.mark.parametrize(
        ("address", "match"),
        [
            ("tcp://nobody.invalid:5555", "cannot be resolved"),
            ("tcp://127.0.0.1:0", "give the port"),
            ("tcp://worker", "has no port"),
        ],
    )
    def test_the_agent_refuses(self, context, address, match):
        self.refused(lambda: agent_socket(context, address, LIMITS), match)

    def test_a_refused_socket_is_closed(self):
        made = zmq.Context()
        for refuse in (
            lambda: worker_socket(made, "tcp://192.0.2.1:0", LIMITS),
            lambda: worker_socket(made, "ipc:///nowhere/at/all", LIMITS),
        ):
            with pytest.raises(AddressError):
                refuse()
        made.term()  # waits for ever if a socket were open


class TestTraps:
    def test_unsent_messages_do_not_hold_up_the_end(self):
        made = zmq.Context()
        worker, bound = worker_socket(made, LOCAL, LIMITS)
        agent = agent_socket(made, bound, LIMITS)
        send(agent, [b"hello"])
        receive(worker)
        worker.close()  # from now on nobody reads
        with contextlib.suppress(zmq.Again):
            for _ in range(20):
                agent.send(bytes(1_000_000), zmq.NOBLOCK)
        agent.close()
        ended = threading.Thread(target=made.term, daemon=True)
        ended.start()
        ended.join(PATIENCE_MS / 1_000)
        assert not ended.is_alive()

    def test_nothing_queues_for_an_absent_worker(self, context):
        """Without IMMEDIATE a thousand messages would be taken, and kept in memory."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        agent = agent_socket(context, f"tcp://127.0.0.1:{port}", LIMITS)
        with pytest.raises(zmq.Again):
            agent.send(bytes(200_000), zmq.NOBLOCK)

    def test_messages_to_a_device_that_left_are_told(self, context):
        worker, _ = worker_socket(context, LOCAL, LIMITS)
        with pytest.raises(zmq.ZMQError) as caught:
            worker.send_multipart([b"gone", b"answer"], zmq.NOBLOCK)
        assert caught.value.errno == errno.EHOSTUNREACH

    def test_a_device_that_does_not_read_is_told(self, context):
        """The high-water mark is no exact number; that there is one is what counts."""
        worker, bound = worker_socket(context, LOCAL, LIMITS)
        agent = agent_socket(context, bound, LIMITS)
        send(agent, [b"hello"])
        name, _ = receive(worker)

        def flood():
            for _ in range(1_000):
                worker.send_multipart([name, bytes(500_000)], zmq.NOBLOCK)

        with pytest.raises(zmq.Again):
            flood()

    def test_a_device_that_returns_under_its_old_id_is_heard(self, context):
        worker, bound = worker_socket(context, LOCAL, LIMITS)
        devices = []
        for text in (b"first", b"second"):
            device = context.socket(zmq.DEALER)
            device.linger = 0
            device.routing_id = b"device-7"
            device.connect(bound)
            devices.append(device)
            send(device, [text])
            assert receive(worker) == [b"device-7", text]
        send(worker, [b"device-7", b"answer"])
        assert receive(devices[1]) == [b"answer"]
        assert not devices[0].poll(0)

    def test_a_frame_above_the_limit_never_arrives_and_others_go_on(self, context):
        worker, bound = worker_socket(context, LOCAL, Limits(message_bytes=4_096))
        large, other = (agent_socket(context, bound, LIMITS) for _ in range(2))
        send(large, [b"hello from the one"])
        send(other, [b"hello from the other"])
        assert {receive(worker)[1], receive(worker)[1]} == {
            b"hello from the one",
            b"hello from the other",
        }
        monitor = large.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        send(large, [bytes(4_097)])  # no error here: the trap
        assert monitor.poll(PATIENCE_MS), "the worker did not hang up"
        send(other, [b"still here"])
        assert receive(worker)[1] == b"still here"
        # The one comes back by itself.
        send(large, [b"back again"])
        assert receive(worker)[1] == b"back again"
        large.disable_monitor()
        monitor.close()

    def test_garbage_on_the_port_leaves_others_undisturbed(self, context):
        worker, bound = worker_socket(context, LOCAL, LIMITS)
        agent = agent_socket(context, bound, LIMITS)
        ping = encode_message(Ping(bytes(16), 1))
        send(agent, ping)
        name, *frames = receive(worker)
        assert frames == ping
        port = int(bound.rsplit(":", 1)[1])
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
        for garbage in (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\xff" * 1_000,
            bytes(1_000),
            greeting + b"\x02" + b"\xff" * 100,
            greeting + b"\x06\x7f" + b"\xff" * 7 + b"x" * 1_000,
        ):
            with (
                socket.create_connection(("127.0.0.1", port), PATIENCE_MS / 1_000) as stranger,
                contextlib.suppress(OSError),  # the worker may hang up at any moment
            ):
                stranger.sendall(garbage)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(4_096):
                    pass
            send(worker, [name, b"answer"])
            assert receive(agent) == [b"answer"]
        assert not worker.poll(0)
