"""Accepted requests that have no answer yet. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloud_worker._replies import RequestKey
    from cloud_worker._sessions import AgentSession
    from cloud_worker._work import Job


@dataclass(eq=False)
class Work:
    """An accepted request.

    Attributes:
        key: Names the request.
        job: What is to be computed.
        size: Message bytes.
        session: Who waits for the answer; None when nobody does any more.
        waits: Whether it is still in the queue, not handed out.
    """

    key: RequestKey
    job: Job
    size: int
    session: AgentSession | None
    waits: bool = True


class WorkQueue:
    """Unanswered requests: some handed out, the others waiting.

    Sessions take turns in a round, and within a session the order of arrival is kept. A full queue
    makes room for a session that has little in it: the one that has most gives up its newest.

    Args:
        limit_requests: Accepted requests without an answer.
        limit_bytes: Their message bytes.
        handed_out: Jobs that may be out of the queue at a time.
    """

    def __init__(self, limit_requests: int, limit_bytes: int, handed_out: int) -> None:
        self._limit_requests = limit_requests
        self._limit_bytes = limit_bytes
        self._handed_out_limit = handed_out
        self._open: dict[int, Work] = {}
        self._by_key: dict[RequestKey, Work] = {}
        # Lanes by session, the one whose turn is next first.
        self._waiting: OrderedDict[AgentSession | None, deque[Work]] = OrderedDict()
        self._out: dict[int, Job] = {}  # in the order in which they run; answered or not
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def running(self) -> Job | None:
        """The job that the inference thread is at: the first that is out."""
        return next(iter(self._out.values()), None)

    def refusal(self, size: int) -> str | None:
        """Why one more request of so many bytes has no place here, or None."""
        if len(self._open) >= self._limit_requests:
            return f"{len(self._open)} requests are unanswered, the limit of this worker"
        if self.held_bytes + size > self._limit_bytes:
            return (
                f"{self.held_bytes} bytes of requests are unanswered; "
                f"{size} more exceed {self._limit_bytes}, the limit of this worker"
            )
        return None

    def displaced_by(self, session: AgentSession, size: int) -> Work | None:
        """The request that gives way to one more of this session; None if that were unfair."""
        if not self._waiting:
            return None
        shares = {other: self._share(lane) for other, lane in self._waiting.items()}
        greediest = max(shares, key=shares.__getitem__)
        more = max(1 / self._limit_requests, size / self._limit_bytes)
        if shares[greediest] <= shares.get(session, 0.0) + more:
            return None
        return self._waiting[greediest][-1]

    def add(self, work: Work) -> None:
        """Put a request at the end of its session's."""
        self._open[work.job.ticket] = work
        self._by_key[work.key] = work
        self._enqueue(work)
        self.held_bytes += work.size

    def find(self, key: RequestKey) -> Work | None:
        """The unanswered request of this name."""
        return self._by_key.get(key)

    def move(self, work: Work, session: AgentSession) -> None:
        """Let another session wait for the answer."""
        if work.waits:
            self._dequeue(work)
        work.session = session
        if work.waits:
            self._enqueue(work)

    def take(self, ticket: int) -> Work | None:
        """Remove the request with this ticket, if it is still unanswered."""
        work = self._open.get(ticket)
        if work is not None:
            self.remove(work)
        return work

    def remove(self, work: Work) -> None:
        """Remove a request, waiting or handed out."""
        del self._open[work.job.ticket]
        del self._by_key[work.key]
        self.held_bytes -= work.size
        if work.waits:
            self._dequeue(work)

    def next(self) -> Work | None:
        """Hand out a request of the session whose turn it is, if not too many are out."""
        if not self._waiting or len(self._out) >= self._handed_out_limit:
            return None
        session, lane = next(iter(self._waiting.items()))
        work = lane[0]
        self._dequeue(work)
        if lane:
            self._waiting.move_to_end(session)
        work.waits = False
        self._out[work.job.ticket] = work.job
        return work

    def came_back(self, ticket: int) -> Job:
        """Note that a job that was handed out is done with, whether or not it was answered."""
        return self._out.pop(ticket)

    def expired(self, now: float) -> list[Work]:
        """Requests for whose answers nobody waits any more."""
        return [work for work in self._open.values() if work.job.expired(now)]

    def abandon(self, session: AgentSession) -> list[Work]:
        """Remove what waits for a session that ends.

        What is handed out is computed to the end, and its answer kept for an agent that comes back.

        Returns:
            The removed requests.
        """
        removed = list(self._waiting.get(session, ()))
        for work in removed:
            self.remove(work)
        for work in self._open.values():
            if work.session is session:
                work.session = None
        return removed

    def unanswered(self) -> list[Work]:
        """All requests, handed out and waiting."""
        return list(self._open.values())

    def next_expiry_at(self) -> float | None:
        """When the first request expires."""
        return min((work.job.expires_at for work in self._open.values()), default=None)

    def _share(self, lane: deque[Work]) -> float:
        """How much of the queue a session's waiting requests take, from 0 to 1."""
        size = sum(work.size for work in lane)
        return max(len(lane) / self._limit_requests, size / self._limit_bytes)

    def _enqueue(self, work: Work) -> None:
        self._waiting.setdefault(work.session, deque()).append(work)

    def _dequeue(self, work: Work) -> None:
        lane = self._waiting[work.session]
        lane.remove(work)
        if not lane:
            del self._waiting[work.session]
