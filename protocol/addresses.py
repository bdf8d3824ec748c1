"""Where a worker listens: ``tcp://HOST:PORT``, ``ipc://PATH`` or ``inproc://NAME``."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import Literal

from protocol.errors import AddressError
from protocol.text import did_you_mean, quoted

_TRANSPORTS = ("tcp", "ipc", "inproc")
_TCP = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]/@?#\s]+):(?P<port>[0-9]+)")
_TCP_WITHOUT_PORT = re.compile(r"(\[[^\[\]]+\]|[^:\[\]/@?#\s]+):?")
_IPC_BYTES = 107  # of sun_path on Linux, less the closing zero
_LONGEST_PLACE = 270  # a host name has up to 253 characters
_SHOWN_CHARACTERS = 160
_EXAMPLE = "write tcp://HOST:PORT, for example tcp://127.0.0.1:5555"


@dataclass(frozen=True)
class Address:
    """An address that is well formed; whether it can be reached is another matter.

    Attributes:
        transport: How.
        place: The host without brackets, the path, or the name.
        port: For TCP only; 0 lets the system choose one when binding.
    """

    transport: Literal["tcp", "ipc", "inproc"]
    place: str
    port: int | None = None

    def __str__(self) -> str:
        if self.port is None:
            return f"{self.transport}://{self.place}"
        host = f"[{self.place}]" if ":" in self.place else self.place
        return f"{self.transport}://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read an address.

    Raises:
        AddressError: The text is no address; the message says how to write one.
    """
    shown = quoted(text, _SHOWN_CHARACTERS)
    transport, separator, rest = text.partition("://")
    if not separator:
        raise AddressError(f"address {shown} names no transport: {_EXAMPLE}")
    if transport not in _TRANSPORTS:
        hint = did_you_mean(transport, _TRANSPORTS)
        raise AddressError(
            f"address {shown} has unknown transport {quoted(transport, 20)}{hint}: {_EXAMPLE}"
        )
    if not rest:
        raise AddressError(f"address {shown} ends after its transport: {_EXAMPLE}")
    if transport == "ipc":
        if len(rest.encode()) > _IPC_BYTES:
            raise AddressError(
                f"address {shown} has a path of {len(rest.encode())} bytes;"
                f" the system takes {_IPC_BYTES}, use a shorter one"
            )
        return Address("ipc", rest)
    if len(rest) > _LONGEST_PLACE:
        raise AddressError(
            f"address {shown} has {len(rest)} characters after its transport;"
            f" the limit is {_LONGEST_PLACE}"
        )
    if transport == "inproc":
        return Address("inproc", rest)
    match = _TCP.fullmatch(rest)
    if match is None:
        if _TCP_WITHOUT_PORT.fullmatch(rest):
            raise AddressError(f"address {shown} has no port: {_EXAMPLE}")
        raise AddressError(f"address {shown} cannot be read: {_EXAMPLE}")
    port = int(match["port"])
    if port > 65_535:
        raise AddressError(f"address {shown} has port {port}; the highest is 65535")
    return Address("tcp", match["host"].strip("[]"), port)


def resolve_host(address: Address, *, to_bind: bool) -> tuple[str, bool]:
    """Look up the host of a TCP address.

    ZeroMQ itself would look it up later and, where that fails, retry for ever in silence.

    Args:
        address: A TCP address.
        to_bind: Whether the host must be one of this machine's.

    Returns:
        A numeric address, and whether it is IPv6. The IPv4 one is preferred.

    Raises:
        AddressError: Nobody knows the host.
    """
    flags = socket.AI_PASSIVE if to_bind else 0
    try:
        found = socket.getaddrinfo(
            address.place, address.port, type=socket.SOCK_STREAM, flags=flags
        )
    except (OSError, UnicodeError) as error:
        raise AddressError(
            f"address '{address}': host {address.place!r} cannot be resolved"
            " (check the spelling, or give its IP address)"
        ) from error
    families = {entry[0]: entry[4][0] for entry in reversed(found)}
    if socket.AF_INET in families:
        return str(families[socket.AF_INET]), False
    return str(families[socket.AF_INET6]), True
