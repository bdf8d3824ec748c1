"""Requests: each accepted one gets exactly one answer, within bounds."""

from __future__ import annotations

import pytest

from cloud_worker import WorkerSettings
from cloud_worker._work import EXPIRED, Failed
from protocol import (
    PROTOCOL_VERSION,
    Failure,
    FailureCode,
    Goodbye,
    Limits,
    Ping,
    Pong,
    RefusalCode,
    Result,
    message_bytes,
)
from protocol.errors import FrameError, LimitExceededError
from tests.cloud_worker.core_support import (
    PEER,
    Bench,
    answer,
    failed,
    only,
    refused,
    request,
    result,
)
from tests.cloud_worker.support import X, hello

SIZE = message_bytes(request(Bench().welcome(), 1))


def test_request_is_computed_and_answered() -> None:
    bench = Bench()
    welcome = bench.welcome()
    assert bench.say(request(welcome, 5, deadline_ms=250)) == []
    [job] = bench.jobs
    assert job.results == ("y",)
    assert (job.accepted_at, job.expires_at) == (100.0, 100.25)
    computed = answer(X * 2)
    found = result(bench.finish(computed), 5)
    assert found.session == welcome.session
    assert (found.timings, found.tensors) == (computed.timings, computed.tensors)


def test_jobs_are_handed_out_in_order_and_two_at_a_time() -> None:
    bench = Bench()
    welcome = bench.welcome()
    for number in range(5):
        bench.say(request(welcome, number))
    assert len(bench.jobs) == 2
    answered = [result(bench.finish(), number).number for number in range(5)]
    assert answered == [0, 1, 2, 3, 4]


def test_request_of_no_session_is_told_to_say_hello() -> None:
    bench = Bench()
    welcome = bench.welcome()
    bench.say(Goodbye(welcome.session, "done"))
    failed(bench.say(request(welcome, 1)), FailureCode.UNKNOWN_SESSION)
    failed(bench.say(Ping(b"?" * 16, 1)), FailureCode.UNKNOWN_SESSION)


def test_messages_that_only_workers_send_are_counted() -> None:
    bench = Bench()
    welcome = bench.welcome()
    assert bench.say(welcome) == []
    assert bench.core.counts["unexpected"] == 1


class TestRepeats:
    def test_repeat_in_flight_is_answered_once(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        bench.say(request(welcome, 1))
        assert bench.say(request(welcome, 1)) == []
        assert len(bench.jobs) == 1
        result(bench.finish(), 1)
        assert bench.jobs == []

    def test_repeat_of_a_finished_request_is_replayed(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        bench.say(request(welcome, 1))
        first = result(bench.finish(), 1)
        assert result(bench.say(request(welcome, 1)), 1) == first
        assert bench.jobs == []

    def test_repeat_after_reconnecting_is_answered_in_the_new_session(self) -> None:
        bench = Bench()
        old = bench.welcome()
        bench.say(request(old, 1))
        new = bench.welcome(b"peer-2")
        assert bench.say(request(new, 1), b"peer-2") == []
        assert result(bench.finish(), 1).session == new.session
        assert bench.sent[-1].peer == b"peer-2"
        assert result(bench.say(request(new, 1), b"peer-2"), 1).session == new.session

    def test_repeat_after_the_old_session_ended_is_answered(self) -> None:
        bench = Bench()
        old = bench.welcome()
        bench.say(request(old, 1))
        bench.say(Goodbye(old.session, "reconnecting"))
        new = bench.welcome()
        assert bench.say(request(new, 1)) == []
        assert result(bench.finish(), 1).session == new.session

    def test_answer_of_an_ended_session_is_kept_for_its_return(self) -> None:
        bench = Bench()
        old = bench.welcome()
        bench.say(request(old, 1))
        bench.say(Goodbye(old.session, "reconnecting"))
        assert bench.finish() == []
        new = bench.welcome()
        result(bench.say(request(new, 1)), 1)
        assert bench.jobs == []

    def test_another_incarnation_with_the_same_number_is_computed(self) -> None:
        bench = Bench()
        first = bench.welcome()
        bench.say(request(first, 1))
        bench.finish()
        second = bench.welcome(b"peer-2", incarnation=b"j" * 16)
        assert bench.say(request(second, 1), b"peer-2") == []
        assert len(bench.jobs) == 1

    def test_repeat_into_a_session_without_credit_is_refused(self) -> None:
        bench = Bench(WorkerSettings(credit_bytes=SIZE + SIZE // 2))
        old = bench.welcome()
        bench.say(request(old, 1))
        new = bench.welcome(b"peer-2")
        bench.say(request(new, 2), b"peer-2")
        failed(bench.say(request(new, 1), b"peer-2"), FailureCode.OVER_CREDIT)
        assert result(bench.finish(), 1).session == old.session

    @pytest.mark.parametrize(
        "code", [FailureCode.BAD_TENSOR, FailureCode.REJECTED, FailureCode.INFERENCE_FAILED]
    )
    def test_final_failures_are_replayed(self, code: FailureCode) -> None:
        bench = Bench()
        welcome = bench.welcome()
        bench.say(request(welcome, 1))
        failed(bench.finish(Failed(code, "no")), code)
        failed(bench.say(request(welcome, 1)), code)
        assert bench.jobs == []

    def test_expired_request_may_be_tried_again(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        bench.say(request(welcome, 1, deadline_ms=5))
        failed(bench.finish(EXPIRED), FailureCode.EXPIRED)
        bench.say(request(welcome, 1, deadline_ms=500))
        result(bench.finish(), 1)

    def test_answer_that_left_the_cache_is_computed_again(self) -> None:
        big = X.repeat(2000, axis=1)
        size = answer(big).message_bytes
        bench = Bench(WorkerSettings(reply_cache_bytes=size + 2048))
        welcome = bench.welcome()
        for number in (1, 2):
            bench.say(request(welcome, number))
            bench.finish(answer(big))
        assert len(bench.say(request(welcome, 2))) == 1
        assert bench.say(request(welcome, 1)) == []
        assert len(bench.jobs) == 1


class TestBounds:
    def test_credit_is_counted_in_message_bytes_and_released_by_answers(self) -> None:
        bench = Bench(WorkerSettings(credit_bytes=2 * SIZE))
        welcome = bench.welcome()
        assert bench.say(request(welcome, 1)) == []
        assert bench.say(request(welcome, 2)) == []
        failure = failed(bench.say(request(welcome, 3)), FailureCode.OVER_CREDIT)
        assert str(2 * SIZE) in failure.text
        bench.finish()
        assert bench.say(request(welcome, 3)) == []

    def test_each_session_has_its_own_credit(self) -> None:
        bench = Bench(WorkerSettings(credit_bytes=SIZE))
        assert bench.say(request(bench.welcome(), 1)) == []
        assert bench.say(request(bench.welcome(b"2"), 2), b"2") == []

    def test_request_larger_than_everything_is_too_large(self) -> None:
        bench = Bench(WorkerSettings(credit_bytes=SIZE - 1))
        welcome = bench.welcome()
        failure = failed(bench.say(request(welcome, 1)), FailureCode.TOO_LARGE)
        assert str(SIZE - 1) in failure.text

    def test_full_queue_in_requests_tells_when_to_come_again(self) -> None:
        bench = Bench(WorkerSettings(queue_requests=3))
        welcome = bench.welcome()
        bench.say(request(welcome, 0))
        bench.finish(answer(service_ms=40.0))
        for number in (1, 2, 3):
            assert bench.say(request(welcome, number)) == []
        failure = failed(bench.say(request(welcome, 4)), FailureCode.BUSY)
        assert failure.retry_after_ms == 120
        bench.finish()
        assert bench.say(request(welcome, 4)) == []

    def test_full_queue_in_bytes(self) -> None:
        bench = Bench(WorkerSettings(queue_bytes=2 * SIZE))
        first, second = bench.welcome(), bench.welcome(b"2")
        bench.say(request(first, 1))
        bench.say(request(first, 2))
        failed(bench.say(request(second, 3), b"2"), FailureCode.BUSY)

    def test_refused_requests_hold_no_credit(self) -> None:
        bench = Bench(WorkerSettings(queue_requests=1, credit_bytes=2 * SIZE))
        welcome = bench.welcome()
        bench.say(request(welcome, 1))
        for number in range(2, 9):
            failed(bench.say(request(welcome, number)), FailureCode.BUSY)
        bench.finish()
        assert bench.say(request(welcome, 10)) == []

    def test_result_above_the_agents_limit_is_too_large(self) -> None:
        small = answer(X)
        bench = Bench()
        welcome = bench.welcome(max_message_bytes=small.message_bytes)
        bench.say(request(welcome, 1))
        result(bench.finish(small), 1)
        bench.say(request(welcome, 2))
        large = answer(X.repeat(1000, axis=1) + 0.1)
        failed(bench.finish(large), FailureCode.TOO_LARGE)

    def test_estimated_size_of_a_result_is_never_too_small(self) -> None:
        for array in (X, X.reshape(2, 2, 1, 1), X.repeat(70_000)):
            computed = answer(array)
            sent = Result(b"s" * 16, 2**64 - 1, computed.timings, computed.tensors)
            assert message_bytes(sent) <= computed.message_bytes <= message_bytes(sent) + 200


class TestTime:
    def test_request_that_arrives_too_late_is_not_accepted(self) -> None:
        bench = Bench()
        failed(bench.say(request(bench.welcome(), 1, deadline_ms=0)), FailureCode.EXPIRED)
        assert bench.jobs == []

    def test_waiting_request_expires_by_itself(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        for number in (1, 2):
            bench.say(request(welcome, number))
        bench.say(request(welcome, 3, deadline_ms=50))
        assert bench.core.next_tick_at() == pytest.approx(100.05)
        assert bench.tick(0.049) == []
        failure = failed(bench.tick(0.001), FailureCode.EXPIRED)
        assert failure.number == 3
        for number in (1, 2):
            result(bench.finish(), number)
        assert bench.jobs == []

    def test_expired_request_is_not_handed_out(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        for number in (1, 2):
            bench.say(request(welcome, number))
        bench.say(request(welcome, 3, deadline_ms=50))
        bench.say(request(welcome, 4))
        bench.now += 1.0
        messages = bench.finish()
        assert [type(message) for message in messages] == [Result, Failure]
        assert [job.accepted_at for job in bench.jobs] == [100.0, 100.0]
        assert len(bench.jobs) == 2

    def test_silent_session_ends(self) -> None:
        bench = Bench(WorkerSettings(ping_interval_ms=1000, ping_misses=3))
        welcome = bench.welcome()
        assert bench.core.next_tick_at() == pytest.approx(103.0)
        bench.tick(2.9)
        bench.tick(0.1)
        assert bench.core.counts["sessions_expired"] == 1
        assert bench.core.next_tick_at() is None
        failed(bench.say(request(welcome, 4)), FailureCode.UNKNOWN_SESSION)

    def test_session_that_awaits_an_answer_need_not_ping(self) -> None:
        bench = Bench(WorkerSettings(ping_interval_ms=1000, ping_misses=3))
        welcome = bench.welcome()
        bench.say(request(welcome, 1))
        bench.tick(59.0)
        result(bench.finish(), 1)
        bench.tick(2.9)  # from the answer on, it is its turn to speak
        bench.say(request(welcome, 2))
        result(bench.finish(), 2)
        bench.tick(3.0)
        failed(bench.say(request(welcome, 3)), FailureCode.UNKNOWN_SESSION)

    def test_goodbye_takes_back_what_waits(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        for number in (1, 2, 3):
            bench.say(request(welcome, number))
        bench.say(Goodbye(welcome.session, "done"))
        assert bench.finish() == bench.finish() == []
        assert bench.jobs == []

    def test_any_message_keeps_a_session_alive(self) -> None:
        bench = Bench(WorkerSettings(ping_interval_ms=1000, ping_misses=3))
        welcome = bench.welcome()
        bench.tick(2.9)
        assert bench.say(Ping(welcome.session, 7)) == [Pong(welcome.session, 7)]
        bench.tick(2.9)
        bench.say(request(welcome, 1))
        bench.tick(2.9)
        result(bench.finish(), 1)

    def test_session_follows_its_agent_to_a_new_connection(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        bench.say(request(welcome, 1))
        bench.say(Ping(welcome.session, 1), b"peer-2")
        result(bench.finish(), 1)
        assert bench.sent[-1].peer == b"peer-2"


class TestRuns:
    """What is being computed is answered at its deadline, and stopped."""

    def test_run_is_answered_and_stopped_at_its_deadline(self) -> None:
        bench = Bench()
        bench.say(request(bench.welcome(), 1, deadline_ms=50))
        assert bench.tick(0.049) == []
        failed(bench.tick(0.001), FailureCode.EXPIRED)
        assert bench.stopped == bench.jobs
        assert bench.finish(Failed(FailureCode.INFERENCE_FAILED, "stopped")) == []
        assert bench.notes[1:] == []  # of the joining agent only

    @pytest.mark.parametrize("deadline_ms", [None, 2**31 - 1])
    def test_request_without_a_deadline_of_its_own_has_the_workers(
        self, deadline_ms: int | None
    ) -> None:
        bench = Bench(WorkerSettings(run_limit_ms=2000))
        bench.say(request(bench.welcome(), 1, deadline_ms=deadline_ms))
        assert bench.core.next_tick_at() == pytest.approx(102.0)
        failed(bench.tick(2.0), FailureCode.EXPIRED)
        assert bench.stopped == bench.jobs

    def test_expired_run_may_be_asked_for_again(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        bench.say(request(welcome, 1, deadline_ms=50))
        bench.tick(0.05)
        bench.say(request(welcome, 1, deadline_ms=500))
        assert len(bench.jobs) == 2
        assert bench.finish() == []  # of the first one
        result(bench.finish(), 1)

    def test_tail_of_a_run_that_was_answered_stays_until_the_run_ends(self) -> None:
        bench = Bench(WorkerSettings(tails=1))
        welcome = bench.welcome()
        bench.say(request(welcome, 1, deadline_ms=50))
        bench.tick(0.05)
        bench.say(Goodbye(welcome.session, "done"))
        refused(bench.say(hello(frontier=("h",))), RefusalCode.BUSY)
        bench.finish()
        bench.say(hello(frontier=("h",)))
        assert len(bench.unloaded) == 1

    def test_nothing_is_accepted_while_a_run_does_not_stop(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        bench.say(request(welcome, 1, deadline_ms=1000))
        bench.tick(1.0)
        bench.say(request(welcome, 2))  # it may still stop
        assert bench.core.next_tick_at() == pytest.approx(103.0)
        bench.tick(2.0)
        assert "does not stop" in bench.notes[-1]
        assert bench.core.counts["stuck"] == 1
        failure = failed(bench.say(request(welcome, 3)), FailureCode.BUSY)
        assert failure.retry_after_ms == 5000
        bench.tick(1.0)
        assert bench.core.counts["stuck"] == 1  # said once
        bench.finish()
        assert "has ended after 4 s" in bench.notes[-1]
        assert bench.say(request(welcome, 3)) == []
        result(bench.finish(), 2)

    def test_job_behind_a_stuck_one_is_not_taken_for_stuck(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        for number in (1, 2):
            bench.say(request(welcome, number, deadline_ms=1000))
        bench.tick(1.0)
        bench.tick(2.0)
        bench.finish()
        bench.finish(EXPIRED)
        assert bench.core.counts["stuck"] == 1
        assert bench.say(request(welcome, 3)) == []

    def test_runs_are_stopped_when_the_time_to_drain_is_over(self) -> None:
        bench = Bench(WorkerSettings(drain_ms=1000))
        bench.say(request(bench.welcome(), 1))
        bench.do(bench.core.drain(bench.now))
        failed(bench.tick(1.0), FailureCode.DRAINING)
        assert bench.stopped == bench.jobs

    def test_failed_model_is_told_to_people(self) -> None:
        bench = Bench()
        bench.say(request(bench.welcome(), 1))
        bench.finish(Failed(FailureCode.INFERENCE_FAILED, "out of memory"))
        assert bench.notes[-1].startswith("fault: model aaaaaaaaaaaa from x failed")
        assert bench.notes[-1].endswith("out of memory")

    def test_rejected_request_is_no_fault(self) -> None:
        bench = Bench()
        bench.say(request(bench.welcome(), 1))
        bench.finish(Failed(FailureCode.REJECTED, "Gather: index 9"))
        assert bench.notes[-1] == "model aaaaaaaaaaaa from x rejects a request: Gather: index 9"


class TestFairness:
    def order(self, bench: Bench) -> list[tuple[bytes, int]]:
        answered = []
        while bench.jobs:
            for message in bench.finish():
                assert isinstance(message, Result)
                answered.append((bench.sent[-1].peer, message.number))
        return answered

    def test_sessions_take_turns_and_keep_their_order(self) -> None:
        bench = Bench()
        busy, other = bench.welcome(b"busy"), bench.welcome(b"other", incarnation=b"j" * 16)
        for number in range(6):
            bench.say(request(busy, number), b"busy")
        for number in range(2):
            bench.say(request(other, number), b"other")
        assert self.order(bench) == [
            (b"busy", 0),
            (b"busy", 1),
            (b"busy", 2),
            (b"other", 0),
            (b"busy", 3),
            (b"other", 1),
            (b"busy", 4),
            (b"busy", 5),
        ]

    @pytest.mark.parametrize(
        "settings",
        [WorkerSettings(queue_requests=10), WorkerSettings(queue_bytes=10 * SIZE + 10)],
    )
    def test_full_queue_makes_room_for_who_has_little_in_it(self, settings: WorkerSettings) -> None:
        bench = Bench(settings)
        busy, other = bench.welcome(b"busy"), bench.welcome(b"other", incarnation=b"j" * 16)
        for number in range(10):
            assert bench.say(request(busy, number), b"busy") == []
        failed(bench.say(request(busy, 10), b"busy"), FailureCode.BUSY)
        for number in range(4):
            displaced = failed(bench.say(request(other, number), b"other"), FailureCode.BUSY)
            assert (displaced.session, displaced.number) == (busy.session, 9 - number)
        assert failed(bench.say(request(other, 4), b"other"), FailureCode.BUSY).number == 4
        assert len(self.order(bench)) == 10

    def test_displaced_request_may_come_again(self) -> None:
        bench = Bench(WorkerSettings(queue_requests=4, credit_bytes=4 * SIZE))
        busy, other = bench.welcome(b"busy"), bench.welcome(b"other", incarnation=b"j" * 16)
        for number in range(4):
            bench.say(request(busy, number), b"busy")
        bench.say(request(other, 0), b"other")
        bench.finish()
        assert bench.say(request(busy, 3), b"busy") == []

    def test_repeat_in_a_new_session_waits_for_its_turn_there(self) -> None:
        bench = Bench()
        old = bench.welcome(b"old")
        for number in range(4):
            bench.say(request(old, number), b"old")
        new = bench.welcome(b"new")
        for number in (2, 3):
            bench.say(request(new, number), b"new")
        assert self.order(bench) == [(b"old", 0), (b"old", 1), (b"new", 2), (b"new", 3)]


class TestDraining:
    def test_accepted_work_is_finished_and_new_work_refused(self) -> None:
        bench = Bench()
        welcome = bench.welcome()
        for number in (1, 2, 3):
            bench.say(request(welcome, number))
        assert not bench.core.drained
        bench.do(bench.core.drain(bench.now))
        failed(bench.say(request(welcome, 4)), FailureCode.DRAINING)
        for number in (1, 2, 3):
            assert not bench.core.drained
            result(bench.finish(), number)
        assert bench.core.drained
        result(bench.say(request(welcome, 3)), 3)  # repeats are answered to the end
        assert bench.do(bench.core.farewell("bye")) == [Goodbye(welcome.session, "bye")]
        assert len(bench.unloaded) == 1

    def test_work_that_takes_too_long_is_given_up(self) -> None:
        bench = Bench(WorkerSettings(drain_ms=2000))
        welcome = bench.welcome()
        for number in (1, 2, 3):
            bench.say(request(welcome, number))
        bench.do(bench.core.drain(bench.now))
        bench.now += 1.0
        bench.do(bench.core.drain(bench.now))  # a second one gives no more time
        assert bench.core.next_tick_at() == pytest.approx(102.0)
        messages = bench.tick(1.0)
        assert [message.number for message in messages if isinstance(message, Failure)] == [1, 2, 3]
        assert bench.core.drained
        assert bench.finish() == []  # too late: it has its answer

    def test_idle_worker_is_drained_at_once(self) -> None:
        bench = Bench()
        bench.do(bench.core.drain(bench.now))
        assert bench.core.drained


class TestUnreadable:
    def unreadable(self, bench: Bench, session: bytes, error: FrameError) -> list[object]:
        frames = [bytes((PROTOCOL_VERSION, 4)), session, (9).to_bytes(8, "big"), b"\xff" * 80]
        return list(bench.do(bench.core.unreadable(PEER, frames, error, bench.now)))

    def test_request_of_a_session_is_answered(self) -> None:
        bench = Bench()
        session = bench.welcome().session
        [large] = self.unreadable(bench, session, LimitExceededError("300 MiB"))
        assert isinstance(large, Failure)
        assert (large.code, large.number) == (FailureCode.TOO_LARGE, 9)
        [bad] = self.unreadable(bench, session, FrameError("no map"))
        assert isinstance(bad, Failure)
        assert bad.code is FailureCode.BAD_TENSOR

    def test_strangers_are_not_answered(self) -> None:
        assert self.unreadable(Bench(), b"?" * 16, FrameError("no map")) == []


def test_limits_of_the_wire_bound_what_is_announced() -> None:
    bench = Bench(limits=Limits(message_bytes=8192, tensor_bytes=4096))
    welcome = bench.welcome()
    assert (welcome.max_message_bytes, welcome.max_tensor_bytes) == (8192, 4096)
    only(bench.say(hello()), type(welcome))
