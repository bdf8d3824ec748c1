"""What a worker decides: a pure state machine without sockets, threads and clocks.

Messages, loaded tails and answers go in with the time; actions come out. The core owns the queue
of accepted work and hands jobs out one by one, so that what is computed next, and whether it is
still worth it, is decided here and at the last moment.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

from cloud_worker._queue import Work, WorkQueue
from cloud_worker._receiving import read_envelope
from cloud_worker._reception import Reception, refuse_version
from cloud_worker._replies import ReplyCache, RequestKey
from cloud_worker._work import EXPIRED, Compute, Computed, Failed, Job, Send
from protocol import (
    Failure,
    FailureCode,
    Goodbye,
    Hello,
    LimitExceededError,
    Ping,
    Pong,
    RefusalCode,
    Refuse,
    Request,
    Result,
    VersionMismatchError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cloud_worker._repository import ModelRepository
    from cloud_worker._sessions import AgentSession
    from cloud_worker._settings import WorkerSettings
    from cloud_worker._work import Action, Answer, LoadFailure, Tail, TailKey
    from protocol import FrameError, Limits, Message

# One job runs and one lies ready, so that the inference thread does not idle for a hand-off.
_HANDED_OUT = 2
_SERVICE_WEIGHT = 0.1  # of the newest job in the running mean of service times
_SHORTEST_RETRY_MS, _LONGEST_RETRY_MS = 10, 5000
# Answers that would come out the same again. The other failures deserve a second try.
_FINAL = frozenset({FailureCode.BAD_TENSOR, FailureCode.INFERENCE_FAILED, FailureCode.TOO_LARGE})


class WorkerCore:
    """Decides what a worker does.

    Args:
        models: What it serves.
        settings: Its bounds.
        limits: What a message may hold.
        decodes: Whether the worker can decode what a codec makes, by the codec's name.
        new_id: Makes the 16-byte id of a session, which nobody must be able to guess.

    Attributes:
        counts: How often what happened, by name.
    """

    def __init__(
        self,
        models: ModelRepository,
        settings: WorkerSettings,
        limits: Limits,
        decodes: Callable[[str], bool],
        new_id: Callable[[], bytes],
    ) -> None:
        self._settings = settings
        self._reception = Reception(models, settings, limits, decodes, new_id)
        self._queue = WorkQueue(settings.queue_requests, settings.queue_bytes, _HANDED_OUT)
        self._replies = ReplyCache(settings.reply_cache_bytes)
        self._tickets = count()
        self._service_ms = 0.0
        self._drain_ends_at: float | None = None
        self.counts: Counter[str] = Counter()

    def handle(self, peer: bytes, message: Message, size: int, now: float) -> list[Action]:
        """Take a message from a peer.

        Args:
            peer: The connection it came from.
            message: What came.
            size: Bytes of its frames, which is what credit is counted in.
            now: Clock seconds.
        """
        match message:
            case Request():
                return self._request(peer, message, size, now)
            case Ping():
                if self._hear(peer, message.session, now) is None:
                    return [_unknown_session(peer, message.session, message.number)]
                return [Send(peer, Pong(message.session, message.number))]
            case Hello():
                return self._reception.hello(peer, message, now)
            case Goodbye():
                session = self._hear(peer, message.session, now)
                if session is not None:
                    self._end(session)
                return []
            case _:
                self.counts["unexpected"] += 1  # only workers say these
                return []

    def unreadable(
        self, peer: bytes, frames: Sequence[bytes | memoryview], error: FrameError, now: float
    ) -> list[Action]:
        """Take bytes that are no message. Who can be told is told, so that it need not wait."""
        self.counts["unreadable"] += 1
        if isinstance(error, VersionMismatchError):
            return [refuse_version(peer, error.version)]
        envelope = read_envelope(frames)
        if envelope is None:
            return []
        if envelope.number is None:
            return [Send(peer, Refuse(RefusalCode.BAD_HELLO, str(error), None))]
        session = self._hear(peer, envelope.session, now)
        if session is None:
            return []
        too_large = isinstance(error, LimitExceededError)
        code = FailureCode.TOO_LARGE if too_large else FailureCode.BAD_TENSOR
        return [self._reply(session, envelope.number, Failed(code, str(error)))]

    def loaded(self, key: TailKey, outcome: Tail | LoadFailure, now: float) -> list[Action]:
        """Take what became of a ``Load``."""
        return self._reception.loaded(key, outcome, now)

    def finished(self, ticket: int, answer: Answer, now: float) -> list[Action]:
        """Take what became of a ``Compute``."""
        work = self._queue.take(ticket)
        if work is None:
            return []  # it was answered when the time to drain was over
        if isinstance(answer, Computed):
            self._learn_service_time(answer)
        return [*self._answer(work, answer, now), *self._hand_out(now)]

    def tick(self, now: float) -> list[Action]:
        """Do what is due by time alone."""
        for session in self._reception.sessions.silent(now):
            self.counts["sessions_expired"] += 1
            self._end(session)
        if self._drain_ends_at is not None and now >= self._drain_ends_at:
            text = f"the worker stops; it waited {self._settings.drain_ms} ms for this request"
            return self._give_up(self._queue.unanswered(), Failed(FailureCode.DRAINING, text), now)
        return self._give_up(self._queue.expired(now), EXPIRED, now)

    def next_tick_at(self) -> float | None:
        """When :meth:`tick` has something to do at the earliest; None: not before a message."""
        times = (
            self._queue.next_expiry_at(),
            self._reception.sessions.next_end_at,
            self._drain_ends_at,
        )
        return min((time for time in times if time is not None), default=None)

    def drain(self, now: float) -> list[Action]:
        """Accept nothing more; finish what is accepted, as far as time allows."""
        if self._drain_ends_at is None:
            self._drain_ends_at = now + self._settings.drain_ms / 1000
        return self._reception.close()

    @property
    def drained(self) -> bool:
        """Whether a draining worker has answered everything."""
        return self._drain_ends_at is not None and not len(self._queue)

    def farewell(self, reason: str) -> list[Action]:
        """Say goodbye to all sessions and give up all tails."""
        return self._reception.farewell(reason)

    # Sessions

    def _hear(self, peer: bytes, session_id: bytes, now: float) -> AgentSession | None:
        session = self._reception.sessions.find(session_id)
        if session is not None:
            session.heard(peer, now)
        return session

    def _end(self, session: AgentSession) -> None:
        for work in self._queue.abandon(session):
            self._reception.tails.let_go(work.key.tail)
        self._reception.end(session)

    # Requests

    def _request(self, peer: bytes, request: Request, size: int, now: float) -> list[Action]:
        session = self._hear(peer, request.session, now)
        if session is None:
            return [_unknown_session(peer, request.session, request.number)]
        key = RequestKey(session.terms.hello.incarnation, session.tail.key, request.number)
        answer = self._replies.find(key)
        if answer is not None:
            self.counts["replayed"] += 1
            return [self._reply(session, request.number, answer)]
        work = self._queue.find(key)
        if work is not None:
            return self._repeat(session, work)
        objection = self._object(session, request, size)
        if objection is not None:
            return [self._reply(session, request.number, objection)]
        self._accept(session, key, request, size, now)
        return self._hand_out(now)

    def _repeat(self, session: AgentSession, work: Work) -> list[Action]:
        """Take a repeated request whose first one is still unanswered: it is answered once.

        An agent that reconnected repeats in its new session, and is answered there.
        """
        self.counts["repeated"] += 1
        if work.session is session:
            return []
        if not session.ledger.spend(work.key.number, work.size):
            return [self._reply(session, work.key.number, self._over_credit(session, work.size))]
        if work.session is not None:
            work.session.ledger.release(work.key.number)
        work.session = session
        return []

    def _object(self, session: AgentSession, request: Request, size: int) -> Failed | None:
        """Why a new request is not accepted; without an objection its credit is spent."""
        if self._drain_ends_at is not None:
            return Failed(FailureCode.DRAINING, "the worker is stopping")
        if request.deadline_ms is not None and request.deadline_ms <= 0:
            return EXPIRED
        if size > self._reception.max_message_bytes:
            most = self._reception.max_message_bytes
            return Failed(FailureCode.TOO_LARGE, f"{size} bytes; this worker takes {most}")
        full = self._queue.refusal(size)
        if full is not None:
            return Failed(FailureCode.BUSY, full, self._retry_after_ms())
        if not session.ledger.spend(request.number, size):
            return self._over_credit(session, size)
        return None

    def _over_credit(self, session: AgentSession, size: int) -> Failed:
        text = (
            f"{size} bytes on top of {session.ledger.outstanding} unanswered exceed "
            f"{self._settings.credit_bytes}, the credit of this session"
        )
        return Failed(FailureCode.OVER_CREDIT, text)

    def _accept(
        self, session: AgentSession, key: RequestKey, request: Request, size: int, now: float
    ) -> None:
        deadline_ms = request.deadline_ms
        job = Job(
            ticket=next(self._tickets),
            tail=session.tail,
            tensors=request.tensors,
            results=session.terms.hello.results,
            preprocess=session.terms.preprocess,
            accepted_at=now,
            expires_at=None if deadline_ms is None else now + deadline_ms / 1000,
        )
        self._queue.add(Work(key, job, size, session))
        self._reception.tails.hold(key.tail)

    def _hand_out(self, now: float) -> list[Action]:
        actions: list[Action] = []
        while (work := self._queue.next()) is not None:
            if work.job.expired(now):
                actions += self._give_up([work], EXPIRED, now)
            else:
                actions.append(Compute(work.job))
        return actions

    def _give_up(self, works: list[Work], answer: Failed, now: float) -> list[Action]:
        actions: list[Action] = []
        for work in works:
            self._queue.remove(work)
            actions += self._answer(work, answer, now)
        return actions

    def _answer(self, work: Work, answer: Answer, now: float) -> list[Action]:
        """Give the one answer to a request that has left the queue."""
        self._reception.tails.let_go(work.key.tail)
        if isinstance(answer, Computed):
            self._replies.keep(work.key, answer, answer.message_bytes)
        elif answer.code in _FINAL:
            self._replies.keep(work.key, answer, len(answer.text))
        session = work.session
        if session is None:
            return []
        session.alive_at = now
        session.ledger.release(work.key.number)
        return [self._reply(session, work.key.number, answer)]

    def _reply(self, session: AgentSession, number: int, answer: Answer) -> Send:
        if isinstance(answer, Computed):
            # A message above the agent's limit would cost it the connection, without a word.
            most = session.terms.hello.max_message_bytes
            if answer.message_bytes <= most:
                self.counts["results"] += 1
                result = Result(session.id, number, answer.timings, answer.tensors)
                return Send(session.peer, result)
            text = f"the result takes {answer.message_bytes} bytes; the agent takes {most}"
            answer = Failed(FailureCode.TOO_LARGE, text)
        self.counts[f"failed_{answer.code.value}"] += 1
        failure = Failure(session.id, number, answer.code, answer.text, answer.retry_after_ms)
        return Send(session.peer, failure)

    def _learn_service_time(self, answer: Computed) -> None:
        timings = answer.timings
        latest_ms = timings.decode_ms + timings.inference_ms + timings.encode_ms
        weight = _SERVICE_WEIGHT if self._service_ms else 1.0
        self._service_ms += weight * (latest_ms - self._service_ms)

    def _retry_after_ms(self) -> int:
        """How long the requests before a new one will take."""
        backlog_ms = self._service_ms * len(self._queue)
        return int(min(max(backlog_ms, _SHORTEST_RETRY_MS), _LONGEST_RETRY_MS))


def _unknown_session(peer: bytes, session_id: bytes, number: int) -> Send:
    text = "no such session here; say HELLO again"
    return Send(peer, Failure(session_id, number, FailureCode.UNKNOWN_SESSION, text, None))
