"""Drives a :class:`WorkerLink` over a :class:`Transport`: one request at a time, on one thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from device_agent._decisions import FAILURE_REASONS, Loss, Next, after_loss
from device_agent._link_values import LinkState, OpenRequest
from device_agent.answers import Reason
from protocol import (
    Failure,
    FrameError,
    RefusalCode,
    Refuse,
    Result,
    VersionMismatchError,
)

if TYPE_CHECKING:
    from device_agent._link import WorkerLink
    from device_agent._transport import Transport
    from protocol import Clock, EncodedTensor

_MOST_ARRIVALS = 64  # a worker that floods us must not keep us from our frames


@dataclass(frozen=True)
class Patience:
    """How long the first greeting may hold up the first frame.

    Attributes:
        connect_s: For a connection. ZeroMQ tries again a second after a first failure.
        welcome_s: For the WELCOME once connected. The worker may have to cut and load the tail.
    """

    connect_s: float = 2.0
    welcome_s: float = 10.0


@dataclass(frozen=True)
class Exchange:
    """What came of one frame's trip to the worker.

    Attributes:
        result: The worker's answer, or None.
        reason: ``planned`` with a result, otherwise why there is none.
        seconds: From the first sending to the end of the waiting.
        uplink_bytes: Message bytes sent.
        detail: What the worker said about a failure.
    """

    result: Result | None
    reason: Reason
    seconds: float = 0.0
    uplink_bytes: int = 0
    detail: str = ""


class WorkerChannel:
    """The agent's only way to the worker.

    Args:
        link: Knows where the session stands.
        transport: Carries the messages.
        clock: The time.
    """

    def __init__(self, link: WorkerLink, transport: Transport, clock: Clock) -> None:
        self.link = link
        self._transport = transport
        self._clock = clock
        self._replies: dict[int, Result | Failure] = {}  # to pending requests, not yet fetched

    @property
    def trouble(self) -> str:
        """Why there is no connection, if more is known; for people."""
        return self._transport.trouble

    def greet(self, patience: Patience) -> LinkState:
        """Say HELLO and wait until the worker has answered, or patience ends."""
        started_s = self._clock.monotonic()
        while True:
            self._send_what_is_due()
            if self.link.state in (LinkState.WELCOMED, LinkState.REFUSED):
                return self.link.state
            connected = self._transport.connected
            limit_s = started_s + (patience.welcome_s if connected else patience.connect_s)
            if self._clock.monotonic() >= limit_s:
                return self.link.state
            self._pull(limit_s)

    def refresh(self) -> None:
        """Take in what has arrived and send what is due, without waiting."""
        for _ in range(_MOST_ARRIVALS):
            if not self._pull(self._clock.monotonic()):
                break
        self._send_what_is_due()

    def exchange(self, tensors: tuple[EncodedTensor, ...], limit_s: float) -> Exchange:
        """Send one request and wait for its reply, until ``limit_s`` on the clock."""
        started_s = self._clock.monotonic()
        uplink_bytes = sent_times = 0
        while True:
            reply: Result | Failure | Reason
            request = self._send_request(tensors, limit_s)
            if isinstance(request, Reason):
                reply = request
            else:
                sent_times += 1
                uplink_bytes += request.bytes
                reply = self._await_reply(request.message.number, limit_s)
            if self._must_send_again(reply, sent_times) and self._await_welcome(limit_s):
                continue
            seconds = self._clock.monotonic() - started_s
            if isinstance(reply, Result):
                return Exchange(reply, Reason.PLANNED, seconds, uplink_bytes)
            if isinstance(reply, Failure):
                reason = FAILURE_REASONS[reply.code]
                return Exchange(None, reason, seconds, uplink_bytes, detail=reply.text)
            return Exchange(None, reply, seconds, uplink_bytes)

    def distrust(self) -> None:
        """The worker's last results do not fit the model."""
        self.link.malformed(self._clock.monotonic())

    def close(self) -> None:
        """Say goodbye and close the transport."""
        farewell = self.link.farewell("the agent ends")
        if farewell is not None:
            self._transport.send(farewell)
        self._transport.close()

    def _send_request(
        self, tensors: tuple[EncodedTensor, ...], limit_s: float
    ) -> OpenRequest | Reason:
        now_s = self._clock.monotonic()
        left_ms = int((limit_s - now_s) * 1000)
        if left_ms < 1:
            return Reason.LATE
        request = self.link.open_request(tensors, left_ms, now_s)
        if isinstance(request, OpenRequest):
            if not self._transport.send(request.message):
                self.link.disconnected(now_s)
                return Reason.LINK_LOST
            self.link.sent(request.message, now_s)
        return request

    def _await_reply(self, number: int, limit_s: float) -> Result | Failure | Reason:
        while self.link.is_pending(number):
            if self._clock.monotonic() >= limit_s:
                self.link.give_up(number, self._clock.monotonic())
                return Reason.LATE
            self._pull(limit_s)
        lost = Reason.BAD_REPLY if self.link.loss is Loss.MALFORMED else Reason.LINK_LOST
        return self._replies.pop(number, lost)

    def _must_send_again(self, reply: Result | Failure | Reason, sent_times: int) -> bool:
        if reply is not Reason.LINK_LOST or self.link.loss is None:
            return False
        return after_loss(self.link.loss, sent_times) is Next.SEND_AGAIN

    def _await_welcome(self, limit_s: float) -> bool:
        while True:
            self._send_what_is_due()
            if self.link.state is not LinkState.HELLO_SENT:
                return self.link.state is LinkState.WELCOMED
            if self._clock.monotonic() >= limit_s:
                return False
            self._pull(limit_s)

    def _pull(self, limit_s: float) -> bool:
        """Wait for one arrival, at most until ``limit_s`` or until the link wants to act."""
        now_s = self._clock.monotonic()
        if self._transport.connected:
            limit_s = min(limit_s, self.link.wake_s(now_s))
        try:
            message = self._transport.receive(max(0.0, limit_s - now_s))
        except VersionMismatchError as error:
            # A worker that speaks another version cannot say so in ours.
            message = Refuse(RefusalCode.VERSION_MISMATCH, str(error), None)
        except FrameError:
            self.link.malformed(self._clock.monotonic())
            return True
        now_s = self._clock.monotonic()
        if message is None:
            if not self._transport.connected:
                self.link.disconnected(now_s)
            return False
        reply = self.link.received(message, now_s)
        if reply is not None:
            self._replies[reply.number] = reply
        return True

    def _send_what_is_due(self) -> None:
        now_s = self._clock.monotonic()
        if not self._transport.connected:
            self.link.disconnected(now_s)
            return
        message = self.link.next_message(now_s)
        if message is not None:
            if self._transport.send(message):
                self.link.sent(message, now_s)
            else:
                self.link.disconnected(now_s)
