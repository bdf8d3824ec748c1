"""What a worker decides: a pure state machine without sockets, threads and clocks.

Messages, loaded tails and answers go in with the time; actions come out. The core owns the queue
of accepted work and hands jobs out one by one, so that what is computed next, and whether it is
still worth it, is decided here and at the last moment.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cloud_worker import _notes
from cloud_worker._probes import ProbeDesk
from cloud_worker._receiving import read_envelope
from cloud_worker._reception import Reception, refuse_version
from cloud_worker._requests import RequestDesk
from cloud_worker._work import Failed, Note, Send
from protocol import (
    Failure,
    FailureCode,
    Goodbye,
    Hello,
    LimitExceededError,
    Ping,
    Pong,
    Probe,
    RefusalCode,
    Refuse,
    Request,
    VersionMismatchError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cloud_worker._repository import ModelRepository
    from cloud_worker._sessions import AgentSession
    from cloud_worker._settings import WorkerSettings
    from cloud_worker._work import Action, Answer, LoadFailure, Tail, TailKey
    from protocol import FrameError, Limits, Message


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
        self.counts: Counter[str] = Counter()
        self._reception = Reception(models, settings, limits, decodes, new_id)
        self._desk = RequestDesk(
            settings, self._reception.max_message_bytes, self._reception.tails, self.counts
        )
        self._probes = ProbeDesk(self.counts)
        self._drain_ends_at: float | None = None

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
                session = self._hear(peer, message.session, now)
                if session is None:
                    return [_unknown_session(peer, message.session, message.number)]
                return self._desk.request(session, message, size, now)
            case Ping():
                if self._hear(peer, message.session, now) is None:
                    return [_unknown_session(peer, message.session, message.number)]
                return [Send(peer, Pong(message.session, message.number))]
            case Hello():
                return self._reception.hello(peer, message, now)
            case Probe():
                return [self._probes.answer(peer, message, now)]
            case Goodbye():
                session = self._hear(peer, message.session, now)
                return [] if session is None else self._end(session, message.reason)
            case _:
                self.counts["unexpected"] += 1  # only workers say these
                return []

    def unreadable(
        self, peer: bytes, frames: Sequence[bytes | memoryview], error: FrameError, now: float
    ) -> list[Action]:
        """Take bytes that are no message. Who can be told is told, so that it need not wait."""
        self.counts["unreadable"] += 1
        note = Note(_notes.unreadable(peer, error))
        if isinstance(error, VersionMismatchError):
            return [refuse_version(peer, error.version), note]
        envelope = read_envelope(frames)
        if envelope is None:
            return [note]
        if envelope.number is None:
            return [Send(peer, Refuse(RefusalCode.BAD_HELLO, str(error), None)), note]
        session = self._hear(peer, envelope.session, now)
        if session is None:
            return [note]
        too_large = isinstance(error, LimitExceededError)
        code = FailureCode.TOO_LARGE if too_large else FailureCode.BAD_TENSOR
        return [self._desk.reply(session, envelope.number, Failed(code, str(error))), note]

    def loaded(self, key: TailKey, outcome: Tail | LoadFailure, now: float) -> list[Action]:
        """Take what became of a ``Load``."""
        return self._reception.loaded(key, outcome, now)

    def finished(self, ticket: int, answer: Answer, now: float) -> list[Action]:
        """Take what became of a ``Compute``."""
        return self._desk.finished(ticket, answer, now)

    def tick(self, now: float) -> list[Action]:
        """Do what is due by time alone."""
        actions: list[Action] = []
        for session in self._reception.sessions.silent(now):
            self.counts["sessions_expired"] += 1
            actions += self._end(session, f"silent for {self._settings.session_life_s:.0f} s")
        if self._drain_ends_at is not None and now >= self._drain_ends_at:
            text = f"the worker stops; it waited {self._settings.drain_ms} ms for this request"
            actions += self._desk.give_up_all(text, now)
        return [*actions, *self._desk.expire(now)]

    def next_tick_at(self) -> float | None:
        """When :meth:`tick` has something to do at the earliest; None: not before a message."""
        times = (
            self._desk.next_expiry_at(),
            self._reception.sessions.next_end_at,
            self._drain_ends_at,
        )
        return min((time for time in times if time is not None), default=None)

    def drain(self, now: float) -> list[Action]:
        """Accept nothing more; finish what is accepted, as far as time allows."""
        if self._drain_ends_at is None:
            self._drain_ends_at = now + self._settings.drain_ms / 1000
            self._desk.closed = True
        return self._reception.close()

    @property
    def drained(self) -> bool:
        """Whether a draining worker has answered everything."""
        return self._drain_ends_at is not None and not len(self._desk)

    def farewell(self, reason: str) -> list[Action]:
        """Say goodbye to all sessions and give up all tails."""
        return self._reception.farewell(reason)

    def _hear(self, peer: bytes, session_id: bytes, now: float) -> AgentSession | None:
        session = self._reception.sessions.find(session_id)
        if session is not None:
            session.heard(peer, now)
        return session

    def _end(self, session: AgentSession, reason: str) -> list[Action]:
        self._desk.abandon(session)
        self._reception.end(session)
        return [Note(_notes.ended(session, reason))]


def _unknown_session(peer: bytes, session_id: bytes, number: int) -> Send:
    text = "no such session here; say HELLO again"
    return Send(peer, Failure(session_id, number, FailureCode.UNKNOWN_SESSION, text, None))
