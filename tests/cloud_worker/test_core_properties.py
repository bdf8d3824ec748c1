"""Any order of messages, repeats, failures and time: one answer each, and every bound holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cloud_worker import WorkerSettings
from cloud_worker._replies import RequestKey
from cloud_worker._work import EXPIRED, Computed, Failed, LoadFailure
from protocol import (
    Failure,
    FailureCode,
    Goodbye,
    Ping,
    Pong,
    RefusalCode,
    Request,
    Result,
)
from tests.cloud_worker.core_support import Bench, answer, tail
from tests.cloud_worker.support import X, hello, tensor

if TYPE_CHECKING:
    from cloud_worker._sessions import AgentSession
    from cloud_worker._work import Answer
    from protocol import Message

# Two connections are two lives of one agent; the third is another agent.
INCARNATIONS = {b"p": b"1" * 16, b"q": b"1" * 16, b"r": b"2" * 16}
FRONTIERS = (("x",), ("h",), ("k",))
NUMBERS = st.integers(1, 12)
PICK = st.integers(0, 1000)
NOISE = np.random.default_rng(0).standard_normal((1, 12_000)).astype(np.float32)
INPUTS = {size: tensor(NOISE[:, :size]) for size in (4, 4000, 12_000)}
ANSWERS: dict[str, Answer] = {
    "small": answer(X),
    "big": answer(NOISE),
    "bad": Failed(FailureCode.BAD_TENSOR, "no"),
    "rejected": Failed(FailureCode.REJECTED, "no"),
    "expired": EXPIRED,
    "broken": Failed(FailureCode.INFERENCE_FAILED, "no"),
}
BIG_CACHE = 1 << 24


class WorkerMachine(RuleBasedStateMachine):
    """Beside the core: which accepted requests are owed an answer, and to whom."""

    @initialize(
        credit=st.integers(20_000, 200_000),
        requests=st.integers(2, 8),
        queue_bytes=st.integers(50_000, 300_000),
        cache=st.sampled_from((1, 60_000, BIG_CACHE)),
        sessions=st.integers(3, 6),
        tails=st.integers(1, 3),
    )
    def begin(
        self, credit: int, requests: int, queue_bytes: int, cache: int, sessions: int, tails: int
    ) -> None:
        self.bounds = WorkerSettings(
            credit_bytes=credit,
            queue_requests=requests,
            queue_bytes=queue_bytes,
            reply_cache_bytes=cache,
            sessions=sessions,
            tails=tails,
            ping_interval_ms=2000,
            ping_misses=5,
            drain_ms=5000,
        )
        self.bench = Bench(self.bounds)
        self.owed: dict[RequestKey, bytes | None] = {}  # None: to nobody any more
        self.computed: set[RequestKey] = set()
        self.draining = False
        for peer in sorted(INCARNATIONS):
            self.say_hello(peer, FRONTIERS[0])
        self.load(fails=False)

    # What agents, the machinery and time do

    @rule(peer=st.sampled_from(sorted(INCARNATIONS)), frontier=st.sampled_from(FRONTIERS))
    def say_hello(self, peer: bytes, frontier: tuple[str, ...]) -> None:
        said = hello(incarnation=INCARNATIONS[peer], frontier=frontier, cut=peer.decode())
        self.take(self.bench.say(said, peer))

    @precondition(lambda self: self.bench.loads)
    @rule(fails=st.booleans())
    def load(self, fails: bool) -> None:
        outcome = tail(self.bench.loads[0])
        failure = LoadFailure(RefusalCode.LOAD_FAILED, "no")
        self.take(self.bench.load(failure if fails else outcome))

    @precondition(lambda self: self.sessions())
    @rule(
        pick=PICK,
        burst=st.lists(
            st.tuples(
                NUMBERS,
                st.sampled_from(sorted(INPUTS)),
                st.sampled_from((None, None, 5000, 800, 0)),
            ),
            min_size=1,
            max_size=6,
        ),
    )
    def say_requests(self, pick: int, burst: list[tuple[int, int, int | None]]) -> None:
        for number, size, deadline_ms in burst:
            self.say_request(pick, number, size, deadline_ms)

    def say_request(self, pick: int, number: int, size: int, deadline_ms: int | None) -> None:
        session = self.session(pick)
        key = RequestKey(session.terms.hello.incarnation, session.tail.key, number)
        open_before = key in self.owed
        messages = self.bench.say(
            Request(session.id, number, deadline_ms, (INPUTS[size],)), session.peer
        )
        direct = [m for m in messages if self.addresses(m) == (session.id, number)]
        self.take([m for m in messages if m not in direct])
        if not direct:
            assert open_before or not self.draining
            self.owed[key] = session.id
        elif open_before:
            assert self.owed[key] != session.id, "answered twice"
            [refusal] = direct
            assert isinstance(refusal, Failure)
            assert refusal.code is FailureCode.OVER_CREDIT
        else:
            [reply] = direct
            assert isinstance(reply, Failure) or key in self.computed

    @precondition(lambda self: self.bench.jobs)
    @rule(outcome=st.sampled_from(sorted(ANSWERS)))
    def finish(self, outcome: str) -> None:
        work = self.bench.core._desk._queue._open.get(self.bench.jobs[0].ticket)
        given = ANSWERS[outcome]
        if work is not None:
            if self.bounds.reply_cache_bytes == BIG_CACHE:
                assert work.key not in self.computed, "computed twice"
            if isinstance(given, Computed):
                self.computed.add(work.key)
            if self.owed[work.key] is None:
                del self.owed[work.key]
        self.take(self.bench.finish(given))

    @precondition(lambda self: self.sessions())
    @rule(pick=PICK)
    def ping(self, pick: int) -> None:
        session = self.session(pick)
        assert self.bench.say(Ping(session.id, 3), session.peer) == [Pong(session.id, 3)]

    @precondition(lambda self: self.sessions())
    @rule(pick=PICK)
    def say_goodbye(self, pick: int) -> None:
        session = self.session(pick)
        assert self.bench.say(Goodbye(session.id, "done"), session.peer) == []
        self.disown()

    @rule(seconds=st.sampled_from((0.1, 2.5, 11.0)))
    def wait(self, seconds: float) -> None:
        now, life_s = self.bench.now + seconds, self.bounds.session_life_s
        before = self.sessions()
        lively = {s.id for s in before if s.ledger.outstanding or now < s.alive_at + life_s}
        dead = {s.id for s in before if not s.ledger.outstanding and now >= s.alive_at + 2 * life_s}
        messages = self.bench.tick(seconds)
        alive = {session.id for session in self.sessions()}
        assert lively <= alive
        assert not dead & alive
        self.disown()
        self.take(messages)
        open_keys = self.bench.core._desk._queue._by_key
        self.owed = {k: s for k, s in self.owed.items() if s is not None or k in open_keys}

    @precondition(lambda self: not self.draining)
    @rule(really=st.integers(0, 15))
    def drain(self, really: int) -> None:
        if really == 15:  # seldom, since it ends all that is interesting
            self.draining = True
            self.take(self.bench.do(self.bench.core.drain(self.bench.now)))

    # What must hold

    @invariant()
    def bounds_hold(self) -> None:
        core = self.bench.core
        assert len(core._desk._queue) <= self.bounds.queue_requests
        assert core._desk._queue.held_bytes <= self.bounds.queue_bytes
        assert core._desk._replies.held_bytes <= self.bounds.reply_cache_bytes
        assert len(core._reception.sessions) <= self.bounds.sessions
        assert len(core._reception.tails) <= self.bounds.tails
        assert len(self.bench.jobs) <= 2
        for session in self.sessions():
            assert session.ledger.outstanding <= self.bounds.credit_bytes

    @invariant()
    def worker_knows_what_it_owes(self) -> None:
        works = self.bench.core._desk._queue._by_key
        owed = {key: work.session and work.session.id for key, work in works.items()}
        assert owed == self.owed
        for session in self.sessions():
            numbers = {key.number for key, owner in self.owed.items() if owner == session.id}
            assert session.ledger._charged.keys() == numbers

    @invariant()
    def tails_in_use_are_not_closed(self) -> None:
        used = {id(item.tail) for item in (*self.bench.jobs, *self.sessions())}
        assert not used.intersection(map(id, self.bench.unloaded))

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        while self.bench.jobs:
            self.finish("small")
        assert self.owed == {}, "an answer is missing"
        while self.bench.loads:
            self.load(fails=False)
        while self.sessions():
            self.say_goodbye(0)
        assert self.bench.core._reception.tails._holders == {}

    # Bookkeeping

    def sessions(self) -> list[AgentSession]:
        return list(self.bench.core._reception.sessions)

    def session(self, pick: int) -> AgentSession:
        sessions = self.sessions()
        return sessions[pick % len(sessions)]

    def addresses(self, message: Message) -> tuple[bytes, int] | None:
        answers = isinstance(message, Result | Failure)
        return (message.session, message.number) if answers else None

    def take(self, messages: list[Message]) -> None:
        """Each answer must be owed to the session that gets it."""
        for message in messages:
            if not isinstance(message, Result | Failure):
                continue
            [key] = [
                key
                for key, owner in self.owed.items()
                if owner == message.session and key.number == message.number
            ]
            del self.owed[key]

    def disown(self) -> None:
        """Sessions that ended are owed nothing; what is being computed goes on for nobody."""
        alive = {session.id for session in self.sessions()}
        for key, owner in list(self.owed.items()):
            if owner in alive or owner is None:
                continue
            work = self.bench.core._desk._queue.find(key)
            if work is None:
                del self.owed[key]
            else:
                assert not work.waits
                self.owed[key] = None


TestWorkerCore = WorkerMachine.TestCase
TestWorkerCore.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
