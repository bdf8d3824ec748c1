"""The emulator's own port: open, or refusing while nobody else can take it."""

from __future__ import annotations

import socket

from protocol.addresses import parse_address, resolve_host
from protocol.emulator.errors import LinkSettingsError

_BACKLOG = 64
# A window smaller than one segment stalls TCP for whole timer periods, and a segment on loopback is
# 64 kB; segments as on Ethernet let the window be as small as the link asks for.
_SEGMENT_BYTES = 1448


class Listener:
    """A port that can stop listening without giving the port away.

    A second socket is bound to the port and never listens. While it alone is there, connections
    are refused and nobody else can bind the port.
    """

    def __init__(self, address: str, buffer_bytes: int) -> None:
        self._buffer_bytes = buffer_bytes
        self._socket: socket.socket | None = None
        self._family, wanted = resolve_tcp(address, to_bind=True)
        self._holder = socket.socket(self._family, socket.SOCK_STREAM)
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._holder.bind(wanted)
        except OSError as error:
            self._holder.close()
            raise LinkSettingsError(f"cannot listen on {address}: {error.strerror}") from error
        # Changed after the bind, which must fail if another process has the port, and must not
        # fail for connections of a former one: from now on only our own listener can share it.
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._sockaddr = self._holder.getsockname()
        self.listen()

    @property
    def address(self) -> str:
        """The bound address as ``tcp://HOST:PORT``."""
        host, port = self._sockaddr[:2]
        return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"

    @property
    def socket(self) -> socket.socket | None:
        """The listening socket; ``None`` while connections are refused."""
        return self._socket

    def listen(self) -> None:
        """Take connections."""
        if self._socket is not None:
            return
        listening = socket.socket(self._family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        prepare(listening, self._buffer_bytes, self._buffer_bytes)
        listening.bind(self._sockaddr)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        self._socket = listening

    def refuse(self) -> None:
        """Refuse connections; the port stays ours."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Give the port back."""
        self.refuse()
        self._holder.close()


def resolve_tcp(address: str, *, to_bind: bool) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Turn ``tcp://HOST:PORT`` into what sockets take.

    Raises:
        AddressError: It cannot be read, or nobody knows the host.
        LinkSettingsError: It is no TCP address.
    """
    parsed = parse_address(address)
    if parsed.port is None:
        raise LinkSettingsError(f"the emulator carries TCP only, not {address}")
    host, is_ipv6 = resolve_host(parsed, to_bind=to_bind)
    return (socket.AF_INET6 if is_ipv6 else socket.AF_INET), (host, parsed.port)


def prepare(end: socket.socket, receive_bytes: int, send_bytes: int) -> None:
    """Make a socket ready for small buffers; only before it listens or connects."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES)
    size_buffers(end, receive_bytes, send_bytes)


def size_buffers(end: socket.socket, receive_bytes: int, send_bytes: int) -> None:
    """Keep the kernel from hiding the link's slowness behind its own buffers."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    # Or the window would stay as small as the buffer was when the connection began.
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, receive_bytes)
