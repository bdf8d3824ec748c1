"""Makes the socket to a worker whose host may not be known yet, without holding anybody up."""

from __future__ import annotations

import ipaddress
import threading
from typing import TYPE_CHECKING

import zmq

from protocol import AddressError, agent_socket, parse_address

if TYPE_CHECKING:
    from protocol import Limits

    Socket = zmq.Socket[bytes]

_AGAIN_S = 5.0  # between two look-ups; a name server that does not answer takes as long


class SocketOpening:
    """A socket that is made as soon as its host can be looked up.

    A look-up may take many seconds where the network is gone, which is when a device must not
    wait. So names are looked up on a thread, again and again; the socket that it makes at last is
    handed over, and never touched there again.

    Args:
        context: The socket's.
        address: The worker's.
        limits: What is accepted from the worker.

    Raises:
        AddressError: The address cannot be read.
    """

    def __init__(self, context: zmq.Context[Socket], address: str, limits: Limits) -> None:
        parsed = parse_address(address)
        if parsed.port == 0:
            raise AddressError(f"address '{parsed}' has port 0; give the port of the worker")
        self.trouble = ""
        self._context = context
        self._address = address
        self._limits = limits
        self._lock = threading.Lock()
        self._made: Socket | None = None
        self._closed = threading.Event()
        self._ready = threading.Event()
        if parsed.transport == "tcp" and not _is_numeric(parsed.place):
            self.trouble = f"host {parsed.place!r} is still being looked up"
            threading.Thread(target=self._look_up, name="look-up", daemon=True).start()
        else:
            self._hand_over(agent_socket(context, address, limits))

    def take(self, timeout_s: float) -> Socket | None:
        """Wait for the socket; it is given once."""
        if not self._ready.wait(timeout_s):
            return None
        with self._lock:
            made, self._made = self._made, None
        return made

    def close(self) -> None:
        """Give up; a socket that was not taken is closed. Closing twice is allowed."""
        with self._lock:
            self._closed.set()
            if self._made is not None:
                self._made.close()
                self._made = None

    def _look_up(self) -> None:
        while not self._closed.is_set():
            try:
                made = agent_socket(self._context, self._address, self._limits)
            except AddressError as error:
                self.trouble = str(error)
                self._closed.wait(_AGAIN_S)
            except zmq.ZMQError:
                return  # the context has ended meanwhile
            else:
                self.trouble = ""
                self._hand_over(made)
                return

    def _hand_over(self, made: Socket) -> None:
        with self._lock:
            if self._closed.is_set():
                made.close()
            else:
                self._made = made
                self._ready.set()


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
