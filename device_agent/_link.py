"""The agent's side of a session with one worker, as a state machine without input or output.

What arrives goes in with the time at which it arrived; what must be sent comes out. Nothing here
knows a socket, a clock or a thread, so each test writes its own course of events.

    LOST ──HELLO──▶ HELLO_SENT ──WELCOME──▶ WELCOMED ──silence, goodbye, ...──▶ LOST
      ▲                 │  └────REFUSE────▶ REFUSED ──after its wait, HELLO──▶ HELLO_SENT
      └────no answer────┘

Light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from device_agent._decisions import Loss, refusal_reason
from device_agent._link_values import (
    LONG_AGO,
    LinkCounters,
    LinkPolicy,
    LinkSession,
    LinkState,
    OpenRequest,
    Waits,
)
from device_agent._requests import ReplyKind, RequestBook
from device_agent.answers import Reason
from protocol import (
    CreditLedger,
    Failure,
    FailureCode,
    FrameError,
    Goodbye,
    Hello,
    Message,
    Ping,
    Pong,
    Refuse,
    Request,
    Result,
    Welcome,
    message_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol import EncodedTensor

_NEVER = float("inf")


class WorkerLink:
    """A session with one worker.

    Args:
        hello: What to greet the worker with, each time.
        policy: How patient to be.
        jitter: Returns random numbers in [0, 1) for the back-off.

    Attributes:
        state: Where the session stands.
        refusal: The worker's last refusal, until it welcomes.
        loss: Why the last session or request was lost; None before the first loss.
        counters: What has crossed the link.
    """

    def __init__(self, hello: Hello, policy: LinkPolicy, jitter: Callable[[], float]) -> None:
        self.state = LinkState.LOST
        self.refusal: Refuse | None = None
        self.loss: Loss | None = None
        self.counters = LinkCounters()
        self._hello = hello
        self._policy = policy
        self._waits = Waits(policy, jitter)
        self._hello_due_s = LONG_AGO
        self._hello_sent_s = LONG_AGO
        self._session: LinkSession | None = None  # exactly while WELCOMED
        self._book = RequestBook()

    # What must be sent.

    def next_message(self, now_s: float) -> Hello | Ping | None:
        """What to send now, if anything; call it after everything that has arrived went in.

        The caller reports the outcome with :meth:`sent` or :meth:`disconnected`.
        """
        self._judge(now_s)
        if self._session is not None:
            if now_s < self._ping_due_s(self._session):
                return None
            return Ping(self._session.terms.session, self._book.count())
        if self.state is LinkState.HELLO_SENT or now_s < self._hello_due_s:
            return None
        return self._hello

    def wake_s(self, now_s: float) -> float:
        """The time at which :meth:`next_message` should be asked again at the latest."""
        if self._session is not None:
            return min(self._ping_due_s(self._session), self._overdue_s(self._session))
        if self.state is LinkState.HELLO_SENT:
            return self._hello_sent_s + self._policy.hello_timeout_s
        return max(now_s, self._hello_due_s)

    def sent(self, message: Message, now_s: float) -> None:
        """A message of :meth:`next_message` or :meth:`open_request` is on its way."""
        if isinstance(message, Hello):
            self.state = LinkState.HELLO_SENT
            self._hello_sent_s = now_s
            self.counters.hellos += 1
        elif isinstance(message, Request):
            self.counters.requests += 1
        elif isinstance(message, Ping) and self._session is not None:
            self._session.pinged_s = now_s
            self._session.silent_pings += 1
            self.counters.pings += 1

    def farewell(self, reason: str) -> Goodbye | None:
        """The last message to send, if there is a session to end."""
        return None if self._session is None else Goodbye(self._session.terms.session, reason)

    # Requests.

    def obstacle(self, now_s: float) -> Reason | None:
        """Why no request can be opened now, or None."""
        if self._session is None:
            if self.refusal is not None:
                return refusal_reason(self.refusal.code)
            return Reason.NO_SESSION
        if now_s < self._session.held_until_s:
            return Reason.BUSY
        return Reason.OVERDUE if self._session.owed else None

    def open_request(
        self, tensors: tuple[EncodedTensor, ...], deadline_ms: int, now_s: float
    ) -> OpenRequest | Reason:
        """Number a request and take its bytes from the credit, or say why that cannot be."""
        obstacle = self.obstacle(now_s)
        if obstacle is not None or self._session is None:
            return obstacle or Reason.NO_SESSION
        terms = self._session.terms
        request = Request(terms.session, self._book.next_number, deadline_ms, tensors)
        try:
            size = message_bytes(request)
        except FrameError:
            return Reason.TOO_LARGE  # more tensors, axes or letters than the wire carries
        largest = max((tensor.spec.raw_bytes for tensor in tensors), default=0)
        if size > terms.max_message_bytes or largest > terms.max_tensor_bytes:
            return Reason.TOO_LARGE
        if not self._session.ledger.spend(request.number, size):
            return Reason.NO_CREDIT
        self._book.open(terms.session)
        return OpenRequest(request, size)

    def is_pending(self, number: int) -> bool:
        """Whether a request still waits for its reply."""
        return self._book.session_of(number) is not None

    def give_up(self, number: int, now_s: float) -> None:
        """A frame no longer waits; its credit stays spent until the worker has replied."""
        session = self._book.session_of(number)
        if session is None:
            return
        if self._session is not None and session == self._session.terms.session:
            self._session.owed.add(number)
        forgotten = self._book.give_up(number, now_s)
        if self._session is not None:
            self._session.owed.difference_update(forgotten)

    # What arrives.

    def received(self, message: Message, now_s: float) -> Result | Failure | None:
        """Take a message in; the reply to a pending request comes back out, once."""
        if self._session is not None:
            self._session.heard_s = now_s
            self._session.silent_pings = 0
        if isinstance(message, Result | Failure):
            return self._reply(message, now_s)
        if isinstance(message, Welcome):
            self._welcomed(message, now_s)
        elif isinstance(message, Refuse):
            self._refused(message, now_s)
        elif isinstance(message, Goodbye):
            if self._is_current(message.session):
                self._lose(Loss.ENDED_BY_WORKER, now_s)
        elif not isinstance(message, Pong):
            self.malformed(now_s)
        return None

    def malformed(self, now_s: float) -> None:
        """Something arrived that no worker of ours sends: do not trust the session any further."""
        self.counters.malformed += 1
        if self.state is not LinkState.REFUSED:
            self._lose(Loss.MALFORMED, now_s)

    def disconnected(self, now_s: float) -> None:
        """There is no connection at present."""
        if self.state in (LinkState.HELLO_SENT, LinkState.WELCOMED):
            self._lose(Loss.DISCONNECTED, now_s)

    def _reply(self, reply: Result | Failure, now_s: float) -> Result | Failure | None:
        if isinstance(reply, Failure) and reply.code is FailureCode.UNKNOWN_SESSION:
            self._forgotten(reply, now_s)
            return None
        kind = self._book.take(reply.number, reply.session)
        if kind in (ReplyKind.AWAITED, ReplyKind.LATE):
            self._settle(reply.number)
        self.counters.late += kind is ReplyKind.LATE
        self.counters.duplicates += kind is ReplyKind.DUPLICATE
        self.counters.foreign += kind is ReplyKind.FOREIGN
        if kind is not ReplyKind.AWAITED:
            return None
        self.counters.replies += 1
        if isinstance(reply, Failure):
            self._failed(reply, now_s)
        elif self._session is not None:
            self._session.proven = True
            self._waits.begin_anew()
        return reply

    def _settle(self, number: int) -> None:
        """The worker has done with a request, so its credit is free again."""
        if self._session is not None:
            self._session.owed.discard(number)
            self._session.ledger.release(number)

    def _failed(self, failure: Failure, now_s: float) -> None:
        wait_s = self._waits.asked_s(failure)
        if failure.code is FailureCode.BUSY and self._session is not None:
            self._session.held_until_s = now_s + wait_s
        elif failure.code is FailureCode.DRAINING:
            self._lose(Loss.ENDED_BY_WORKER, now_s)
            self._hello_due_s = max(self._hello_due_s, now_s + wait_s)

    def _forgotten(self, failure: Failure, now_s: float) -> None:
        """The worker restarted, or let the session run out while there were no frames."""
        if self._session is not None and self._is_current(failure.session):
            proven = self._session.proven
            self._lose(Loss.UNKNOWN_SESSION, now_s)
            if proven:  # the worker is there, and this session has worked: greet it at once
                self._hello_due_s = now_s
        elif self._book.session_of(failure.number) == failure.session:
            self.loss = Loss.UNKNOWN_SESSION
            self.give_up(failure.number, now_s)
        else:
            self.counters.foreign += 1

    def _welcomed(self, welcome: Welcome, now_s: float) -> None:
        if self._is_current(welcome.session):
            return  # the answer to a repeated HELLO; credit that is spent stays spent
        # Where a session stands already, this answers a HELLO that we had taken as lost. The
        # newest is the one that the worker keeps; what went out under the old may still come.
        self.state = LinkState.WELCOMED
        self.refusal = None
        self.counters.sessions += 1
        self._session = LinkSession(welcome, CreditLedger(welcome.credit_bytes), heard_s=now_s)

    def _refused(self, refuse: Refuse, now_s: float) -> None:
        if self._session is not None:
            return  # the answer to a repeated HELLO; the session that we have still stands
        self.state = LinkState.REFUSED
        self.refusal = refuse
        wait_s = self._policy.backoff_last_s
        if refuse.code.advice == "retry":
            wait_s = self._waits.next_s()
        self._hello_due_s = now_s + max(wait_s, self._waits.asked_s(refuse))

    # Time.

    def _judge(self, now_s: float) -> None:
        if self.state is LinkState.HELLO_SENT:
            if now_s >= self._hello_sent_s + self._policy.hello_timeout_s:
                self.state = LinkState.LOST
                self._hello_due_s = now_s + self._waits.next_s()
        elif self._session is not None:
            silent = self._session.silent_pings >= self._policy.ping_misses
            if now_s >= self._overdue_s(self._session):
                self._lose(Loss.OVERDUE, now_s)
            elif silent and now_s >= self._ping_due_s(self._session):
                self._lose(Loss.SILENT, now_s)

    def _ping_due_s(self, session: LinkSession) -> float:
        """A request on its way is the better ping: on a slow link a real one queues behind it."""
        if self._book.waiting or session.owed:
            return _NEVER
        return max(session.heard_s, session.pinged_s) + session.terms.ping_interval_ms / 1000

    def _overdue_s(self, session: LinkSession) -> float:
        since_s = map(self._book.given_up_s, session.owed)
        return min(since_s, default=_NEVER) + self._policy.overdue_limit_s

    def _lose(self, loss: Loss, now_s: float) -> None:
        """End the session, if there is one; what it still owes is late if it comes all the same."""
        self.counters.losses += self._session is not None
        self._session = None
        for number in self._book.waiting:
            self.give_up(number, now_s)
        self.state = LinkState.LOST
        self.loss = loss
        self._hello_due_s = now_s + self._waits.next_s()

    def _is_current(self, session: bytes) -> bool:
        return self._session is not None and self._session.terms.session == session
