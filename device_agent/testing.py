"""Fakes for those who test against this package: a worker in memory, and the way to it.

Light: standard library and numpy only, apart from :mod:`protocol`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any

from protocol import (
    CODEC_NAMES,
    Failure,
    FailureCode,
    FrameError,
    Hello,
    Limits,
    Message,
    Ping,
    Pong,
    RawCodec,
    Request,
    Result,
    Timings,
    Welcome,
    decode_tensor,
    encode_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from protocol.testing import FakeClock

__all__ = ["Arrival", "InMemoryTransport", "Incident", "ScriptedWorker", "make_welcome"]


class Incident(str, Enum):
    """What can arrive besides a message."""

    GARBAGE = "garbage"
    """Bytes that are no message."""
    DISCONNECT = "disconnect"
    """The connection goes, with all that was under way."""
    CONNECT = "connect"
    """A connection comes."""


@dataclass(frozen=True)
class Arrival:
    """Something on its way to the device.

    Attributes:
        what: A message, or an incident.
        after_s: When it arrives, counted from its sending.
    """

    what: Message | Incident
    after_s: float = 0.0


class InMemoryTransport:
    """A way to a worker that is a function; waiting moves the clock instead of taking time.

    Args:
        clock: Moved by :meth:`receive`.
        worker: Called with each message that is sent; returns what arrives in return.

    Attributes:
        sent: Every message handed over.
        closed: Whether it was closed.
        trouble: What the test says it is; see ``Transport.trouble``.
    """

    trouble = ""

    def __init__(
        self, clock: FakeClock, worker: Callable[[Message], Iterable[Arrival]] | None = None
    ) -> None:
        self.sent: list[Message] = []
        self.closed = False
        self._clock = clock
        self._worker = worker
        self._connected = self._knew_connection = True
        self._order = count()  # equal times arrive in the order in which they were pushed
        self._arrivals: list[tuple[float, int, Message | Incident]] = []
        self._changes: list[tuple[float, int, Incident]] = []  # of the connection

    @property
    def connected(self) -> bool:
        """Whether a connection stands; it does at first. See ``Transport.connected``."""
        self._let_come_and_go()
        return self._connected

    def push(self, arrival: Arrival) -> None:
        """Let something arrive that nothing asked for."""
        due_s = self._clock.monotonic() + arrival.after_s
        if arrival.what in (Incident.CONNECT, Incident.DISCONNECT):
            heapq.heappush(self._changes, (due_s, next(self._order), Incident(arrival.what)))
        else:
            heapq.heappush(self._arrivals, (due_s, next(self._order), arrival.what))

    def send(self, message: Message) -> bool:
        """Hand a message to the worker; see ``Transport.send``."""
        self._check_open()
        if not self.connected:
            return False
        self.sent.append(message)
        if self._worker is not None:
            for arrival in self._worker(message):
                self.push(arrival)
        return True

    def receive(self, timeout_s: float) -> Message | None:
        """Return what arrives next, moving the clock to it; see ``Transport.receive``."""
        self._check_open()
        limit_s = self._clock.monotonic() + timeout_s
        while self.connected == self._knew_connection:
            arrives = bool(self._arrivals) and self._arrivals[0][0] <= limit_s
            due_s = self._arrivals[0][0] if arrives else limit_s
            if self._changes and self._changes[0][0] <= due_s:
                self._advance_to(self._changes[0][0])
                continue
            self._advance_to(due_s)
            return self._take() if arrives else None
        self._knew_connection = self._connected
        return None

    def close(self) -> None:
        """End it; see ``Transport.close``."""
        self.closed = True

    def _take(self) -> Message:
        _, _, what = heapq.heappop(self._arrivals)
        if isinstance(what, Incident):
            raise FrameError("what arrived is no message")
        return what

    def _let_come_and_go(self) -> None:
        while self._changes and self._changes[0][0] <= self._clock.monotonic():
            _, _, what = heapq.heappop(self._changes)
            self._connected = what is Incident.CONNECT
            if not self._connected:
                self._arrivals.clear()  # all that was under way

    def _advance_to(self, time_s: float) -> None:
        self._clock.advance(max(0.0, time_s - self._clock.monotonic()))

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("the transport is closed")


class ScriptedWorker:
    """A worker that answers at once and well, unless its script says otherwise.

    Args:
        compute: The tail: from the frontier to the results, both by name.
        script: Called with each message and the reply that a good worker would give, if any;
            returns what arrives instead.

    Attributes:
        welcome: Its terms; a new session each time it is asked to forget.
        received: Every message that it got.
        computed: Numbers of the requests that it computed.
    """

    def __init__(
        self,
        compute: Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]],
        script: Callable[[Message, Message | None], Iterable[Arrival]] | None = None,
        welcome: Welcome | None = None,
    ) -> None:
        self.welcome = welcome or make_welcome()
        self.received: list[Message] = []
        self.computed: list[int] = []
        self._compute = compute
        self._script = script

    def __call__(self, message: Message) -> list[Arrival]:
        """Take a message; return what the device gets for it."""
        self.received.append(message)
        reply = self._reply(message)
        if self._script is not None:
            return list(self._script(message, reply))
        return [] if reply is None else [Arrival(reply)]

    def forget(self) -> None:
        """Forget the session, as a restart does."""
        number = int.from_bytes(self.welcome.session, "big") + 1
        self.welcome = replace(self.welcome, session=number.to_bytes(16, "big"))

    def _reply(self, message: Message) -> Message | None:
        if isinstance(message, Hello):
            return self.welcome
        if not isinstance(message, Ping | Request):
            return None
        session, number = message.session, message.number
        if session != self.welcome.session:
            return Failure(session, number, FailureCode.UNKNOWN_SESSION, "say HELLO", None)
        if isinstance(message, Ping):
            return Pong(session, number)
        feeds = {tensor.spec.name: decode_tensor(tensor, Limits()) for tensor in message.tensors}
        results = self._compute(feeds)
        self.computed.append(number)
        tensors = tuple(encode_tensor(name, array, RawCodec()) for name, array in results.items())
        return Result(session, number, Timings(0.0, 0.0, 0.0, 0.0), tensors)


def make_welcome(**terms: Any) -> Welcome:
    """A WELCOME with generous terms, some of which may be given."""
    usual: dict[str, Any] = {
        "session": bytes(15) + b"\x01",
        "credit_bytes": 1 << 24,
        "ping_interval_ms": 1000,
        "max_message_bytes": 1 << 24,
        "max_tensor_bytes": 1 << 24,
        "codecs": CODEC_NAMES,
        "worker": "scripted",
    }
    return Welcome(**{**usual, **terms})
