"""The worker on real sockets, with models that a test can hold."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import zmq

from cloud_worker import LoadError, ModelIndex, TailKey, Worker, WorkerSettings, read_folder
from cloud_worker.testing import FakeTails
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.testing import FakeEngine, FakeModel
from profiler.values import TensorSlot
from protocol import (
    PROTOCOL_VERSION,
    AddressError,
    Failure,
    FailureCode,
    Goodbye,
    Limits,
    Ping,
    Pong,
    RefusalCode,
    Refuse,
    Result,
    encode_message,
)
from protocol.testing import FakeClock
from tests.cloud_worker.support import KEY, MODEL, X, arrays, doubling, hello, index, tails, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cloud_worker.support import Peer

    Connect = Callable[[str], Peer]

WAIT_S = 30.0
SECOND_KEY = TailKey.of(MODEL, ["h"], ["y"])


def make(source: FakeTails, **options: Any) -> Worker:
    return Worker(options.pop("models", index()), FakeEngine({}), tails=source, **options)


@contextmanager
def serve(source: FakeTails, **options: Any) -> Iterator[Worker]:
    """A running worker; whatever a test holds back is let go at the end."""
    with make(source, **options) as running:
        try:
            yield running
        finally:
            source.gate.set()
            source.engine.gate.set()


@pytest.fixture
def source() -> FakeTails:
    return tails()


@pytest.fixture
def worker(source: FakeTails) -> Iterator[Worker]:
    with serve(source, settings=WorkerSettings(name="w")) as running:
        yield running


@pytest.fixture
def peer(worker: Worker, connect: Connect) -> Peer:
    return connect(worker.address)


def settle(peer: Peer) -> None:
    """Everything that the worker took before has been decided when this returns."""
    assert peer.ask(Ping(peer.session, 99)) == Pong(peer.session, 99)


def failure(message: object, code: FailureCode) -> Failure:
    assert isinstance(message, Failure), message
    assert message.code is code, message
    return message


def refusal(message: object, code: RefusalCode) -> Refuse:
    assert isinstance(message, Refuse), message
    assert message.code is code, message
    return message


def result(message: object, number: int) -> Result:
    assert isinstance(message, Result), message
    assert message.number == number
    return message


class TestServing:
    def test_request_is_answered(self, peer: Peer) -> None:
        assert peer.welcome().worker == "w"
        answer = result(peer.ask(peer.request(7, deadline_ms=30_000)), 7)
        np.testing.assert_array_equal(arrays(answer.tensors)["y"], X * 2)
        assert answer.timings.queue_ms >= 0

    def test_ping_is_answered_while_a_model_runs(self, source: FakeTails, peer: Peer) -> None:
        peer.welcome()
        source.engine.gate.clear()
        peer.send(peer.request(1))
        assert source.engine.started.acquire(timeout=WAIT_S)
        settle(peer)
        source.engine.gate.set()
        result(peer.receive(), 1)

    def test_ping_is_answered_while_a_tail_is_loaded(
        self, worker: Worker, source: FakeTails, peer: Peer, connect: Connect
    ) -> None:
        peer.welcome()
        source.gate.clear()
        other = connect(worker.address)
        other.send(hello(frontier=("h",)))
        settle(peer)
        source.gate.set()
        refusal(other.receive(), RefusalCode.ILLEGAL_CUT)

    def test_models_run_and_load_on_threads_of_their_own(self, connect: Connect) -> None:
        threads: dict[str, str] = {}

        def compute(feeds: Any) -> Any:
            threads["run"] = threading.current_thread().name
            return {"y": feeds["x"]}

        class Watching(FakeTails):
            def load(self, key: TailKey) -> Any:
                threads["load"] = threading.current_thread().name
                return super().load(key)

        with serve(Watching({KEY: replace(doubling(), compute=compute)})) as worker:
            peer = connect(worker.address)
            peer.welcome()
            result(peer.ask(peer.request(1)), 1)
        assert threads == {"run": "inference", "load": "loader"}

    def test_two_agents_at_different_cuts(self, connect: Connect) -> None:
        tripled = FakeModel(
            (TensorSlot("h", "float32", (None, 4)),),
            doubling().outputs,
            lambda feeds: {"y": feeds["h"] * 3},
        )
        with serve(FakeTails({KEY: doubling(), SECOND_KEY: tripled})) as worker:
            first, second = connect(worker.address), connect(worker.address)
            first.welcome()
            second.welcome(frontier=("h",), incarnation=b"j" * 16)
            for number in range(3):
                first.send(first.request(number))
                second.send(second.request(number, tensor(X, "h")))
            for number in range(3):
                one, two = result(first.receive(), number), result(second.receive(), number)
                np.testing.assert_array_equal(arrays(one.tensors)["y"], X * 2)
                np.testing.assert_array_equal(arrays(two.tensors)["y"], X * 3)

    def test_what_arrives_before_the_start_waits(self, source: FakeTails, connect: Connect) -> None:
        worker = make(source)
        peer = connect(worker.address)
        peer.send(hello())
        with worker:
            assert peer.receive()

    def test_slow_reader_gets_everything_and_hinders_nobody(self, connect: Connect) -> None:
        big = np.random.default_rng(0).standard_normal((1, 1 << 18)).astype(np.float32)
        model = replace(doubling(), compute=lambda _feeds: {"y": big})
        settings = WorkerSettings(reply_cache_bytes=1024)
        with serve(FakeTails({KEY: model}), settings=settings) as worker:
            slow, quick = connect(worker.address), connect(worker.address)
            slow.welcome()
            quick.welcome(incarnation=b"j" * 16)
            for number in range(40):
                slow.send(slow.request(number))
            while worker.counts.get("results", 0) < 40:
                settle(quick)
            assert worker.counts["held"] > 0
            for number in range(40):
                result(slow.receive(), number)
            assert worker.counts.get("given_up", 0) == 0


class TestRefusals:
    def test_wrong_digest(self, peer: Peer) -> None:
        refusal(peer.ask(hello(model="b" * 64)), RefusalCode.UNKNOWN_MODEL)

    def test_illegal_cut(self, peer: Peer) -> None:
        refusal(peer.ask(hello(frontier=("z",))), RefusalCode.ILLEGAL_CUT)

    def test_tail_that_does_not_load(self, source: FakeTails, peer: Peer) -> None:
        source.failures[KEY] = LoadError("net: the disk is full")
        assert "disk" in refusal(peer.ask(hello()), RefusalCode.LOAD_FAILED).text
        source.failures.clear()
        peer.welcome()

    def test_fault_in_the_loader(self, source: FakeTails, peer: Peer) -> None:
        source.failures[KEY] = ZeroDivisionError("oh")  # type: ignore[assignment]
        assert "ZeroDivisionError" in refusal(peer.ask(hello()), RefusalCode.LOAD_FAILED).text
        source.failures.clear()
        peer.welcome()

    def test_other_protocol_version(self, peer: Peer) -> None:
        refusal(peer.ask(hello(protocol_version=2)), RefusalCode.VERSION_MISMATCH)
        peer.socket.send_multipart([b"\x02\x01", b"", b"", b""])
        refusal(peer.receive(), RefusalCode.VERSION_MISMATCH)

    @pytest.mark.parametrize(
        ("array", "words"),
        [(X.astype(np.int64), "int64[1, 4]"), (X.reshape(2, 2), "float32[2, 2]")],
    )
    def test_wrong_dtype_or_shape(self, peer: Peer, array: Any, words: str) -> None:
        peer.welcome()
        answer = peer.ask(peer.request(1, tensor(array)))
        assert words in failure(answer, FailureCode.BAD_TENSOR).text
        result(peer.ask(peer.request(2)), 2)

    def test_failing_model_fails_only_its_request(self, source: FakeTails, peer: Peer) -> None:
        peer.welcome()
        source.engine.fault = "out of memory\nin layer 3"
        text = failure(peer.ask(peer.request(1)), FailureCode.INFERENCE_FAILED).text
        assert text == "out of memory in layer 3"
        source.engine.fault = None
        result(peer.ask(peer.request(2)), 2)

    def test_result_that_the_wire_cannot_name(self, connect: Connect) -> None:
        deep = replace(
            doubling(), compute=lambda feeds: {"y": feeds["x"].reshape((1,) * 20 + (4,))}
        )
        with serve(FakeTails({KEY: deep})) as worker:
            peer = connect(worker.address)
            peer.welcome()
            failure(peer.ask(peer.request(1)), FailureCode.INFERENCE_FAILED)
            assert worker.counts["unsendable"] == 1


class TestRepeats:
    def test_repeat_in_flight_computes_once(self, source: FakeTails, peer: Peer) -> None:
        peer.welcome()
        source.engine.gate.clear()
        peer.send(peer.request(1))
        assert source.engine.started.acquire(timeout=WAIT_S)
        peer.send(peer.request(1))
        settle(peer)
        source.engine.gate.set()
        result(peer.receive(), 1)
        settle(peer)  # no second answer came before the pong
        assert source.engine.runs == 1

    def test_repeat_after_the_answer_is_replayed(self, source: FakeTails, peer: Peer) -> None:
        peer.welcome()
        first = result(peer.ask(peer.request(1)), 1)
        again = result(peer.ask(peer.request(1)), 1)
        assert again.timings == first.timings
        assert source.engine.runs == 1

    def test_repeat_over_a_new_connection(
        self, worker: Worker, source: FakeTails, peer: Peer, connect: Connect
    ) -> None:
        peer.welcome()
        source.engine.gate.clear()
        peer.send(peer.request(1))
        assert source.engine.started.acquire(timeout=WAIT_S)
        peer.socket.close(0)
        returned = connect(worker.address)
        returned.welcome()
        returned.send(returned.request(1))
        settle(returned)
        source.engine.gate.set()
        result(returned.receive(), 1)
        assert source.engine.runs == 1


class TestTime:
    def test_expired_request_is_not_computed(self, source: FakeTails, connect: Connect) -> None:
        clock = FakeClock()
        with serve(source, clock=clock) as worker:
            peer = connect(worker.address)
            peer.welcome()
            source.engine.gate.clear()
            peer.send(peer.request(1))
            assert source.engine.started.acquire(timeout=WAIT_S)
            peer.send(peer.request(2, deadline_ms=3000))  # lies ready at the inference thread
            peer.send(peer.request(3, deadline_ms=3000))  # waits in the queue
            settle(peer)
            clock.advance(3.0)
            peer.send(Ping(peer.session, 5))
            answers = [peer.receive() for _ in range(3)]
            assert Pong(peer.session, 5) in answers
            expired = [answer for answer in answers if isinstance(answer, Failure)]
            assert {failure(one, FailureCode.EXPIRED).number for one in expired} == {2, 3}
            source.engine.gate.set()
            result(peer.receive(), 1)
        assert source.engine.runs == 1

    def test_run_that_never_ends_is_stopped_at_its_deadline(
        self, source: FakeTails, connect: Connect
    ) -> None:
        clock = FakeClock()
        with serve(source, clock=clock) as worker:
            peer = connect(worker.address)
            peer.welcome()
            source.engine.gate.clear()
            peer.send(peer.request(1, deadline_ms=3000))
            assert source.engine.started.acquire(timeout=WAIT_S)
            clock.advance(3.0)
            peer.send(Ping(peer.session, 5))
            answers = [peer.receive(), peer.receive()]
            answers.remove(Pong(peer.session, 5))
            failure(answers[0], FailureCode.EXPIRED)
            peer.send(peer.request(2))
            assert source.engine.started.acquire(timeout=WAIT_S)  # the thread is free again
            source.engine.gate.set()
            result(peer.receive(), 2)
        assert source.engine.runs == 1

    def test_run_that_cannot_be_stopped_is_told_and_nothing_queues_behind_it(
        self, source: FakeTails, connect: Connect
    ) -> None:
        clock, lines = FakeClock(), list[str]()
        with serve(source, clock=clock, log=lines.append) as worker:
            peer = connect(worker.address)
            peer.welcome()
            source.engine.deaf = True
            source.engine.gate.clear()
            peer.send(peer.request(1, deadline_ms=3000))
            assert source.engine.started.acquire(timeout=WAIT_S)
            clock.advance(3.0)
            while worker.counts.get("failed_expired", 0) < 1:
                peer.send(Ping(peer.session, 5))
            clock.advance(2.0)
            while worker.counts.get("stuck", 0) < 1:
                peer.send(Ping(peer.session, 5))
            peer.send(peer.request(2))
            while isinstance(answer := peer.receive(), Pong) or answer.number == 1:
                continue
            failure(answer, FailureCode.BUSY)
            assert "does not stop" in lines[-1]

    def test_peer_that_vanishes_is_forgotten(self, source: FakeTails, connect: Connect) -> None:
        clock = FakeClock()
        with serve(source, clock=clock) as worker:
            gone, other = connect(worker.address), connect(worker.address)
            gone.welcome()
            other.welcome(incarnation=b"j" * 16)
            source.engine.gate.clear()
            gone.send(gone.request(1))
            assert source.engine.started.acquire(timeout=WAIT_S)
            gone.socket.close(0)
            source.engine.gate.set()
            result(other.ask(other.request(1)), 1)
            clock.advance(16.0)
            settle(other)
            clock.advance(16.0)
            for _ in range(1000):  # several messages may be handled at one reading of the clock
                settle(other)
                if "sessions_expired" in worker.counts:
                    break
            assert worker.counts["sessions_expired"] == 1
            result(other.ask(other.request(2)), 2)

    def test_loop_without_end_in_the_real_runtime(self, tmp_path: Path, connect: Connect) -> None:
        text = """<ir_version: 8, opset_import: ["": 17]>
        g (int64 trips, float[4] x) => (float[4] y) {
          one = Constant<value_int=1>()
          go = Cast<to=9>(one)
          y = Loop(trips, go, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
            d = Identity(c)
            w = Relu(v) }> }"""
        (tmp_path / "loop.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
        models = read_folder(tmp_path).models
        with Worker(models, OnnxRuntimeEngine(EngineOptions(threads=1))) as worker:
            peer = connect(worker.address)
            [entry] = models.entries()
            peer.welcome(model=entry.sha256, frontier=("trips", "x"), results=("y",))

            def ask(number: int, trips: int) -> Any:
                inputs = tensor(np.array(trips), "trips"), tensor(X.reshape(4))
                return peer.ask(peer.request(number, *inputs, deadline_ms=500))

            failure(ask(1, 2**62), FailureCode.EXPIRED)
            answer = ask(2, 3)
            while isinstance(answer, Failure):  # a slow machine may take longer than half a second
                answer = ask(2, 3)
            np.testing.assert_array_equal(arrays(answer.tensors)["y"], X.reshape(4))


class TestGarbage:
    @pytest.mark.parametrize(
        "data",
        [
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(4096),
            b"\xff" * 64 + bytes(range(256)) * 32,
            bytes.fromhex("ff00000000000000017f03004e554c4c") + bytes(64),
        ],
    )
    def test_bytes_on_the_port(self, worker: Worker, peer: Peer, data: bytes) -> None:
        peer.welcome()
        host, port = worker.address.removeprefix("tcp://").split(":")
        with socket.create_connection((host, int(port)), WAIT_S) as stranger:
            stranger.sendall(data)
            result(peer.ask(peer.request(1)), 1)
        result(peer.ask(peer.request(2)), 2)

    def test_frames_that_are_no_message(self, worker: Worker, peer: Peer, connect: Connect) -> None:
        peer.welcome()
        stranger = connect(worker.address)
        whole = [bytes(frame) for frame in encode_message(peer.request(1))]
        junk = [
            [b""],
            [b"hello"],
            [bytes((PROTOCOL_VERSION, 200)), b"", b"", b""],
            [b"\x00" * 2, b"", b"", b""],
            [b"x"] * 2000,
            whole[:2],
            [whole[0], b"?" * 16, *whole[2:]],
        ]
        for frames in junk:
            stranger.socket.send_multipart(frames)
        # Truncated in every frame, from a session: answered, since somebody waits.
        for place in (3, 4):
            frames = list(whole)
            frames[place] = frames[place][:-1]
            peer.socket.send_multipart(frames)
            failure(peer.receive(), FailureCode.BAD_TENSOR)
        result(peer.ask(peer.request(2)), 2)
        while worker.counts["unreadable"] < len(junk):
            settle(peer)

    def test_unreadable_hello_is_refused(self, peer: Peer) -> None:
        frames = [bytes(frame) for frame in encode_message(hello())]
        peer.socket.send_multipart([*frames[:3], frames[3][:-3]])
        refusal(peer.receive(), RefusalCode.BAD_HELLO)
        peer.welcome()

    def test_message_above_the_limit_is_answered(self, connect: Connect) -> None:
        limits = Limits(message_bytes=8192)
        with serve(tails(), limits=limits) as worker:
            peer = connect(worker.address)
            assert peer.welcome().max_message_bytes == 8192
            noise = np.random.default_rng(0).standard_normal((1024, 2)).astype(np.float32)
            many = [tensor(noise[:512], f"t{number}") for number in range(4)]
            failure(peer.ask(peer.request(1, *many)), FailureCode.TOO_LARGE)
            result(peer.ask(peer.request(2)), 2)

    def test_frame_above_the_limit_costs_only_its_own_connection(self, connect: Connect) -> None:
        limits = Limits(message_bytes=8192)
        with serve(tails(), limits=limits) as worker:
            peer, large = connect(worker.address), connect(worker.address)
            peer.welcome()
            large.welcome(incarnation=b"j" * 16)
            monitor = large.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            monitor.setsockopt(zmq.RCVTIMEO, 30_000)
            large.socket.send_multipart([b"x" * 10_000])
            monitor.recv_multipart()
            large.socket.disable_monitor()
            monitor.close(0)
            result(peer.ask(peer.request(1)), 1)


class TestEndlessMessages:
    def test_worker_stops_while_a_message_of_many_parts_is_thrown_away(
        self, worker: Worker, peer: Peer, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        turns: list[int] = []
        turn = worker._receiver.turn

        def stop_in_the_middle() -> Any:
            yield from turn()
            turns.append(len(worker._receiver._frames))
            if len(turns) == 3:
                worker.stop()

        monkeypatch.setattr(worker._receiver, "turn", stop_in_the_middle)
        stranger = connect(worker.address)
        stranger.socket.send_multipart([b""] * 100_000)
        worker.join()
        assert 3 <= len(turns) < 10

    def test_largest_frame_is_the_largest_message_that_can_be_accepted(
        self, source: FakeTails, connect: Connect
    ) -> None:
        settings = WorkerSettings(credit_bytes=1 << 20)
        with serve(source, settings=settings) as worker:
            assert worker._socket.maxmsgsize == 1 << 20
            welcome = connect(worker.address).welcome()
            assert (welcome.max_message_bytes, welcome.max_tensor_bytes) == (1 << 20, 1 << 20)

    def test_hello_fits_however_little_credit_there_is(
        self, source: FakeTails, connect: Connect
    ) -> None:
        with serve(source, settings=WorkerSettings(credit_bytes=1)) as worker:
            assert worker._socket.maxmsgsize == Limits().header_bytes
            assert connect(worker.address).welcome().max_message_bytes == 1

    def test_request_that_decodes_to_more_than_a_message_is_refused(
        self, source: FakeTails, connect: Connect
    ) -> None:
        with serve(source, settings=WorkerSettings(credit_bytes=1 << 20)) as worker:
            peer = connect(worker.address)
            peer.welcome()
            zeros = [tensor(np.zeros(1 << 17, np.float32), f"t{n}") for n in range(3)]
            answer = failure(peer.ask(peer.request(1, *zeros)), FailureCode.TOO_LARGE)
            assert "once decoded" in answer.text


class TestStopping:
    def test_accepted_work_is_finished_and_sessions_hear_goodbye(
        self, source: FakeTails, connect: Connect
    ) -> None:
        with serve(source) as worker:
            peer, idle = connect(worker.address), connect(worker.address)
            peer.welcome()
            idle.welcome(incarnation=b"j" * 16)
            source.engine.gate.clear()
            for number in (1, 2, 3):
                peer.send(peer.request(number))
            assert source.engine.started.acquire(timeout=WAIT_S)
            settle(peer)
            worker.stop()
            for _ in range(100):  # stopping begins with the worker's next turn, not at once
                answer = connect(worker.address).ask(hello())
                if isinstance(answer, Refuse):
                    break
            refusal(answer, RefusalCode.DRAINING)
            failure(peer.ask(peer.request(4)), FailureCode.DRAINING)
            source.engine.gate.set()
            for number in (1, 2, 3):
                result(peer.receive(), number)
            assert isinstance(peer.receive(), Goodbye)
            assert isinstance(idle.receive(), Goodbye)
            worker.join()
        assert source.closed
        assert {thread.name for thread in threading.enumerate()}.isdisjoint(
            {"worker", "inference", "loader"}
        )

    def test_model_that_never_ends_does_not_keep_the_worker(
        self, source: FakeTails, connect: Connect
    ) -> None:
        with serve(source, settings=WorkerSettings(drain_ms=1)) as worker:
            peer = connect(worker.address)
            peer.welcome()
            source.engine.gate.clear()
            peer.send(peer.request(1))
            assert source.engine.started.acquire(timeout=WAIT_S)
            worker.stop()
            failure(peer.receive(), FailureCode.DRAINING)
            assert isinstance(peer.receive(), Goodbye)
            worker.join()
            for thread in threading.enumerate():  # the run was stopped
                if thread.name == "inference":
                    thread.join(WAIT_S)
                    assert not thread.is_alive()

    def test_stopping_twice_is_harmless(self, worker: Worker) -> None:
        worker.stop()
        worker.join()
        worker.stop()

    def test_address_is_free_again(self, source: FakeTails) -> None:
        with serve(source) as worker:
            address = worker.address
            with pytest.raises(AddressError, match="in use"):
                make(source, bind=address)
        with serve(source, bind=address):
            pass

    def test_fault_of_the_worker_is_seen_where_it_is_joined(
        self, source: FakeTails, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = make(source)

        def fail(*_arguments: object) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(worker._core, "handle", fail)
        worker.start()
        connect(worker.address).send(hello())
        with pytest.raises(ZeroDivisionError, match="a bug"):
            worker.join()


def test_worker_without_models_refuses_everything(connect: Connect) -> None:
    with serve(tails(), models=ModelIndex([])) as worker:
        text = refusal(connect(worker.address).ask(hello()), RefusalCode.UNKNOWN_MODEL).text
        assert "serves none" in text
