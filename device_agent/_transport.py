"""The seam to the wire: messages out, messages in, and whether anybody is connected."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING, Protocol

import zmq

from device_agent._opening import SocketOpening
from protocol import decode_message, encode_message, parse_address

if TYPE_CHECKING:
    from protocol import Clock, Limits, Message

__all__ = ["Transport", "ZeroMqTransport"]

# libzmq does not wake a reader when the connection goes; so long a wait may pass before we look.
_LOOK_MS = 50
# libzmq reconnects by itself after most losses, but never again after bytes that are not ZMTP or a
# message above our MAXMSGSIZE (seen on 4.3.5). So we connect anew: soon after a loss, and now and
# then where no connection ever came to be; seldom enough not to disturb its back-off.
_ANEW_AFTER_LOSS_S = 1.0
_ANEW_S = 120.0


class Transport(Protocol):
    """Carries messages to one worker and back. One thread at a time may use it."""

    @property
    def connected(self) -> bool:
        """Whether a connection stands, so that a message can leave at once."""

    @property
    def trouble(self) -> str:
        """Why there is no connection, if more is known than that nobody answers; for people."""

    def send(self, message: Message) -> bool:
        """Hand a message over without waiting.

        Returns:
            False where there is no connection, or no room in it: the message is then dropped.
        """

    def receive(self, timeout_s: float) -> Message | None:
        """Wait for the next message.

        Args:
            timeout_s: How long to wait; 0 only looks.

        Returns:
            The message; None when the time is up, or as soon as the connection has come or gone
            since the last call.

        Raises:
            FrameError: What arrived is no message of ours. The next call goes on behind it.
        """

    def close(self) -> None:
        """End it; what was sent is given a moment to leave. Closing twice is allowed."""


class ZeroMqTransport:
    """A DEALER socket, owned by the thread that made the transport.

    A host that nobody knows yet is one that does not answer yet: it is looked up again and again.

    Args:
        address: The worker's, such as ``tcp://192.0.2.7:5555``.
        limits: What is accepted from the worker.
        clock: Tells how long a wait has taken.

    Raises:
        AddressError: The address cannot be read.
    """

    def __init__(self, address: str, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._owner = threading.get_ident()
        self._closed = False
        self._endpoint = str(parse_address(address))  # as agent_socket connects to it
        self._connect_s = clock.monotonic()
        self._had_connection = False  # since we last connected
        self._knew_connection = False  # when receive last returned
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        try:
            self._opening = SocketOpening(self._context, address, limits)
        except BaseException:
            self._context.term()
            raise

    @property
    def connected(self) -> bool:
        """Whether a connection stands; see :attr:`Transport.connected`."""
        if self._socket is None:
            return False
        # With IMMEDIATE set only a completed connection makes the socket writable.
        connected = bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLOUT)
        self._had_connection = self._had_connection or connected
        return connected

    @property
    def trouble(self) -> str:
        """Why there is no connection; see :attr:`Transport.trouble`."""
        return self._opening.trouble

    def send(self, message: Message) -> bool:
        """Hand a message over without waiting; see :meth:`Transport.send`."""
        self._check_owner()
        # Asking also lets libzmq take note of what has left; without, eight quick messages fill
        # the pipe for a millisecond, though all have been sent.
        if not self.connected or self._socket is None:
            return False
        try:
            self._socket.send_multipart(encode_message(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, timeout_s: float) -> Message | None:
        """Wait for the next message; see :meth:`Transport.receive`."""
        self._check_owner()
        limit_s = self._clock.monotonic() + timeout_s
        socket = self._await_socket(timeout_s)
        if socket is None:
            return None
        wait_ms = 0  # first only look
        while True:
            events = zmq.POLLIN if self._knew_connection else zmq.POLLIN | zmq.POLLOUT
            if socket.poll(wait_ms, events) & zmq.POLLIN:
                frames = socket.recv_multipart(zmq.NOBLOCK)
                return decode_message(frames, self._limits)
            connected = self.connected
            if not connected:
                self._mend_connection(socket)
            left_s = limit_s - self._clock.monotonic()
            if left_s <= 0 or connected != self._knew_connection:
                self._knew_connection = connected
                return None
            # Rounded up: a wait rounded down to 0 ms would spin through the last millisecond.
            wait_ms = min(_LOOK_MS, int(left_s * 1000) + 1)

    def close(self) -> None:
        """End it; see :meth:`Transport.close`."""
        if not self._closed:
            self._check_owner()
            self._closed = True
            self._opening.close()
            if self._socket is not None:
                self._socket.close(linger=_LOOK_MS)
            self._context.term()

    def _await_socket(self, timeout_s: float) -> zmq.Socket[bytes] | None:
        if self._socket is None:
            self._socket = self._opening.take(timeout_s)
            self._connect_s = self._clock.monotonic()
        return self._socket

    def _mend_connection(self, socket: zmq.Socket[bytes]) -> None:
        passed_s = self._clock.monotonic() - self._connect_s
        if passed_s >= (_ANEW_AFTER_LOSS_S if self._had_connection else _ANEW_S):
            self._connect_s += passed_s
            self._had_connection = False
            try:
                socket.disconnect(self._endpoint)
            except zmq.ZMQError as error:
                if error.errno != errno.ENOENT:  # libzmq has already given the address up
                    raise
            socket.connect(self._endpoint)

    def _check_owner(self) -> None:
        # A ZeroMQ socket used from two threads does not raise: it crashes the process.
        if threading.get_ident() != self._owner:
            raise RuntimeError("a ZeroMqTransport belongs to the thread that made it")
