"""The only place that makes ZeroMQ sockets, and sets every option that guards against a trap.

Options are set before connecting or binding, since most act only on later connections.

The sockets belong to the thread that made them.
"""

from __future__ import annotations

import errno
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

import zmq

from protocol.addresses import Address, parse_address, resolve_host
from protocol.errors import AddressError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.limits import Limits

SocketT = TypeVar("SocketT", bound="zmq.Socket[Any]")

# A high-water mark counts messages, not bytes, and not exactly; the byte credit is the real fence.
HIGH_WATER_MARK = 8

RECONNECT_FIRST_MS = 1_000
RECONNECT_LAST_MS = 32_000

# A peer that hears nothing for the TTL hangs up. It must stay below 65,000 ms: a little above, it
# overflows and peers hang up all the time (libzmq#4226). Shorter ones would cut large messages on
# slow links, during which no heartbeat gets through (libzmq#2709); the ping-pong of sessions is
# what notices a dead peer early.
HEARTBEAT_INTERVAL_MS = 10_000
HEARTBEAT_SILENCE_MS = 60_000

_COMMON: Mapping[int, int] = {
    # The default waits for ever for messages to absent peers when the context ends.
    zmq.LINGER: 0,
    zmq.SNDHWM: HIGH_WATER_MARK,
    zmq.RCVHWM: HIGH_WATER_MARK,
    zmq.HEARTBEAT_IVL: HEARTBEAT_INTERVAL_MS,
    zmq.HEARTBEAT_TIMEOUT: HEARTBEAT_SILENCE_MS,
    zmq.HEARTBEAT_TTL: HEARTBEAT_SILENCE_MS,
    # Strangers who connect and say nothing are dropped after this.
    zmq.HANDSHAKE_IVL: 10_000,
    # Half-open connections: probe after 15 s of silence, every 5 s, three times.
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 15,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 3,
    # Keep-alive is silent while data waits for acknowledgement; this bounds that wait.
    zmq.TCP_MAXRT: 30_000,
}

_AGENT: Mapping[int, int] = {
    # Without it, a thousand messages queue for a worker that is not there.
    zmq.IMMEDIATE: 1,
    zmq.RECONNECT_IVL_MAX: RECONNECT_LAST_MS,
}

_WORKER: Mapping[int, int] = {
    # Without it, messages to devices that left vanish silently.
    zmq.ROUTER_MANDATORY: 1,
    # Without it, a device that returns under its old routing id is never heard.
    zmq.ROUTER_HANDOVER: 1,
}


def agent_socket(context: zmq.Context[SocketT], address: str, limits: Limits) -> SocketT:
    """Return a DEALER that connects, and keeps reconnecting, to a worker.

    Sending blocks (or raises ``zmq.Again`` with NOBLOCK) while there is no connection. A frame
    above the peer's MAXMSGSIZE is lost without an error here: compare with what WELCOME announced.

    Args:
        context: Ordinary or asyncio; decides the socket's class.
        address: Of the worker.
        limits: ``message_bytes`` bounds each received frame.

    Raises:
        AddressError: The address is malformed or its host unknown. A worker that is merely
            absent is no error.
    """
    parsed = parse_address(address)
    if parsed.port == 0:
        raise AddressError(f"address '{parsed}' has port 0; give the port the worker listens on")
    ipv6 = parsed.transport == "tcp" and resolve_host(parsed, to_bind=False)[1]
    # libzmq doubles this interval but adds no jitter of its own once a maximum is set; without
    # any, a fleet would come back in step after the worker restarts.
    first_ms = RECONNECT_FIRST_MS + secrets.randbelow(RECONNECT_FIRST_MS // 2)
    options = {**_AGENT, zmq.RECONNECT_IVL: first_ms, zmq.IPV6: int(ipv6)}
    made = _make(context, zmq.DEALER, options, limits)
    try:
        # By name, so that each reconnection looks the host up again.
        made.connect(str(parsed))
    except zmq.ZMQError as error:
        made.close()
        raise AddressError(f"cannot connect to '{parsed}': {error.strerror}") from error
    return made


def worker_socket(
    context: zmq.Context[SocketT], address: str, limits: Limits
) -> tuple[SocketT, str]:
    """Return a ROUTER that listens, and the address it listens on.

    Sending to a device that left raises ``zmq.ZMQError`` with EHOSTUNREACH; to one that does not
    read, ``zmq.Again`` with NOBLOCK.

    Args:
        context: Ordinary or asyncio; decides the socket's class.
        address: With port 0 the system chooses one; host ``*`` means all of this machine's.
        limits: ``message_bytes`` bounds each received frame.

    Raises:
        AddressError: The address is malformed, in use, forbidden or not of this machine.
    """
    parsed = parse_address(address)
    endpoint, ipv6 = str(parsed), False
    if parsed.transport == "tcp" and parsed.place != "*":
        host, ipv6 = resolve_host(parsed, to_bind=True)
        endpoint = str(Address("tcp", host, parsed.port))
    made = _make(context, zmq.ROUTER, {**_WORKER, zmq.IPV6: int(ipv6)}, limits)
    try:
        made.bind(endpoint)
    except zmq.ZMQError as error:
        made.close()
        raise AddressError(f"cannot listen on '{parsed}': {_bind_advice(error)}") from error
    return made, made.getsockopt_string(zmq.LAST_ENDPOINT)


def _make(
    context: zmq.Context[SocketT], kind: int, options: Mapping[int, int], limits: Limits
) -> SocketT:
    made = context.socket(kind)
    for option, value in {**_COMMON, **options, zmq.MAXMSGSIZE: limits.message_bytes}.items():
        made.setsockopt(option, value)
    return made


def _bind_advice(error: zmq.ZMQError) -> str:
    return _BIND_ADVICE.get(error.errno or 0, error.strerror)


_BIND_ADVICE: Mapping[int, str] = {
    errno.EADDRINUSE: "the address is in use; stop the other program or choose another port",
    errno.EACCES: "permission denied; choose a port above 1023, or a folder you may write to",
    errno.EADDRNOTAVAIL: "this machine has no such address; use 127.0.0.1, or * for all of its own",
    errno.ENODEV: "this machine has no such address; use 127.0.0.1, or * for all of its own",
    errno.ENOENT: "the folder does not exist; create it first",
}
