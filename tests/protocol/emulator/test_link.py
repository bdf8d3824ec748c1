"""Every verb with real sockets: what the agent sees, what the worker sees."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from protocol.emulator import (
    BandwidthTrace,
    EmulatedLink,
    EmulatorClosedError,
    LinkSettings,
    LinkSettingsError,
)
from protocol.errors import AddressError

TIMEOUT_S = 20


class World:
    """A listening worker, a link to it, and agents that connect through the link."""

    def __init__(self, stack: ExitStack, settings: LinkSettings) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._listener.settimeout(TIMEOUT_S)
        host, port = self._listener.getsockname()
        self.link = stack.enter_context(EmulatedLink(f"tcp://{host}:{port}", settings))

    def connect(self) -> socket.socket:
        host, port = self.link.address.removeprefix("tcp://").split(":")
        agent = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        return self._stack.enter_context(agent)

    def accept(self) -> socket.socket:
        worker, _ = self._listener.accept()
        worker.settimeout(TIMEOUT_S)
        return self._stack.enter_context(worker)

    def pair(self) -> tuple[socket.socket, socket.socket]:
        return self.connect(), self.accept()

    def stop_listening(self) -> None:
        self._listener.close()


@contextmanager
def a_world(**settings: float | BandwidthTrace) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, LinkSettings(**settings))  # type: ignore[arg-type]


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as made:
        yield made


def receive(end: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = end.recv(65_536)
        if not piece:
            break
        received += piece
    return bytes(received)


def exchange(sender: socket.socket, receiver: socket.socket, data: bytes) -> bytes:
    thread = threading.Thread(target=sender.sendall, args=(data,))
    thread.start()
    received = receive(receiver, len(data))
    thread.join()
    return received


def is_gone(end: socket.socket) -> bool:
    """Waits for the other side to say something; true if what it says is good-bye."""
    try:
        return end.recv(1) == b""
    except ConnectionResetError:
        return True


def has_nothing(end: socket.socket) -> bool:
    end.setblocking(False)
    try:
        return not end.recv(1)
    except BlockingIOError:
        return True
    finally:
        end.settimeout(TIMEOUT_S)


TRACE = BandwidthTrace((0, 0.01, 0.02), (100, 0, 300))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"uplink_mbps": 50, "downlink_mbps": 200, "rtt_ms": 10},
        {"rtt_ms": 4, "jitter_ms": 3},
        {"uplink_mbps": TRACE, "downlink_mbps": TRACE.faster(2), "jitter_ms": 1},
    ],
)
def test_bytes_pass_unchanged_in_both_directions(settings: dict[str, float]) -> None:
    data = random.Random(1).randbytes(300_000)
    with a_world(**settings) as world:
        agent, worker = world.pair()
        assert exchange(agent, worker, data) == data
        assert exchange(worker, agent, data[::-1]) == data[::-1]
        counters = world.link.wait_until(lambda now: now.downlink_bytes == len(data))
        assert counters.uplink_bytes == len(data)
        assert counters.accepted_connections == counters.open_connections == 1


def test_connections_share_the_link_and_keep_apart(world: World) -> None:
    world.link.set(uplink_mbps=100)
    pairs = [world.pair() for _ in range(3)]
    for number, (agent, _) in enumerate(pairs):
        agent.sendall(bytes([number]) * 50_000)
    for number, (_, worker) in enumerate(pairs):
        assert receive(worker, 50_000) == bytes([number]) * 50_000


def test_an_end_of_stream_passes_and_the_other_direction_goes_on(world: World) -> None:
    world.link.set(rtt_ms=2)
    agent, worker = world.pair()
    agent.sendall(b"last words")
    agent.shutdown(socket.SHUT_WR)
    assert receive(worker, 100) == b"last words"
    worker.sendall(b"heard")
    worker.close()
    assert receive(agent, 100) == b"heard"
    world.link.wait_until(lambda now: now.open_connections == 0)


def test_a_reset_passes(world: World) -> None:
    agent, worker = world.pair()
    agent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    agent.close()
    with pytest.raises(ConnectionResetError):
        worker.recv(1)
    world.link.wait_until(lambda now: now.open_connections == 0)


def test_an_absent_worker_resets_the_agent(world: World) -> None:
    world.stop_listening()
    with contextlib.suppress(ConnectionResetError):  # So fast that connecting itself may see it.
        assert is_gone(world.connect())
    counters = world.link.wait_until(lambda now: now.open_connections == 0)
    assert (counters.accepted_connections, counters.failed_connections) == (1, 1)


def test_pause_stops_bytes_and_sender_and_loses_nothing(world: World) -> None:
    agent, worker = world.pair()
    world.link.pause()
    data = random.Random(2).randbytes(32_000_000)  # more than all buffers on the way together
    thread = threading.Thread(target=agent.sendall, args=(data,))
    thread.start()
    assert world.link.counters.uplink_bytes == 0
    assert has_nothing(worker)
    assert thread.is_alive()
    world.link.resume()
    assert receive(worker, len(data)) == data
    thread.join()


def test_set_acts_on_what_is_already_queued(world: World) -> None:
    world.link.set(uplink_mbps=0.001)  # 100 kB would take 13 minutes
    agent, worker = world.pair()
    thread = threading.Thread(target=agent.sendall, args=(bytes(100_000),))
    thread.start()
    world.link.set(uplink_mbps=1000)
    assert receive(worker, 100_000) == bytes(100_000)
    thread.join()
    assert world.link.settings == LinkSettings(uplink_mbps=1000)


def test_the_kernel_buffers_follow_the_rate(world: World) -> None:
    world.pair()
    world.link.wait_until(lambda now: now.open_connections == 1)
    for uplink_mbps, downlink_mbps in ((20, 40), (40, 20)):
        world.link.set(uplink_mbps=uplink_mbps, downlink_mbps=downlink_mbps)
        (connection,) = world.link._loop.connections  # type: ignore[union-attr]
        ends = ((connection.agent, uplink_mbps), (connection.worker, downlink_mbps))
        for end, mbps in ends:
            assert end is not None
            kept = end.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            assert kept == 2 * world.link.settings.queue_bytes(mbps)  # Linux doubles it.


def test_set_refuses_what_makes_no_sense(world: World) -> None:
    with pytest.raises(LinkSettingsError, match="no speed"):
        world.link.set(speed=3)
    with pytest.raises(LinkSettingsError, match=r"0\.0001 or more"):
        world.link.set(uplink_mbps=0)
    assert world.link.settings == LinkSettings()


def test_cut_resets_and_refuses_until_restored(world: World) -> None:
    agent, worker = world.pair()
    world.link.cut()
    assert is_gone(agent)
    assert is_gone(worker)
    with pytest.raises(ConnectionRefusedError):
        world.connect()
    host, port = world.link.address.removeprefix("tcp://").split(":")
    with pytest.raises(OSError, match="in use"):  # Nobody else gets the port meanwhile.
        socket.create_server((host, int(port)))
    world.link.restore()
    agent, worker = world.pair()
    assert exchange(agent, worker, b"again") == b"again"


def test_cut_loses_what_is_on_the_way(world: World) -> None:
    world.link.set(uplink_mbps=20, rtt_ms=60_000)
    agent, worker = world.pair()
    agent.sendall(b"never arrives")
    world.link.cut()
    world.link.restore()
    world.link.set(rtt_ms=0)
    assert is_gone(worker)
    agent, worker = world.pair()
    assert exchange(agent, worker, b"arrives") == b"arrives"


def test_cut_in_the_middle_of_a_message(world: World) -> None:
    world.link.set(uplink_mbps=100)
    agent, worker = world.pair()
    thread = threading.Thread(target=_send_until_reset, args=(agent, 50_000_000))
    thread.start()
    world.link.wait_until(lambda now: now.uplink_bytes > 100_000)
    world.link.cut()
    thread.join()
    with pytest.raises(ConnectionResetError):
        receive(worker, 50_000_000)


def _send_until_reset(agent: socket.socket, size: int) -> None:
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        agent.sendall(bytes(size))


def test_a_black_hole_swallows_and_closes_nothing(world: World) -> None:
    agent, worker = world.pair()
    world.link.blackhole()
    agent.sendall(bytes(300_000))
    worker.sendall(bytes(200_000))
    late_agent = world.connect()
    late_agent.sendall(bytes(5_000))
    counters = world.link.wait_until(lambda now: now.swallowed_bytes == 505_000)
    assert (counters.uplink_bytes, counters.downlink_bytes) == (0, 0)
    assert counters.open_connections == 2
    for end in (agent, worker, late_agent):
        assert has_nothing(end)
    world.link.restore()
    for end in (agent, worker, late_agent):
        assert is_gone(end)  # They lost bytes, so they cannot go on.
    agent, worker = world.pair()
    assert exchange(agent, worker, b"again") == b"again"


def test_nobody_learns_through_a_black_hole_that_the_other_has_gone(world: World) -> None:
    agent, worker = world.pair()
    world.link.blackhole()
    agent.close()
    worker.sendall(b"are you there?")
    world.link.wait_until(lambda now: now.swallowed_bytes == len(b"are you there?"))
    assert has_nothing(worker)
    worker.close()
    world.link.wait_until(lambda now: now.open_connections == 0)


def test_half_open_leaves_the_agent_in_the_dark(world: World) -> None:
    agent, worker = world.pair()
    world.link.half_open()
    with pytest.raises(ConnectionResetError):
        worker.recv(1)
    agent.sendall(bytes(70_000))
    world.link.wait_until(lambda now: now.swallowed_bytes == 70_000)
    assert has_nothing(agent)
    new_agent, new_worker = world.pair()
    assert exchange(new_agent, new_worker, b"new ones work") == b"new ones work"
    world.link.restore()
    assert is_gone(agent)
    assert exchange(new_agent, new_worker, b"and go on") == b"and go on"


@pytest.mark.parametrize(
    ("direction", "up", "down"), [("up", True, False), ("down", False, True), ("both", True, True)]
)
def test_corruption_damages_what_it_says(
    world: World, direction: str, up: bool, down: bool
) -> None:
    agent, worker = world.pair()
    world.link.corrupt(every_bytes=500, direction=direction)  # type: ignore[arg-type]
    zeros = bytes(50_000)
    damaged_up = sum(map(bool, exchange(agent, worker, zeros)))
    damaged_down = sum(map(bool, exchange(worker, agent, zeros)))
    assert (damaged_up > 0, damaged_down > 0) == (up, down)
    assert world.link.counters.corrupted_bytes == damaged_up + damaged_down
    world.link.restore()
    assert exchange(agent, worker, zeros) == zeros


def test_waiting_for_what_does_not_come_ends(world: World) -> None:
    with pytest.raises(TimeoutError, match="uplink_bytes=0"):
        world.link.wait_until(lambda now: now.uplink_bytes > 0, timeout_s=0)


def test_leaving_resets_everything_and_gives_the_port_back() -> None:
    with a_world() as world:
        agent, worker = world.pair()
        link = world.link
        host, port = link.address.removeprefix("tcp://").split(":")
        link.__exit__(None, None, None)
        assert is_gone(agent)
        assert is_gone(worker)
        with pytest.raises(EmulatorClosedError, match="closed"):
            link.pause()
        socket.create_server((host, int(port))).close()


def test_a_link_that_was_never_opened_says_so() -> None:
    link = EmulatedLink("tcp://127.0.0.1:5555")
    for use in (lambda: link.address, lambda: link.counters, link.cut):
        with pytest.raises(EmulatorClosedError, match="not open yet"):
            use()


def test_addresses_that_cannot_be_used_are_named(world: World) -> None:
    with pytest.raises(AddressError, match="no port"):
        EmulatedLink("tcp://127.0.0.1")
    with pytest.raises(LinkSettingsError, match="TCP only"):
        EmulatedLink("ipc:///tmp/worker")
    taken = world.link.address
    with (
        pytest.raises(LinkSettingsError, match=f"{taken}.*in use"),
        EmulatedLink("tcp://127.0.0.1:5555", listen=taken),
    ):
        pass
