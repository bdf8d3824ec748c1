"""What every transport must do; each transport's test class inherits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from protocol import FrameError, Ping, Pong

if TYPE_CHECKING:
    from device_agent._transport import Transport
    from protocol import Message

SESSION = bytes(range(16))
PATIENCE_S = 20.0  # far above what anything here takes; no test waits for it to pass


class Peer(Protocol):
    """The other end of the transport under test, which is connected at first."""

    def next(self) -> Message:
        """The next message that the device sent."""

    def send(self, message: Message) -> None:
        """Send a message to the device."""

    def send_garbage(self) -> None:
        """Send the device bytes that are no message."""

    def vanish(self) -> None:
        """Cut the connection, and take no other."""

    def come_back(self) -> None:
        """Take connections again."""


class TransportConformance:
    @pytest.fixture
    def transport(self) -> Transport:
        raise NotImplementedError

    @pytest.fixture
    def peer(self, transport: Transport) -> Peer:
        raise NotImplementedError

    def test_messages_come_out_as_they_went_in_and_in_order(
        self, transport: Transport, peer: Peer
    ) -> None:
        for number in range(5):
            assert transport.send(Ping(SESSION, number))
        for number in range(5):
            assert peer.next() == Ping(SESSION, number)
            peer.send(Pong(SESSION, number))
        for number in range(5):
            assert transport.receive(PATIENCE_S) == Pong(SESSION, number)

    def test_many_messages_may_leave_without_a_look_at_what_arrives(
        self, transport: Transport, peer: Peer
    ) -> None:
        for number in range(100):
            assert transport.send(Ping(SESSION, number))
            assert peer.next() == Ping(SESSION, number)

    def test_looking_without_waiting_finds_nothing_when_there_is_nothing(
        self, transport: Transport, peer: Peer
    ) -> None:
        assert transport.receive(0.0) is None

    def test_waiting_ends_when_the_time_is_up(self, transport: Transport, peer: Peer) -> None:
        assert transport.receive(0.02) is None

    def test_garbage_is_a_frame_error_and_the_next_message_comes_behind_it(
        self, transport: Transport, peer: Peer
    ) -> None:
        transport.send(Ping(SESSION, 1))
        peer.next()
        peer.send_garbage()
        peer.send(Pong(SESSION, 1))
        with pytest.raises(FrameError):
            transport.receive(PATIENCE_S)
        assert transport.receive(PATIENCE_S) == Pong(SESSION, 1)

    def test_waiting_ends_early_when_the_connection_goes_and_when_it_comes_back(
        self, transport: Transport, peer: Peer
    ) -> None:
        assert transport.connected
        peer.vanish()
        assert transport.receive(PATIENCE_S) is None
        assert not transport.connected
        assert not transport.send(Ping(SESSION, 1))
        peer.come_back()
        assert transport.receive(PATIENCE_S) is None
        assert transport.connected
        assert transport.send(Ping(SESSION, 2))
        assert peer.next() == Ping(SESSION, 2)  # what could not leave did not queue

    def test_closing_twice_is_allowed(self, transport: Transport, peer: Peer) -> None:
        transport.close()
        transport.close()
