"""A core whose loader and inference thread are played by the test."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from cloud_worker._core import WorkerCore
from cloud_worker._settings import WorkerSettings
from cloud_worker._work import Compute, Computed, Load, LoadFailure, Note, Send, Stop, Tail, Unload
from cloud_worker.testing import FakeTails
from protocol import (
    Failure,
    FailureCode,
    Limits,
    RefusalCode,
    Refuse,
    Request,
    Result,
    Timings,
    Welcome,
    message_bytes,
)
from tests.cloud_worker.support import KEY, X, doubling, hello, index, tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloud_worker import ModelRepository, TailKey
    from cloud_worker._work import Action, Answer, Job
    from protocol import Hello, Message

PEER = b"peer-1"
Some = TypeVar("Some")


def answer(payload_like: Any = X, service_ms: float = 3.0) -> Computed:
    return Computed(Timings(0.0, 0.0, service_ms, 0.0), (tensor(payload_like, "y"),))


def tail(key: TailKey = KEY) -> Tail:
    return Tail(key, FakeTails({key: doubling()}).load(key))


class Bench:
    """Drives a core; what it sends is collected, and loads are done when a test says so."""

    def __init__(
        self,
        settings: WorkerSettings | None = None,
        models: ModelRepository | None = None,
        limits: Limits | None = None,
    ) -> None:
        numbers = count(1)
        self.core = WorkerCore(
            models or index(),
            settings or WorkerSettings(),
            limits or Limits(),
            lambda codec: codec in {"raw", "float16"},
            lambda: next(numbers).to_bytes(16, "big"),
        )
        self.now = 100.0
        self.sent: list[Send] = []
        self.jobs: list[Job] = []
        self.loads: list[TailKey] = []
        self.unloaded: list[Tail] = []
        self.stopped: list[Job] = []
        self.notes: list[str] = []

    def do(self, actions: Sequence[Action]) -> list[Message]:
        """Collect actions; return the messages among them."""
        for action in actions:
            match action:
                case Send():
                    self.sent.append(action)
                case Compute():
                    self.jobs.append(action.job)
                case Load():
                    self.loads.append(action.key)
                case Unload():
                    self.unloaded.append(action.tail)
                case Stop():
                    self.stopped.append(action.job)
                case Note():
                    self.notes.append(action.text)
        return [action.message for action in actions if isinstance(action, Send)]

    def say(self, message: Message, peer: bytes = PEER) -> list[Message]:
        size = message_bytes(message)
        return self.do(self.core.handle(peer, message, size, self.now))

    def load(self, outcome: Tail | LoadFailure | None = None) -> list[Message]:
        key = self.loads.pop(0)
        return self.do(self.core.loaded(key, outcome or tail(key), self.now))

    def welcome(self, peer: bytes = PEER, **changes: Any) -> Welcome:
        said: Hello = hello(**changes)
        messages = self.say(said, peer) or self.load()
        return only(messages, Welcome)

    def finish(self, outcome: Answer | None = None) -> list[Message]:
        job = self.jobs.pop(0)
        return self.do(self.core.finished(job.ticket, outcome or answer(), self.now))

    def tick(self, seconds: float = 0.0) -> list[Message]:
        self.now += seconds
        return self.do(self.core.tick(self.now))


def request(
    welcome: Welcome, number: int, *, elements: int = 4, deadline_ms: int | None = None
) -> Request:
    array = X if elements == X.size else X.repeat(elements // 4, axis=1)
    return Request(welcome.session, number, deadline_ms, (tensor(array),))


def only(messages: Sequence[Message], kind: type[Some]) -> Some:
    assert len(messages) == 1, messages
    message = messages[0]
    assert isinstance(message, kind), message
    return message


def failed(messages: Sequence[Message], code: FailureCode) -> Failure:
    failure = only(messages, Failure)
    assert failure.code is code, failure
    return failure


def refused(messages: Sequence[Message], code: RefusalCode) -> Refuse:
    refusal = only(messages, Refuse)
    assert refusal.code is code, refusal
    return refusal


def result(messages: Sequence[Message], number: int) -> Result:
    found = only(messages, Result)
    assert found.number == number
    return found
