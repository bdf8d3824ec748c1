"""Sessions with agents, forgotten when they stay silent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloud_worker._hello import Terms
    from cloud_worker._work import Tail
    from protocol import CreditLedger, Hello

_IDLE_S = 10.0


@dataclass(eq=False)
class AgentSession:
    """One agent at one cut.

    Attributes:
        id: Names the session on the wire.
        peer: The connection that last spoke for it; a reconnected agent has a new one.
        terms: What was agreed.
        tail: What computes its requests.
        ledger: Message bytes that are unanswered.
        alive_at: Clock seconds of its last sign of life: a message, or an answer that it awaited.
        asked_at: Clock seconds of its last request; when it was welcomed, if there was none.
    """

    id: bytes
    peer: bytes
    terms: Terms
    tail: Tail
    ledger: CreditLedger
    alive_at: float
    asked_at: float

    def heard(self, peer: bytes, now: float) -> None:
        """Note a message. Any message counts as life."""
        self.peer = peer
        self.alive_at = now

    def ends_at(self, now: float, life_s: float) -> float:
        """When it ends at the earliest. An agent that awaits an answer has no need to ping."""
        return (now if self.ledger.outstanding else self.alive_at) + life_s

    def is_idle(self, now: float) -> bool:
        """Whether it may lose its tail to another: it asks for nothing, and has not for a while."""
        return not self.ledger.outstanding and now >= self.asked_at + _IDLE_S


class SessionTable:
    """Sessions by id.

    Args:
        life_s: Seconds of silence after which a session ends.
    """

    def __init__(self, life_s: float) -> None:
        self._life_s = life_s
        self._sessions: dict[bytes, AgentSession] = {}
        # No session ends before this; hearing from one only moves its end further away.
        self.next_end_at: float | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(self._sessions.values())

    def add(self, session: AgentSession) -> None:
        """Add a new session."""
        self._sessions[session.id] = session
        if self.next_end_at is None:
            self.next_end_at = session.alive_at + self._life_s

    def find(self, session_id: bytes) -> AgentSession | None:
        """The session with this id, if it lives."""
        return self._sessions.get(session_id)

    def welcomed(self, peer: bytes, hello: Hello) -> AgentSession | None:
        """The session that this very HELLO from this peer has already got."""
        for session in self:
            if session.peer == peer and session.terms.hello == hello:
                return session
        return None

    def remove(self, session: AgentSession) -> None:
        """Forget a session."""
        del self._sessions[session.id]

    def silent(self, now: float) -> list[AgentSession]:
        """Sessions whose life is over."""
        if self.next_end_at is None or now < self.next_end_at:
            return []
        ends = {session: session.ends_at(now, self._life_s) for session in self}
        ended = [session for session, end in ends.items() if now >= end]
        self.next_end_at = min((end for end in ends.values() if now < end), default=None)
        return ended
