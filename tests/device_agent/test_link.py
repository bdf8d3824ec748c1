"""The session with a worker, event by event."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from device_agent._decisions import Loss
from device_agent._link import WorkerLink
from device_agent._link_values import LinkPolicy, LinkState, OpenRequest
from device_agent.answers import Reason
from device_agent.testing import make_welcome
from protocol import (
    EncodedTensor,
    Failure,
    FailureCode,
    Goodbye,
    Hello,
    Ping,
    Pong,
    RawCodec,
    RefusalCode,
    Refuse,
    Request,
    Result,
    Timings,
    Welcome,
    encode_tensor,
    message_bytes,
)

if TYPE_CHECKING:
    from protocol import Message

HELLO = Hello(1, bytes(16), "ab" * 32, "middle", ("a",), ("b",), ("raw",), None, 1 << 20)
WELCOME = make_welcome()
TENSORS: tuple[EncodedTensor, ...] = (encode_tensor("a", np.arange(10), RawCodec()),)
POLICY = LinkPolicy()


def make_link(policy: LinkPolicy = POLICY) -> WorkerLink:
    return WorkerLink(HELLO, policy, jitter=lambda: 0.0)


def welcomed(welcome: Welcome = WELCOME, now_s: float = 0.0) -> WorkerLink:
    link = make_link()
    greet(link, now_s)
    link.received(welcome, now_s)
    return link


def greet(link: WorkerLink, now_s: float) -> None:
    message = link.next_message(now_s)
    assert isinstance(message, Hello)
    link.sent(message, now_s)


def ask(link: WorkerLink, now_s: float = 0.0) -> Request:
    request = link.open_request(TENSORS, 1000, now_s)
    assert isinstance(request, OpenRequest)
    assert request.bytes == message_bytes(request.message)
    link.sent(request.message, now_s)
    return request.message


def result(request: Request) -> Result:
    return Result(request.session, request.number, Timings(0, 0, 0, 0), ())


def failure(request: Request, code: FailureCode, retry_after_ms: int | None = None) -> Failure:
    return Failure(request.session, request.number, code, "no", retry_after_ms)


def next_hello_s(link: WorkerLink, now_s: float) -> float:
    """When the link says HELLO again; looks in steps of a quarter second."""
    for step in range(1000):
        if link.next_message(now_s + step / 4) is not None:
            return step / 4
    raise AssertionError("the link never says HELLO")


class TestGreeting:
    def test_says_hello_at_once_and_waits_for_the_answer(self) -> None:
        link = make_link()
        assert link.obstacle(0.0) is Reason.NO_SESSION
        greet(link, 0.0)
        assert link.state is LinkState.HELLO_SENT
        assert link.next_message(4.9) is None
        assert link.obstacle(0.0) is Reason.NO_SESSION
        link.received(WELCOME, 4.9)
        assert link.state is LinkState.WELCOMED
        assert link.obstacle(4.9) is None

    def test_unanswered_hellos_back_off_from_1_to_32_seconds(self) -> None:
        link = WorkerLink(HELLO, POLICY, jitter=lambda: 0.999999)
        waits = []
        now_s = 0.0
        for _ in range(8):
            greet(link, now_s)
            now_s += POLICY.hello_timeout_s
            waits.append(round(next_hello_s(link, now_s)))
            now_s += waits[-1]
        assert waits == [1, 2, 4, 8, 16, 32, 32, 32]

    def test_a_welcome_that_comes_after_the_hello_was_given_up_is_taken(self) -> None:
        link = make_link()
        greet(link, 0.0)
        assert link.next_message(5.0) is None
        assert link.state is LinkState.LOST
        link.received(WELCOME, 5.1)
        assert link.state is LinkState.WELCOMED

    @pytest.mark.parametrize("code", list(RefusalCode))
    def test_a_refusal_is_an_obstacle_until_it_is_asked_again(self, code: RefusalCode) -> None:
        link = make_link()
        greet(link, 0.0)
        link.received(Refuse(code, "no", None), 0.0)
        assert link.state is LinkState.REFUSED
        retries = code.advice == "retry"
        assert link.obstacle(0.0) is (Reason.BUSY if retries else Reason.REFUSED)
        assert next_hello_s(link, 0.0) == (0.5 if retries else 32.0)
        greet(link, 100.0)
        link.received(WELCOME, 100.0)
        assert link.refusal is None
        assert link.obstacle(100.0) is None

    def test_a_worker_that_says_when_to_ask_again_is_asked_then(self) -> None:
        link = make_link()
        greet(link, 0.0)
        link.received(Refuse(RefusalCode.BUSY, "full", 20_000), 0.0)
        assert next_hello_s(link, 0.0) == 20.0

    @pytest.mark.parametrize("code", list(RefusalCode))
    def test_no_worker_is_left_alone_for_longer_than_the_longest_wait(
        self, code: RefusalCode
    ) -> None:
        link = make_link()
        greet(link, 0.0)
        link.received(Refuse(code, "never again", 2**31 - 1), 0.0)
        assert next_hello_s(link, 0.0) == POLICY.backoff_last_s

    def test_the_answer_to_a_repeated_hello_changes_nothing(self) -> None:
        link = welcomed()
        request = ask(link)
        link.received(WELCOME, 1.0)
        link.received(Refuse(RefusalCode.BUSY, "full", None), 1.0)
        assert link.state is LinkState.WELCOMED
        assert link.counters.sessions == 1
        assert link.received(result(request), 1.0) is not None

    def test_a_newer_session_takes_over_and_the_old_ones_reply_still_counts(self) -> None:
        link = welcomed()
        request = ask(link)
        link.received(replace(WELCOME, session=bytes([9] * 16)), 1.0)
        assert ask(link, 1.0).session == bytes([9] * 16)
        assert link.received(result(request), 1.0) == result(request)


class TestRequests:
    def test_numbers_rise_and_each_reply_comes_out_once(self) -> None:
        link = welcomed()
        first, second = ask(link), ask(link)
        assert second.number == first.number + 1
        assert link.received(result(second), 0.0) == result(second)
        assert link.received(result(first), 0.0) == result(first)
        assert link.received(result(first), 0.0) is None
        assert link.counters.duplicates == 1
        assert link.counters.replies == 2

    def test_a_late_reply_is_counted_and_kept_back(self) -> None:
        link = welcomed()
        request = ask(link)
        link.give_up(request.number, 1.0)
        assert link.received(result(request), 2.0) is None
        assert link.received(result(request), 2.0) is None
        assert (link.counters.late, link.counters.duplicates) == (1, 1)

    def test_replies_that_nobody_asked_for_are_foreign(self) -> None:
        link = welcomed()
        request = ask(link)
        assert link.received(replace(result(request), number=request.number + 7), 0.0) is None
        assert link.received(replace(result(request), session=bytes([7] * 16)), 0.0) is None
        assert link.counters.foreign == 2
        assert link.is_pending(request.number)

    def test_no_request_goes_out_while_the_worker_owes_an_answer(self) -> None:
        link = welcomed()
        request = ask(link)
        link.give_up(request.number, 1.0)
        assert link.open_request(TENSORS, 1000, 1.0) is Reason.OVERDUE
        link.received(result(request), 2.0)
        assert link.obstacle(2.0) is None

    def test_an_answer_owed_too_long_ends_the_session(self) -> None:
        link = welcomed()
        request = ask(link)
        link.give_up(request.number, 1.0)
        assert link.wake_s(1.0) == 1.0 + POLICY.overdue_limit_s
        assert link.next_message(10.9) is None
        assert link.state is LinkState.WELCOMED
        link.next_message(11.0)
        assert (link.state, link.loss) == (LinkState.LOST, Loss.OVERDUE)
        assert link.received(result(request), 12.0) is None
        assert link.counters.late == 1

    def test_bytes_unanswered_stay_within_the_credit(self) -> None:
        size = message_bytes(ask(welcomed()))
        link = welcomed(make_welcome(credit_bytes=2 * size + 1))
        first = ask(link)
        ask(link)
        assert link.open_request(TENSORS, 1000, 0.0) is Reason.NO_CREDIT
        link.received(result(first), 0.0)
        ask(link)

    def test_credit_of_a_request_given_up_returns_with_its_reply(self) -> None:
        size = message_bytes(ask(welcomed()))
        link = welcomed(make_welcome(credit_bytes=size))
        request = ask(link)
        link.give_up(request.number, 0.0)
        link.received(result(request), 0.0)
        ask(link)

    @pytest.mark.parametrize("terms", [{"max_message_bytes": 50}, {"max_tensor_bytes": 79}])
    def test_what_the_worker_would_drop_is_not_sent(self, terms: dict[str, int]) -> None:
        link = welcomed(make_welcome(**terms))
        assert link.open_request(TENSORS, 1000, 0.0) is Reason.TOO_LARGE

    def test_what_the_wire_cannot_carry_is_not_sent(self) -> None:
        long_name = encode_tensor("a" * 10_000, np.arange(3), RawCodec())
        assert welcomed().open_request((long_name,), 1000, 0.0) is Reason.TOO_LARGE

    def test_a_busy_worker_is_left_alone_as_long_as_it_says(self) -> None:
        link = welcomed()
        reply = failure(ask(link), FailureCode.BUSY, 500)
        assert link.received(reply, 1.0) == reply
        assert link.open_request(TENSORS, 1000, 1.4) is Reason.BUSY
        assert link.obstacle(1.5) is None

    @pytest.mark.parametrize("code", [FailureCode.BUSY, FailureCode.DRAINING])
    def test_a_busy_worker_cannot_send_us_away_for_ever(self, code: FailureCode) -> None:
        link = welcomed()
        link.received(failure(ask(link), code, 2**31 - 1), 1.0)
        later_s = 1.0 + POLICY.backoff_last_s
        if code is FailureCode.DRAINING:
            assert isinstance(link.next_message(later_s), Hello)
        else:
            assert link.obstacle(later_s - 0.1) is Reason.BUSY
            assert link.obstacle(later_s) is None

    def test_a_draining_worker_loses_the_session(self) -> None:
        link = welcomed()
        reply = failure(ask(link), FailureCode.DRAINING, 3000)
        assert link.received(reply, 1.0) == reply
        assert (link.state, link.loss) == (LinkState.LOST, Loss.ENDED_BY_WORKER)
        assert next_hello_s(link, 1.0) == 3.0

    def test_other_failures_leave_the_session_as_it_is(self) -> None:
        link = welcomed()
        for code in (FailureCode.INFERENCE_FAILED, FailureCode.BAD_TENSOR, FailureCode.EXPIRED):
            reply = failure(ask(link), code)
            assert link.received(reply, 0.0) == reply
        assert link.obstacle(0.0) is None

    def test_only_so_many_requests_given_up_are_remembered(self) -> None:
        link = welcomed()
        requests = [ask(link) for _ in range(1100)]
        for request in requests:
            link.give_up(request.number, 0.0)
        link.received(result(requests[0]), 0.0)
        link.received(result(requests[-1]), 0.0)
        assert (link.counters.late, link.counters.duplicates) == (1, 1)


class TestUnknownSession:
    def test_a_session_that_worked_is_renewed_at_once(self) -> None:
        link = welcomed()
        link.received(result(ask(link)), 1.0)
        request = ask(link, 60.0)
        assert link.received(failure(request, FailureCode.UNKNOWN_SESSION), 60.0) is None
        assert not link.is_pending(request.number)
        assert (link.state, link.loss) == (LinkState.LOST, Loss.UNKNOWN_SESSION)
        assert isinstance(link.next_message(60.0), Hello)

    def test_a_session_that_never_worked_is_renewed_after_a_wait(self) -> None:
        link = welcomed()
        link.received(failure(ask(link), FailureCode.UNKNOWN_SESSION), 1.0)
        assert next_hello_s(link, 1.0) == 0.5

    def test_the_wait_grows_until_a_request_is_answered(self) -> None:
        link = welcomed()
        waits = []
        for now_s in (100.0, 200.0, 300.0):
            link.received(failure(ask(link, now_s), FailureCode.UNKNOWN_SESSION), now_s)
            waits.append(next_hello_s(link, now_s))
            greet(link, now_s + 50)
            link.received(WELCOME, now_s + 50)
        assert waits == [0.5, 1.0, 2.0]
        link.received(result(ask(link, 400.0)), 400.0)
        link.disconnected(400.0)
        assert next_hello_s(link, 400.0) == 0.5

    def test_said_of_an_older_session_it_loses_that_sessions_request_only(self) -> None:
        link = welcomed()
        old = ask(link)
        link.received(replace(WELCOME, session=bytes([9] * 16)), 1.0)
        link.received(failure(old, FailureCode.UNKNOWN_SESSION), 1.0)
        assert not link.is_pending(old.number)
        assert link.state is LinkState.WELCOMED
        link.received(failure(old, FailureCode.UNKNOWN_SESSION), 1.0)
        assert link.counters.foreign == 1

    def test_a_ping_tells_it_too(self) -> None:
        link = welcomed()
        ping = link.next_message(1.0)
        assert isinstance(ping, Ping)
        link.sent(ping, 1.0)
        code = FailureCode.UNKNOWN_SESSION
        link.received(Failure(ping.session, ping.number, code, "", None), 1.0)
        assert link.state is LinkState.LOST


class TestLife:
    def test_pings_when_nothing_was_heard_for_the_workers_interval(self) -> None:
        link = welcomed(make_welcome(ping_interval_ms=2000))
        assert link.next_message(1.9) is None
        assert link.wake_s(0.0) == 2.0
        ping = link.next_message(2.0)
        assert isinstance(ping, Ping)
        assert ping.session == WELCOME.session

    def test_three_pings_without_an_answer_end_the_session(self) -> None:
        link = welcomed()
        for now_s in (1.0, 2.0, 3.0):
            ping = link.next_message(now_s)
            assert isinstance(ping, Ping)
            link.sent(ping, now_s)
        assert link.next_message(3.9) is None
        assert link.state is LinkState.WELCOMED
        assert link.next_message(4.0) is None
        assert (link.state, link.loss) == (LinkState.LOST, Loss.SILENT)

    def test_any_traffic_is_a_sign_of_life(self) -> None:
        link = welcomed()
        signs: list[Message] = [
            Pong(WELCOME.session, 1),
            WELCOME,
            Result(WELCOME.session, 9, Timings(0, 0, 0, 0), ()),
        ]
        for now_s in range(1, 10):
            ping = link.next_message(float(now_s))
            assert isinstance(ping, Ping)
            link.sent(ping, float(now_s))
            link.received(signs[now_s % 3], float(now_s))
        assert link.state is LinkState.WELCOMED

    def test_does_not_ping_behind_a_request(self) -> None:
        link = welcomed()
        ask(link)
        assert link.next_message(9.0) is None

    def test_a_long_pause_of_the_agent_is_no_silence_of_the_worker(self) -> None:
        link = welcomed()
        ping = link.next_message(1.0)
        assert isinstance(ping, Ping)
        link.sent(ping, 1.0)
        link.received(Pong(ping.session, ping.number), 3600.0)  # it lay in the socket for an hour
        link.next_message(3600.0)
        assert link.state is LinkState.WELCOMED

    @pytest.mark.parametrize(
        ("event", "loss"),
        [
            (Goodbye(WELCOME.session, "over"), Loss.ENDED_BY_WORKER),
            (HELLO, Loss.MALFORMED),
            (Ping(WELCOME.session, 1), Loss.MALFORMED),
            (Request(WELCOME.session, 1, None, ()), Loss.MALFORMED),
            ("disconnect", Loss.DISCONNECTED),
            ("garbage", Loss.MALFORMED),
        ],
    )
    def test_what_ends_a_session(self, event: Message | str, loss: Loss) -> None:
        link = welcomed()
        request = ask(link)
        if event == "disconnect":
            link.disconnected(1.0)
        elif isinstance(event, str):
            link.malformed(1.0)
        else:
            assert link.received(event, 1.0) is None
        assert (link.state, link.loss) == (LinkState.LOST, loss)
        assert link.counters.losses == 1
        assert not link.is_pending(request.number)
        assert link.farewell("done") is None
        assert link.next_message(1.4) is None
        assert isinstance(link.next_message(1.5), Hello)

    def test_the_goodbye_of_another_session_ends_nothing(self) -> None:
        link = welcomed()
        link.received(Goodbye(bytes([7] * 16), "over"), 1.0)
        assert link.state is LinkState.WELCOMED

    def test_says_goodbye_in_a_session_only(self) -> None:
        assert make_link().farewell("done") is None
        assert welcomed().farewell("done") == Goodbye(WELCOME.session, "done")

    def test_garbage_before_any_session_only_costs_a_wait(self) -> None:
        link = make_link()
        greet(link, 0.0)
        link.malformed(0.0)
        assert link.counters.losses == 0
        assert next_hello_s(link, 0.0) == 0.5
