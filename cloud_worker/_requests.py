"""Requests: each accepted one gets exactly one answer, and gets it in time. Pure."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from cloud_worker import _notes
from cloud_worker._queue import Work, WorkQueue
from cloud_worker._replies import ReplyCache, RequestKey
from cloud_worker._work import EXPIRED, Compute, Computed, Failed, Job, Note, Send, Stop
from protocol import Failure, FailureCode, Result

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from cloud_worker._sessions import AgentSession
    from cloud_worker._settings import WorkerSettings
    from cloud_worker._tail_table import TailTable
    from cloud_worker._work import Action, Answer
    from protocol import Request

# One job runs and one lies ready, so that the inference thread does not idle for a hand-off.
_HANDED_OUT = 2
_SERVICE_WEIGHT = 0.1  # of the newest job in the running mean of service times
_SHORTEST_RETRY_MS, _LONGEST_RETRY_MS = 10, 5000
# A run that was told to stop does so between two operators. One that goes on for so long is stuck
# in an operator, and nothing is accepted until it ends.
_STOP_PATIENCE_S = 2.0
# Answers that would come out the same again. The other failures deserve a second try.
_FINAL = frozenset(
    {
        FailureCode.BAD_TENSOR,
        FailureCode.REJECTED,
        FailureCode.INFERENCE_FAILED,
        FailureCode.TOO_LARGE,
    }
)


class RequestDesk:
    """Accepts requests, hands them out and answers them.

    Args:
        settings: Bounds of the worker.
        max_message_bytes: Largest request.
        tails: Tails; one is held for each job.
        counts: How often what happened is counted here.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        max_message_bytes: int,
        tails: TailTable,
        counts: Counter[str],
    ) -> None:
        self._settings = settings
        self._max_message_bytes = max_message_bytes
        self._tails = tails
        self._counts = counts
        self._queue = WorkQueue(settings.queue_requests, settings.queue_bytes, _HANDED_OUT)
        self._replies = ReplyCache(settings.reply_cache_bytes)
        self._tickets = count()
        self._service_ms = 0.0
        self._stopped_at: dict[int, float] = {}  # jobs that are out, and shall end, by ticket
        self._stuck: int | None = None
        self.closed = False

    def __len__(self) -> int:
        return len(self._queue)

    def request(
        self, session: AgentSession, request: Request, size: int, now: float
    ) -> list[Action]:
        """Take a request: a new one, or one that is repeated."""
        key = RequestKey(session.terms.hello.incarnation, session.tail.key, request.number)
        session.asked_at = now
        answer = self._replies.find(key)
        if answer is not None:
            self._counts["replayed"] += 1
            return [self.reply(session, request.number, answer)]
        work = self._queue.find(key)
        if work is not None:
            return self._repeat(session, work)
        objection = self._object(session, request, size)
        if objection is not None:
            return [self.reply(session, request.number, objection)]
        actions, full = self._make_room(session, size, now)
        if full is not None:
            session.ledger.release(request.number)
            busy = Failed(FailureCode.BUSY, full, self._retry_after_ms())
            return [*actions, self.reply(session, request.number, busy)]
        self._accept(session, key, request, size, now)
        return [*actions, *self._hand_out(now)]

    def finished(self, ticket: int, answer: Answer, now: float) -> list[Action]:
        """Take what became of a ``Compute``."""
        job = self._queue.came_back(ticket)
        self._tails.let_go(job.tail.key)
        self._stopped_at.pop(ticket, None)
        actions: list[Action] = []
        if self._stuck == ticket:
            self._stuck = None
            actions.append(Note(_notes.unstuck(job, now)))
        work = self._queue.take(ticket)
        if work is not None:  # otherwise it was answered when its time was up
            if isinstance(answer, Computed):
                self._learn_service_time(answer)
            elif answer.code is FailureCode.INFERENCE_FAILED:
                actions.append(Note(_notes.failed(job, answer.text)))
            elif answer.code is FailureCode.REJECTED:
                actions.append(Note(_notes.rejected(job, answer.text)))
            actions += self._answer(work, answer, now)
        return [*actions, *self._hand_out(now)]

    def expire(self, now: float) -> list[Action]:
        """Answer those whose time is up, and notice a run that does not stop."""
        actions = self._give_up(self._queue.expired(now), EXPIRED, now)
        running = self._queue.running
        patience_ends_at = self._patience_ends_at()
        if running is not None and patience_ends_at is not None and now >= patience_ends_at:
            self._stuck = running.ticket
            self._counts["stuck"] += 1
            actions.append(Note(_notes.stuck(running, now)))
        return actions

    def next_expiry_at(self) -> float | None:
        """When :meth:`expire` has something to do at the earliest."""
        times = (self._queue.next_expiry_at(), self._patience_ends_at())
        return min((time for time in times if time is not None), default=None)

    def give_up_all(self, text: str, now: float) -> list[Action]:
        """Answer everything that is unanswered, since the worker stops."""
        return self._give_up(self._queue.unanswered(), Failed(FailureCode.DRAINING, text), now)

    def abandon(self, session: AgentSession) -> None:
        """Forget what waits for a session that ends."""
        for work in self._queue.abandon(session):
            self._tails.let_go(work.key.tail)

    def reply(self, session: AgentSession, number: int, answer: Answer) -> Send:
        """Put an answer in the form in which it is sent."""
        if isinstance(answer, Computed):
            # A message above the agent's limit would cost it the connection, without a word.
            most = session.terms.hello.max_message_bytes
            if answer.message_bytes <= most:
                self._counts["results"] += 1
                result = Result(session.id, number, answer.timings, answer.tensors)
                return Send(session.peer, result)
            text = f"the result takes {answer.message_bytes} bytes; the agent takes {most}"
            answer = Failed(FailureCode.TOO_LARGE, text)
        self._counts[f"failed_{answer.code.value}"] += 1
        failure = Failure(session.id, number, answer.code, answer.text, answer.retry_after_ms)
        return Send(session.peer, failure)

    def _repeat(self, session: AgentSession, work: Work) -> list[Action]:
        """Take a repeated request whose first one is still unanswered: it is answered once.

        An agent that reconnected repeats in its new session, and is answered there.
        """
        self._counts["repeated"] += 1
        if work.session is session:
            return []
        if not session.ledger.spend(work.key.number, work.size):
            return [self.reply(session, work.key.number, self._over_credit(session, work.size))]
        if work.session is not None:
            work.session.ledger.release(work.key.number)
        self._queue.move(work, session)
        return []

    def _object(self, session: AgentSession, request: Request, size: int) -> Failed | None:
        """Why a new request is not accepted; without an objection its credit is spent."""
        if self.closed:
            return Failed(FailureCode.DRAINING, "the worker is stopping")
        if request.deadline_ms is not None and request.deadline_ms <= 0:
            return EXPIRED
        if size > self._max_message_bytes:
            text = f"{size} bytes; this worker takes {self._max_message_bytes}"
            return Failed(FailureCode.TOO_LARGE, text)
        if self._stuck is not None:
            text = "a request is computed that does not end; this worker waits for it"
            return Failed(FailureCode.BUSY, text, _LONGEST_RETRY_MS)
        if not session.ledger.spend(request.number, size):
            return self._over_credit(session, size)
        return None

    def _make_room(
        self, session: AgentSession, size: int, now: float
    ) -> tuple[list[Action], str | None]:
        """Give up what must give way to one more request; say why there is no room if so."""
        actions: list[Action] = []
        while (full := self._queue.refusal(size)) is not None:
            work = self._queue.displaced_by(session, size)
            if work is None:
                return actions, full
            busy = Failed(FailureCode.BUSY, full, self._retry_after_ms())
            actions += self._give_up([work], busy, now)
        return actions, None

    def _over_credit(self, session: AgentSession, size: int) -> Failed:
        text = (
            f"{size} bytes on top of {session.ledger.outstanding} unanswered exceed "
            f"{self._settings.credit_bytes}, the credit of this session"
        )
        return Failed(FailureCode.OVER_CREDIT, text)

    def _accept(
        self, session: AgentSession, key: RequestKey, request: Request, size: int, now: float
    ) -> None:
        limit_ms = self._settings.run_limit_ms
        patience_ms = min(
            limit_ms, limit_ms if request.deadline_ms is None else request.deadline_ms
        )
        job = Job(
            ticket=next(self._tickets),
            tail=session.tail,
            tensors=request.tensors,
            results=session.terms.hello.results,
            max_result_bytes=session.terms.hello.max_message_bytes,
            preprocess=session.terms.preprocess,
            accepted_at=now,
            expires_at=now + patience_ms / 1000,
        )
        self._queue.add(Work(key, job, size, session))
        self._tails.hold(key.tail)

    def _hand_out(self, now: float) -> list[Action]:
        actions = self._give_up(self._queue.expired(now), EXPIRED, now)
        while (work := self._queue.next()) is not None:
            actions.append(Compute(work.job))
        return actions

    def _give_up(self, works: Iterable[Work], answer: Failed, now: float) -> list[Action]:
        """Answer what is not worth computing any more, and stop what is being computed."""
        actions: list[Action] = []
        for work in works:
            self._queue.remove(work)
            if work.waits:
                self._tails.let_go(work.key.tail)
            else:
                self._stopped_at[work.job.ticket] = now
                actions.append(Stop(work.job))
            actions += self._answer(work, answer, now)
        return actions

    def _answer(self, work: Work, answer: Answer, now: float) -> list[Action]:
        """Give the one answer to a request that has left the queue."""
        if isinstance(answer, Computed):
            self._replies.keep(work.key, answer, answer.message_bytes)
        elif answer.code in _FINAL:
            self._replies.keep(work.key, answer, len(answer.text))
        session = work.session
        if session is None:
            return []
        session.alive_at = now
        session.ledger.release(work.key.number)
        return [self.reply(session, work.key.number, answer)]

    def _patience_ends_at(self) -> float | None:
        """When the run that was told to stop is stuck, if it is not already known to be."""
        running = self._queue.running
        if running is None or running.ticket == self._stuck:
            return None
        stopped_at = self._stopped_at.get(running.ticket)
        return None if stopped_at is None else stopped_at + _STOP_PATIENCE_S

    def _learn_service_time(self, answer: Computed) -> None:
        timings = answer.timings
        latest_ms = timings.decode_ms + timings.inference_ms + timings.encode_ms
        weight = _SERVICE_WEIGHT if self._service_ms else 1.0
        self._service_ms += weight * (latest_ms - self._service_ms)

    def _retry_after_ms(self) -> int:
        """How long the requests before a new one will take."""
        backlog_ms = self._service_ms * len(self._queue)
        return int(min(max(backlog_ms, _SHORTEST_RETRY_MS), _LONGEST_RETRY_MS))
