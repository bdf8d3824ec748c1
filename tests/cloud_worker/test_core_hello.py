"""HELLO: what is granted and what is refused."""

from __future__ import annotations

import pytest

from cloud_worker import ModelEntry, ModelIndex, TailKey, WorkerSettings
from cloud_worker._work import LoadFailure
from protocol import PROTOCOL_VERSION, Goodbye, RefusalCode, Refuse, Welcome
from protocol.errors import FrameError, VersionMismatchError
from tests.cloud_worker.core_support import PEER, Bench, only, refused, request, result, tail
from tests.cloud_worker.support import KEY, MODEL, hello


def test_welcome_comes_when_the_tail_is_loaded() -> None:
    bench = Bench(WorkerSettings(name="w7", credit_bytes=5000, ping_interval_ms=700))
    assert bench.say(hello()) == []
    assert bench.loads == [KEY]
    welcome = only(bench.load(), Welcome)
    assert (welcome.worker, welcome.credit_bytes, welcome.ping_interval_ms) == ("w7", 5000, 700)
    assert welcome.codecs == ("raw",)
    assert welcome.max_message_bytes == 5000  # more than the credit could never be accepted


def test_second_agent_at_a_loaded_cut_is_welcomed_at_once() -> None:
    bench = Bench()
    first = bench.welcome()
    second = only(bench.say(hello(incarnation=b"j" * 16), b"peer-2"), Welcome)
    assert second.session != first.session
    assert bench.loads == []


def test_agents_that_wait_for_one_tail_load_it_once() -> None:
    bench = Bench()
    bench.say(hello(), b"peer-1")
    bench.say(hello(), b"peer-2")
    bench.say(hello(), b"peer-2")
    assert len(bench.loads) == 1
    assert len(bench.load()) == 2
    assert {send.peer for send in bench.sent} == {b"peer-1", b"peer-2"}


def test_repeated_hello_gets_the_same_session() -> None:
    bench = Bench()
    welcome = bench.welcome()
    assert only(bench.say(hello()), Welcome) == welcome


def test_hello_from_a_new_connection_gets_a_new_session() -> None:
    bench = Bench()
    welcome = bench.welcome()
    assert only(bench.say(hello(), b"peer-2"), Welcome).session != welcome.session


def test_order_of_names_makes_no_other_tail() -> None:
    key = TailKey.of(MODEL, ["b", "a"], ["z", "y"])
    assert key == TailKey.of(MODEL, ["a", "b"], ["y", "z"])


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"protocol_version": 2}, RefusalCode.VERSION_MISMATCH, f"speaks {PROTOCOL_VERSION}"),
        ({"model": "b" * 64}, RefusalCode.UNKNOWN_MODEL, "net aaaaaaaaaaaa"),
        ({"frontier": ()}, RefusalCode.ILLEGAL_CUT, "frontier is empty"),
        ({"results": ()}, RefusalCode.ILLEGAL_CUT, "results is empty"),
        ({"frontier": ("x", "x")}, RefusalCode.BAD_HELLO, "twice"),
        ({"codecs": ("raw", "webp")}, RefusalCode.UNSUPPORTED_CODEC, "webp"),
        ({"preprocess": {"height": 0}}, RefusalCode.BAD_HELLO, "preprocess"),
    ],
)
def test_refusals_before_loading(changes: dict[str, object], code: RefusalCode, words: str) -> None:
    bench = Bench()
    message = hello(**changes)
    messages = bench.do(bench.core.handle(PEER, message, 100, bench.now))
    assert words in refused(messages, code).text
    assert bench.loads == []


def test_unknown_model_text_stays_short_with_many_models() -> None:
    entries = [ModelEntry(f"net-{index:03}", f"{index:064}") for index in range(50)]
    bench = Bench(models=ModelIndex(entries))
    text = refused(bench.say(hello()), RefusalCode.UNKNOWN_MODEL).text
    assert "net-007" in text
    assert "42 more" in text


@pytest.mark.parametrize("code", [RefusalCode.ILLEGAL_CUT, RefusalCode.LOAD_FAILED])
def test_failed_load_is_told_to_all_who_wait(code: RefusalCode) -> None:
    bench = Bench()
    bench.say(hello(), b"peer-1")
    bench.say(hello(), b"peer-2")
    messages = bench.load(LoadFailure(code, "no such tensor"))
    assert [(m.code, m.text) for m in messages if isinstance(m, Refuse)] == [
        (code, "no such tensor")
    ] * 2
    bench.say(hello())
    assert bench.loads == [KEY]  # asked again, it is tried again


def test_full_session_table_refuses_with_a_time() -> None:
    bench = Bench(WorkerSettings(sessions=1))
    bench.welcome()
    refusal = refused(bench.say(hello(), b"peer-2"), RefusalCode.BUSY)
    assert refusal.retry_after_ms is not None
    assert "1 sessions" in refusal.text


def test_agents_that_wait_count_as_sessions() -> None:
    bench = Bench(WorkerSettings(sessions=1))
    bench.say(hello())
    refused(bench.say(hello(), b"peer-2"), RefusalCode.BUSY)


def test_unused_tail_makes_room_for_another() -> None:
    bench = Bench(WorkerSettings(tails=1, ping_interval_ms=1000, ping_misses=3))
    bench.welcome()
    other = hello(frontier=("h",))
    refusal = refused(bench.say(other), RefusalCode.BUSY)
    assert "1 cuts are in use" in refusal.text
    bench.tick(3.0)  # the silent session ends and lets its tail go
    assert bench.unloaded == []
    bench.say(other)
    assert [gone.key for gone in bench.unloaded] == [KEY]
    assert only(bench.load(), Welcome)


def test_idle_tail_gives_way_and_its_agents_are_told() -> None:
    bench = Bench(WorkerSettings(tails=2))
    first, second = bench.welcome(b"1"), bench.welcome(b"2")
    bench.welcome(b"3", frontier=("h",))
    bench.tick(9.9)
    refused(bench.say(hello(frontier=("k",)), b"4"), RefusalCode.BUSY)
    bench.tick(0.1)
    messages = bench.say(hello(frontier=("k",)), b"4")
    assert messages == [
        Goodbye(welcome.session, "idle, and its cut gave way to another")
        for welcome in (first, second)
    ]
    assert [gone.key for gone in bench.unloaded] == [KEY]
    assert only(bench.load(), Welcome)


def test_tail_asked_longest_ago_gives_way_first() -> None:
    bench = Bench(WorkerSettings(tails=2))
    first = bench.welcome(b"1")
    bench.welcome(b"2", frontier=("h",))
    bench.tick(5.0)
    bench.say(request(first, 1), b"1")
    bench.finish()
    bench.tick(10.0)
    bench.say(hello(frontier=("k",)), b"3")
    assert [gone.key.frontier for gone in bench.unloaded] == [("h",)]


def test_tails_that_are_asked_do_not_give_way() -> None:
    bench = Bench(WorkerSettings(tails=1))
    welcome = bench.welcome()
    bench.tick(20.0)
    bench.say(request(welcome, 1))
    refused(bench.say(hello(frontier=("k",)), b"2"), RefusalCode.BUSY)
    bench.finish()
    refused(bench.say(hello(frontier=("k",)), b"2"), RefusalCode.BUSY)


def test_one_connection_does_not_get_all_sessions() -> None:
    bench = Bench()
    for number in range(8):
        bench.say(hello(frontier=(f"t{number}",)))
    refusal = refused(bench.say(hello(frontier=("t8",))), RefusalCode.BUSY)
    assert "8 sessions are open on this connection" in refusal.text
    for _ in range(8):
        assert only(bench.load(), Welcome)
    refused(bench.say(hello(frontier=("t8",))), RefusalCode.BUSY)
    bench.say(hello(frontier=("t8",)), b"other")
    assert only(bench.load(), Welcome)


def test_agents_that_come_and_go_are_told_to_people() -> None:
    bench = Bench(WorkerSettings(ping_interval_ms=1000, ping_misses=3))
    peer = b"\x00\x01\x02\x03\x04"
    bench.say(Goodbye(bench.welcome(peer).session, "done"), peer)
    bench.say(hello(model="b" * 64), PEER)
    bench.welcome()
    bench.tick(3.0)
    bench.do(bench.core.unreadable(PEER, [b"x"], FrameError("1 frame"), bench.now))
    refusal = "no model with sha256 bbbbbbbbbbbb here; this worker serves net aaaaaaaaaaaa"
    assert bench.notes == [
        "agent 01020304 joined: net at cut-1",
        "agent 01020304 left cut-1: done",
        f"agent 65722d31 refused (unknown_model), model bbbbbbbbbbbb at cut-1: {refusal}",
        "agent 65722d31 joined: net at cut-1",
        "agent 65722d31 left cut-1: silent for 3 s",
        "agent 65722d31 sent an unreadable message: 1 frame",
    ]


def test_tail_stays_while_a_job_uses_it() -> None:
    bench = Bench(WorkerSettings(tails=1))
    welcome = bench.welcome()
    bench.say(request(welcome, 1))
    bench.say(Goodbye(welcome.session, "done"))
    refused(bench.say(hello(frontier=("h",))), RefusalCode.BUSY)
    bench.finish()
    bench.say(hello(frontier=("h",)))
    assert [gone.key for gone in bench.unloaded] == [KEY]


def test_draining_refuses_new_and_waiting_agents() -> None:
    bench = Bench()
    bench.say(hello(), b"peer-1")
    refused(bench.do(bench.core.drain(bench.now)), RefusalCode.DRAINING)
    assert bench.sent[-1].peer == b"peer-1"
    refused(bench.say(hello(), b"peer-2"), RefusalCode.DRAINING)
    assert bench.do(bench.core.loaded(KEY, tail(), bench.now)) == []


def test_one_peer_may_hold_sessions_at_two_cuts() -> None:
    other = TailKey.of(MODEL, ["h"], ["y"])
    bench = Bench()
    first = bench.welcome()
    bench.say(hello(frontier=("h",)))
    second = only(bench.load(tail(other)), Welcome)
    # The same number at two cuts is two requests.
    bench.say(request(first, 1))
    bench.say(request(second, 1))
    assert [job.tail.key for job in bench.jobs] == [KEY, other]
    assert result(bench.finish(), 1).session == first.session
    assert result(bench.finish(), 1).session == second.session


class TestUnreadable:
    ERROR = FrameError("bytes 3 to 5 are wrong")

    def test_garbage_is_counted_and_not_answered(self) -> None:
        bench = Bench()
        for frames in ([], [b"\x01"], [b"GET / HTTP/1.1", b"", b"", b""], [b"", b"", b"", b""]):
            assert bench.do(bench.core.unreadable(PEER, frames, self.ERROR, bench.now)) == []
        assert bench.core.counts["unreadable"] == 4

    def test_other_version_is_told_ours(self) -> None:
        bench = Bench()
        error = VersionMismatchError("version 9", 9)
        messages = bench.do(bench.core.unreadable(PEER, [b"\x09\x01"], error, bench.now))
        assert "version 9" in refused(messages, RefusalCode.VERSION_MISMATCH).text

    def test_unreadable_hello_is_refused(self) -> None:
        bench = Bench()
        frames = [bytes((PROTOCOL_VERSION, 1)), b"", b"", b"\x80"]
        messages = bench.do(bench.core.unreadable(PEER, frames, self.ERROR, bench.now))
        assert "bytes 3 to 5" in refused(messages, RefusalCode.BAD_HELLO).text
