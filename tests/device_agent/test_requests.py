"""What became of each request, and what each reply is."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from device_agent._requests import ReplyKind, RequestBook

SESSIONS = (b"one", b"two")


class BookMachine(RuleBasedStateMachine):
    """Compares the book with a plain list of what happened to each number."""

    def __init__(self) -> None:
        super().__init__()
        self.book = RequestBook()
        self.fates: list[str] = []  # of number 1, 2, ...
        self.sessions: list[bytes] = []

    @rule(session=st.sampled_from(SESSIONS))
    def open(self, session: bytes) -> None:
        number = self.book.next_number
        self.book.open(session)
        assert number == len(self.fates) + 1
        self.fates.append("waits")
        self.sessions.append(session)

    @rule()
    def count(self) -> None:
        assert self.book.count() == len(self.fates) + 1
        self.fates.append("done")
        self.sessions.append(b"")

    @rule(number=st.integers(1, 12), now_s=st.floats(0, 100))
    def give_up(self, number: int, now_s: float) -> None:
        if self.book.session_of(number) is not None:
            assert self.book.give_up(number, now_s) == []
            assert self.book.given_up_s(number) == now_s
            self.fates[number - 1] = "given up"

    @rule(number=st.integers(0, 12), session=st.sampled_from(SESSIONS))
    def reply(self, number: int, session: bytes) -> None:
        known = 1 <= number <= len(self.fates)
        fate = self.fates[number - 1] if known else "unknown"
        expected = {
            "waits": ReplyKind.AWAITED,
            "given up": ReplyKind.LATE,
            "done": ReplyKind.DUPLICATE,
            "unknown": ReplyKind.FOREIGN,
        }[fate]
        if fate == "waits" and self.sessions[number - 1] != session:
            expected = ReplyKind.FOREIGN
        assert self.book.take(number, session) is expected
        if expected in (ReplyKind.AWAITED, ReplyKind.LATE):
            self.fates[number - 1] = "done"

    @invariant()
    def those_that_wait_are_known(self) -> None:
        waiting = {number for number, fate in enumerate(self.fates, 1) if fate == "waits"}
        assert set(self.book.waiting) == waiting


TestRequestBook = BookMachine.TestCase
TestRequestBook.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
