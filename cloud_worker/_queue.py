"""Accepted requests that have no answer yet. Pure."""

from __future__ import annotations

from collections import deque
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
    """Requests in the order of their arrival: some handed out, the others waiting.

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
        self._waiting: deque[Work] = deque()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

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

    def add(self, work: Work) -> None:
        """Put a request at the end."""
        self._open[work.job.ticket] = work
        self._by_key[work.key] = work
        self._waiting.append(work)
        self.held_bytes += work.size

    def find(self, key: RequestKey) -> Work | None:
        """The unanswered request of this name."""
        return self._by_key.get(key)

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
            self._waiting.remove(work)

    def next(self) -> Work | None:
        """Hand out the request at the front, if one waits and not too many are out."""
        out = len(self._open) - len(self._waiting)
        if not self._waiting or out >= self._handed_out_limit:
            return None
        work = self._waiting.popleft()
        work.waits = False
        return work

    def expired(self, now: float) -> list[Work]:
        """Waiting requests for whose answers nobody waits."""
        return [work for work in self._waiting if work.job.expired(now)]

    def abandon(self, session: AgentSession) -> list[Work]:
        """Remove what waits for a session that ends.

        What is handed out is computed to the end, and its answer kept for an agent that comes back.

        Returns:
            The removed requests.
        """
        removed = [work for work in self._waiting if work.session is session]
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
        """When the first waiting request expires."""
        times = (work.job.expires_at for work in self._waiting)
        return min((time for time in times if time is not None), default=None)
