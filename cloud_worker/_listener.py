"""Listens, but not while the process is out of file descriptors."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE_S = 1.0
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Pauses listening where a connection cannot be accepted for want of descriptors.

    ZeroMQ would try again and again without a pause, and use up a processor. Connections that
    there are go on; those that come during the pause are refused, and agents try again.

    Args:
        socket: A bound ROUTER socket.
        address: Where it is bound.
        log: Gets a line for each pause.

    Attributes:
        monitor: Becomes readable when :meth:`turn` has something to do; otherwise that is only at
            ``resumes_at``.
        resumes_at: Clock seconds at which a pause ends; None where there is none.
    """

    def __init__(
        self, socket: zmq.Socket[bytes], address: str, log: Callable[[str], object]
    ) -> None:
        self._socket = socket
        self._address = address
        self._log = log
        self.monitor = socket.get_monitor_socket(zmq.EVENT_ACCEPT_FAILED)
        self.resumes_at: float | None = None

    def turn(self, now: float) -> None:
        """Begin or end a pause, if it is time to."""
        exhausted = False
        while int(self.monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            event = parse_monitor_message(self.monitor.recv_multipart())
            exhausted |= event["value"] in _EXHAUSTED
        if exhausted and self.resumes_at is None:
            self._log("fault: no file descriptor is left for a new connection; raise ulimit -n")
            self._socket.unbind(self._address)
            self.resumes_at = now + _PAUSE_S
        elif self.resumes_at is not None and now >= self.resumes_at:
            self._resume(now)

    def close(self) -> None:
        """Give the monitor up; the socket is the owner's to close."""
        self._socket.disable_monitor()
        self.monitor.close(0)

    def _resume(self, now: float) -> None:
        try:
            self._socket.bind(self._address)
        except zmq.ZMQError:
            self.resumes_at = now + _PAUSE_S  # still no descriptor
        else:
            self.resumes_at = None
