"""One direction with real sockets and a made-up clock."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from protocol.emulator import LinkSettings
from protocol.emulator.connection import Connection, Pipe
from protocol.emulator.lane import Lane


class Ends:
    """A connection whose two outer ends the test holds."""

    def __init__(self, stack: ExitStack) -> None:
        self.agent, inner_agent = (stack.enter_context(end) for end in socket.socketpair())
        self.worker, inner_worker = (stack.enter_context(end) for end in socket.socketpair())
        for end in (self.agent, inner_agent, self.worker, inner_worker):
            end.setblocking(False)
        self.connection = Connection(inner_agent, inner_worker)

    @property
    def uplink(self) -> Pipe:
        return self.connection.pipes[0]


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(stack)


def fill(end: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        end.sendall(bytes(100_000_000))


def test_a_lane_takes_no_more_than_its_queue_holds_and_comes_back_for_more(ends: Ends) -> None:
    settings = LinkSettings(uplink_mbps=20)  # a queue of 25,000 bytes, 10 ms
    lane = Lane(settings.uplink_mbps, settings, seed=0)
    fill(ends.agent)
    while lane.takes_from(ends.uplink):
        lane.read(ends.uplink, 0)
    assert lane.schedule.backlog_bytes == 25_000
    assert lane.next_event_s() == pytest.approx(0.002)  # the first chunk of 5,000 bytes
    lane.deliver(0.002)
    assert not lane.takes_from(ends.uplink)  # A fifth of the queue is free: not yet worth a read.
    lane.deliver(0.004)
    assert lane.takes_from(ends.uplink)
    assert lane.room_bytes() == 10_000
    assert len(ends.worker.recv(100_000)) == lane.delivered_bytes == 10_000


def test_room_wakes_the_lane_although_nothing_arrives_yet(ends: Ends) -> None:
    settings = LinkSettings(uplink_mbps=20, rtt_ms=1000)
    lane = Lane(settings.uplink_mbps, settings, seed=0)
    fill(ends.agent)
    lane.queue_bytes = 25_000
    while lane.takes_from(ends.uplink):
        lane.read(ends.uplink, 0)
    assert lane.next_event_s() < 0.5


def test_a_receiver_that_does_not_read_stops_its_sender(ends: Ends) -> None:
    settings = LinkSettings()
    lane = Lane(settings.uplink_mbps, settings, seed=0)
    lane.queue_bytes = 25_000
    fill(ends.connection.worker)  # type: ignore[arg-type]
    now_s = 0
    while lane.takes_from(ends.uplink) and now_s < 1000:
        fill(ends.agent)
        lane.read(ends.uplink, now_s)
        lane.deliver(now_s)
        now_s += 1
    assert now_s < 1000
    assert 25_000 <= ends.uplink.overdue_bytes < 2 * 25_000
