"""HELLO: who gets a session, and with which tail. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloud_worker import _notes
from cloud_worker._hello import read_hello
from cloud_worker._sessions import AgentSession, SessionTable
from cloud_worker._tail_table import TailTable
from cloud_worker._work import Load, LoadFailure, Note, Send, Unload
from protocol import (
    PROTOCOL_VERSION,
    CreditLedger,
    Goodbye,
    RawCodec,
    RefusalCode,
    Refuse,
    Welcome,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloud_worker._hello import Terms
    from cloud_worker._repository import ModelRepository
    from cloud_worker._settings import WorkerSettings
    from cloud_worker._work import Action, Tail, TailKey
    from protocol import Hello, Limits

ANSWER_CODECS = (RawCodec().name,)
_RETRY_AFTER_MS = 1000  # sessions and tails are let go within seconds
# An agent has one session, and for a moment two when its plan changes. With more, one connection
# could take all of them, and all tails.
_SESSIONS_A_PEER = 8
_DRAINING = Refuse(RefusalCode.DRAINING, "the worker is stopping", None)


class Reception:
    """Grants sessions.

    One connection has some sessions at most. Where all tails are in use, the one whose sessions
    have asked for nothing for a while gives way, and they end; an agent that wants it back joins
    again.

    Args:
        models: What the worker serves.
        settings: Its bounds.
        limits: What a message may hold.
        decodes: Whether the worker can decode what a codec makes, by the codec's name.
        new_id: Makes the 16-byte id of a session, which nobody must be able to guess.

    Attributes:
        sessions: All sessions.
        tails: All tails.
        max_message_bytes: Largest message that can ever be accepted.
        closed: Whether every HELLO is refused, since the worker stops.
    """

    def __init__(
        self,
        models: ModelRepository,
        settings: WorkerSettings,
        limits: Limits,
        decodes: Callable[[str], bool],
        new_id: Callable[[], bytes],
    ) -> None:
        self._models = models
        self._settings = settings
        self._decodes = decodes
        self._new_id = new_id
        self._max_tensor_bytes = limits.tensor_bytes
        self._waiting: dict[tuple[bytes, TailKey], Terms] = {}
        self.sessions = SessionTable(settings.session_life_s)
        self.tails = TailTable(settings.tails)
        self.max_message_bytes = min(
            limits.message_bytes, settings.credit_bytes, settings.queue_bytes
        )
        self.closed = False

    def hello(self, peer: bytes, hello: Hello, now: float) -> list[Action]:
        """Answer a HELLO, or begin to load what it needs."""
        if self.closed:
            return _refused(peer, hello, _DRAINING)
        session = self.sessions.welcomed(peer, hello)
        if session is not None:
            session.heard(peer, now)
            return [self._welcome(session)]
        terms = read_hello(hello, self._models, self._decodes)
        if isinstance(terms, Refuse):
            return _refused(peer, hello, terms)
        if (peer, terms.key) in self._waiting:
            self._waiting[peer, terms.key] = terms
            return []
        full = self._full(peer)
        if full is not None:
            return _refused(peer, hello, _busy(full))
        tail = self.tails.find(terms.key)
        if tail is not None:
            return self._admit(peer, terms, tail, now)
        return self._wait_for_tail(peer, terms, now)

    def loaded(self, key: TailKey, outcome: Tail | LoadFailure, now: float) -> list[Action]:
        """Answer those who waited for a tail."""
        self.tails.end(key, None if isinstance(outcome, LoadFailure) else outcome)
        waited = [(peer, terms) for (peer, wanted), terms in self._waiting.items() if wanted == key]
        actions: list[Action] = []
        for peer, terms in waited:
            del self._waiting[peer, key]
            if isinstance(outcome, LoadFailure):
                actions += _refused(peer, terms.hello, Refuse(outcome.code, outcome.text, None))
            else:
                actions += self._admit(peer, terms, outcome, now)
        return actions

    def end(self, session: AgentSession) -> None:
        """Forget a session."""
        self.sessions.remove(session)
        self.tails.let_go(session.tail.key)

    def close(self) -> list[Action]:
        """Refuse those who wait, and everyone who comes."""
        self.closed = True
        peers = [peer for peer, _ in self._waiting]
        self._waiting.clear()
        return [Send(peer, _DRAINING) for peer in peers]

    def farewell(self, reason: str) -> list[Action]:
        """Say goodbye to all sessions and give up all tails."""
        goodbyes = [Send(session.peer, Goodbye(session.id, reason)) for session in self.sessions]
        for session in list(self.sessions):
            self.end(session)
        return [*goodbyes, *(Unload(tail) for tail in self.tails.clear())]

    def _full(self, peer: bytes) -> str | None:
        """Why this peer gets no further session, if so."""
        if len(self.sessions) + len(self._waiting) >= self._settings.sessions:
            return f"{self._settings.sessions} sessions are open, the limit of this worker"
        open_here = sum(session.peer == peer for session in self.sessions)
        open_here += sum(waiting == peer for waiting, _ in self._waiting)
        if open_here >= _SESSIONS_A_PEER:
            return f"{open_here} sessions are open on this connection, the limit of this worker"
        return None

    def _wait_for_tail(self, peer: bytes, terms: Terms, now: float) -> list[Action]:
        actions: list[Action] = []
        if not self.tails.is_loading(terms.key):
            place, given_up = self.tails.make_room()
            if not place:
                actions += self._reclaim(now)
                place, given_up = self.tails.make_room()
            if not place:
                full = f"{self._settings.tails} cuts are in use, the limit of this worker"
                return _refused(peer, terms.hello, _busy(full))
            if given_up is not None:
                actions.append(Unload(given_up))
            self.tails.begin(terms.key)
            actions.append(Load(terms.key))
        self._waiting[peer, terms.key] = terms
        return actions

    def _reclaim(self, now: float) -> list[Action]:
        """End the sessions of the tail that has been asked longest ago, if all of them are idle."""
        for key, holders in self.tails.held():
            users = [session for session in self.sessions if session.tail.key == key]
            if len(users) == holders and all(session.is_idle(now) for session in users):
                actions: list[Action] = []
                for session in users:
                    self.end(session)
                    goodbye = Goodbye(session.id, "idle, and its cut gave way to another")
                    actions.append(Send(session.peer, goodbye))
                    actions.append(Note(_notes.ended(session, goodbye.reason)))
                return actions
        return []

    def _admit(self, peer: bytes, terms: Terms, tail: Tail, now: float) -> list[Action]:
        ledger = CreditLedger(self._settings.credit_bytes)
        session = AgentSession(self._new_id(), peer, terms, tail, ledger, now, now)
        self.sessions.add(session)
        self.tails.hold(tail.key)
        entry = self._models.find(terms.key.model)
        name = terms.key.model if entry is None else entry.name
        return [self._welcome(session), Note(_notes.joined(session, name))]

    def _welcome(self, session: AgentSession) -> Send:
        welcome = Welcome(
            session=session.id,
            credit_bytes=self._settings.credit_bytes,
            ping_interval_ms=self._settings.ping_interval_ms,
            max_message_bytes=self.max_message_bytes,
            max_tensor_bytes=self._max_tensor_bytes,
            codecs=ANSWER_CODECS,
            worker=self._settings.name,
        )
        return Send(session.peer, welcome)


def refuse_version(peer: bytes, version: int) -> Send:
    """Tell a peer whose messages cannot be read which version this worker speaks."""
    text = f"protocol version {version}; this worker speaks {PROTOCOL_VERSION}"
    return Send(peer, Refuse(RefusalCode.VERSION_MISMATCH, text, None))


def _refused(peer: bytes, hello: Hello, refuse: Refuse) -> list[Action]:
    return [Send(peer, refuse), Note(_notes.refused(peer, hello, refuse))]


def _busy(text: str) -> Refuse:
    return Refuse(RefusalCode.BUSY, text, _RETRY_AFTER_MS)
