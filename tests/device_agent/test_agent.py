"""The agent against a worker in memory, on a clock that moves only when somebody waits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from device_agent import (
    Agent,
    AgentError,
    ComputedOn,
    Frame,
    LinkPolicy,
    OptionError,
    Patience,
    Reason,
    Unanswered,
)
from device_agent._decisions import REFUSAL_REMEDIES
from device_agent.testing import (
    Arrival,
    Incident,
    InMemoryTransport,
    ScriptedWorker,
    make_welcome,
)
from profiler.errors import EngineError, RejectedError
from protocol import (
    Failure,
    FailureCode,
    FrameError,
    Goodbye,
    Hello,
    Ping,
    RawCodec,
    RefusalCode,
    Refuse,
    RefusedError,
    Request,
    Result,
    Timings,
    VersionMismatchError,
    message_bytes,
)
from protocol.testing import FakeClock
from tests.device_agent import toys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from device_agent import Answer
    from profiler.testing import FakeEngine
    from protocol import Message
    from splitter.bundle import Bundle

    Script = Callable[[Message, Message | None], Iterable[Arrival]]


@dataclass
class Rig:
    """An agent, the worker that it talks to, and what it told the user."""

    agent: Agent
    worker: ScriptedWorker
    transport: InMemoryTransport
    clock: FakeClock
    engine: FakeEngine
    said: list[str] = field(default_factory=list)

    def run(self, count: int) -> list[Answer]:
        return list(self.agent.answers(toys.frames(count)))


def rig(
    script: Script | None = None,
    *,
    bundle: Bundle | None = None,
    compute: Any = toys.tail,
    engine: FakeEngine | None = None,
    connected: bool = True,
    **options: Any,
) -> Rig:
    clock = FakeClock(100.0)
    worker = ScriptedWorker(compute, script, options.pop("welcome", None))
    transport = InMemoryTransport(clock, worker)
    if not connected:
        transport.push(Arrival(Incident.DISCONNECT))
    said: list[str] = []
    engine = engine or toys.engine()
    agent = Agent(
        bundle or toys.bundle(),
        worker="tcp://worker:1",
        transport=transport,
        clock=clock,
        engine=engine,
        notice=said.append,
        **options,
    )
    return Rig(agent, worker, transport, clock, engine, said)


def check(answers: Iterable[Answer]) -> None:
    """Exactly one right answer for each frame, whoever computed it."""
    for number, answer in enumerate(answers):
        assert answer.frame == number
        assert list(answer.outputs) == ["y", "side"]
        for name, array in toys.expected(number).items():
            np.testing.assert_array_equal(answer.outputs[name], array)


def where(answers: Iterable[Answer]) -> list[tuple[str, str]]:
    return [(answer.computed_on.value, answer.reason.value) for answer in answers]


CLOUD = ("cloud", "planned")
PATIENT = LinkPolicy(hello_timeout_s=10.0)


class TestInTheCloud:
    def test_every_frame_is_answered_by_the_worker(self) -> None:
        it = rig()
        with it.agent:
            answers = it.run(5)
        check(answers)
        assert where(answers) == [CLOUD] * 5
        assert it.said == []
        assert [path.name for path in it.engine.loaded] == ["head", "tail"]

    def test_hello_says_what_will_come(self) -> None:
        it = rig()
        with it.agent:
            pass
        hello = it.transport.sent[0]
        assert isinstance(hello, Hello)
        assert hello.model == "ab" * 32
        assert hello.cut == "middle"
        assert hello.frontier == ("middle",)
        assert hello.results == ("y",)
        assert hello.codecs == ("raw",)
        assert hello.preprocess is None

    def test_two_agents_have_different_incarnations(self) -> None:
        hellos = []
        for _ in range(2):
            it = rig()
            with it.agent:
                hellos.append(it.transport.sent[0])
        assert hellos[0] != hellos[1]

    def test_cloud_only_loads_what_finishes_a_frame_here(self) -> None:
        it = rig(cut="cloud", compute=toys.full)
        with it.agent:
            answers = it.run(2)
        check(answers)
        assert where(answers) == [CLOUD] * 2
        assert [path.name for path in it.engine.loaded] == ["full"]

    def test_says_goodbye_and_closes(self) -> None:
        it = rig()
        with it.agent:
            it.run(1)
        assert isinstance(it.transport.sent[-1], Goodbye)
        assert it.transport.closed
        it.agent.close()

    def test_the_request_carries_the_time_that_is_left(self) -> None:
        it = rig(deadline_ms=1000)
        with it.agent:
            it.run(1)
        (request,) = requests(it)
        assert request.deadline_ms == 750

    def test_bytes_both_ways_are_told(self) -> None:
        it = rig()
        with it.agent:
            (answer,) = it.run(1)
        (request,) = requests(it)
        assert answer.uplink_bytes == message_bytes(request)
        assert answer.downlink_bytes > 0

    def test_the_time_is_told_apart(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(reply, Result):
                it.clock.advance(0.0)
                timings = Timings(queue_ms=1.0, decode_ms=2.0, inference_ms=30.0, encode_ms=3.0)
                return [Arrival(replace(reply, timings=timings), after_s=0.1)]
            return usual(reply)

        it = rig(script)
        with it.agent:
            (answer,) = it.run(1)
        times = answer.times
        assert times.latency_ms == pytest.approx(100.0)
        assert times.network_ms == pytest.approx(64.0)
        assert (times.queue_ms, times.decode_ms) == (1.0, 2.0)
        assert (times.cloud_ms, times.cloud_encode_ms) == (30.0, 3.0)
        assert times.overhead_ms == pytest.approx(0.0)

    def test_a_worker_that_claims_more_time_than_passed_is_not_believed(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(reply, Result):
                return [Arrival(replace(reply, timings=Timings(0, 0, 1e9, 0)), after_s=0.1)]
            return usual(reply)

        it = rig(script)
        with it.agent:
            (answer,) = it.run(1)
        assert answer.times.network_ms == pytest.approx(100.0)
        assert answer.times.cloud_ms == 0.0


class TestOnTheDevice:
    def test_the_cut_device_needs_no_worker(self) -> None:
        engine = toys.engine()
        with Agent(toys.bundle(), cut="device", engine=engine) as agent:
            answers = list(agent.answers(toys.frames(3)))
        check(answers)
        assert where(answers) == [("device", "planned")] * 3
        assert [path.name for path in engine.loaded] == ["full"]
        assert all(answer.uplink_bytes == 0 for answer in answers)

    def test_without_a_worker_frames_are_answered_here(self) -> None:
        it = rig(connected=False)
        with it.agent:
            started_s = it.clock.monotonic()
            assert started_s == pytest.approx(101.5)  # no longer than any frame may wait
            answers = it.run(3)
        check(answers)
        assert where(answers) == [("device", "no_session")] * 3
        assert it.said == ["no answer from tcp://worker:1; answering on the device"]
        assert it.clock.monotonic() == started_s

    def test_a_worker_that_never_answers_is_waited_for_once(self) -> None:
        it = rig(silent)
        with it.agent:
            assert it.clock.monotonic() == 101.5
            answers = it.run(3)
            assert it.clock.monotonic() == 101.5
        assert where(answers) == [("device", "no_session")] * 3
        assert it.said == ["no answer from tcp://worker:1; answering on the device"]

    @pytest.mark.parametrize("deadline_ms", [100, 400, 2000])
    @pytest.mark.parametrize("connected", [True, False])
    def test_the_greeting_takes_no_more_of_a_frames_time_than_any_worker_may(
        self, deadline_ms: int, connected: bool
    ) -> None:
        it = rig(silent, connected=connected, deadline_ms=deadline_ms)
        with it.agent:
            waited_ms = (it.clock.monotonic() - 100) * 1000
        assert waited_ms == pytest.approx(deadline_ms * 0.75)

    def test_a_worker_that_takes_its_time_to_load_is_joined_when_it_has(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            delay_s = 4.0 if isinstance(message, Hello) else 0.0
            return [] if reply is None else [Arrival(reply, delay_s)]

        it = rig(script)
        with it.agent:
            answers = it.run(1)
            it.clock.advance(4.0)
            answers += it.run(1)
        assert where(answers) == [("device", "no_session"), CLOUD]

    def test_whoever_wants_to_wait_for_the_worker_says_so(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            delay_s = 7.0 if isinstance(message, Hello) else 0.0
            return [] if reply is None else [Arrival(reply, delay_s)]

        it = rig(script, patience=Patience(connect_s=2.0, welcome_s=10.0), link_policy=PATIENT)
        with it.agent:
            assert where(it.run(1)) == [CLOUD]
        assert it.said == []

    def test_cloud_only_falls_back_to_the_whole_model(self) -> None:
        it = rig(cut="cloud", connected=False)
        with it.agent:
            answers = it.run(2)
        check(answers)
        assert [path.name for path in it.engine.loaded] == ["full"]

    def test_a_frame_that_the_whole_model_cannot_take_does_not_end_the_run(self) -> None:
        it = rig(connected=False)
        wrong = Frame({"x": np.zeros((1, 3), np.float32)}, "wrong.npy")
        failed: list[Unanswered] = []
        with it.agent:
            given = [*toys.frames(1), wrong, *toys.frames(1)]
            answers = list(it.agent.answers(given, failed.append))
        assert [answer.frame for answer in answers] == [0, 2]
        assert it.agent.unanswered == 1
        (one,) = failed
        assert (one.frame, one.source) == (1, "wrong.npy")
        assert one.error.startswith("input 'x' is float32 [1, 3]; it wants")
        assert it.said[-1] == f"frame 1 (wrong.npy): {one.error}; no answer"

    def test_a_frame_that_lacks_an_input_is_named(self) -> None:
        it = rig(connected=False)
        with it.agent:
            assert list(it.agent.answers([Frame({})])) == []
        assert "input 'x' (float32 [1, 8]) is missing" in it.said[-1]

    @pytest.mark.parametrize("cut", ["middle", "device", "cloud"])
    def test_a_runtime_that_fails_for_one_frame_is_named_and_asked_again(self, cut: str) -> None:
        it = rig(connected=False, cut=cut)
        with it.agent:
            it.engine.fault = "out of memory"
            assert it.run(1) == []
            it.engine.fault = None
            check(it.run(1))
        assert "out of memory" in it.said[-1]

    def test_a_frame_that_the_model_rejects_is_tried_once_more_by_the_whole_model(self) -> None:
        it = rig(failing(FailureCode.REJECTED))
        tried: list[str] = []

        def reject(part: str) -> Any:
            def compute(_: Any) -> Any:
                tried.append(part)
                raise RejectedError("the model cannot take these values: Gather: index 9")

            return compute

        failed: list[Unanswered] = []
        with it.agent:
            for part in ("tail", "full"):
                model = it.engine._models[part]
                it.engine._models[part] = replace(model, compute=reject(part))
            it.agent._parts.close()  # load the parts that reject
            assert list(it.agent.answers(toys.frames(1), failed.append)) == []
        assert tried == ["full"]
        assert [one.error for one in failed] == [
            "the model cannot take these values: Gather: index 9"
        ]
        assert len(requests(it)) == 1


class TestFramesThatDoNotFitTheParts:
    """The parts are made for the shapes of the plan; the whole model takes more."""

    def rig(self, part: str, script: Script | None = None, **options: Any) -> Rig:
        it = rig(script, **options)
        usual = it.engine._models[part]
        wide = {"head": toys.X, "tail": toys.MIDDLE}[part]
        narrow = replace(wide, shape=(1, toys.WIDTH + 1))
        it.engine._models[part] = replace(usual, inputs=(narrow,))
        return it

    @pytest.mark.parametrize("script", [None, "silent"])
    def test_a_head_that_refuses(self, script: str | None) -> None:
        it = self.rig("head", silent if script else None)
        with it.agent:
            answers = it.run(3)
        check(answers)
        assert where(answers) == [("device", "misfit")] * 3
        assert requests(it) == []
        assert [path.name for path in it.engine.loaded] == ["head", "tail", "full"]
        assert sum("a frame does not fit head (input 'x' is" in line for line in it.said) == 1

    def test_a_tail_that_refuses_what_the_worker_does_not_answer(self) -> None:
        it = self.rig("tail", silent_from(1))
        with it.agent:
            answers = it.run(3)
        check(answers)
        assert where(answers) == [("device", "late"), *[("device", "overdue")] * 2]
        assert sum("a frame does not fit tail" in line for line in it.said) == 1

    def test_a_tail_that_refuses_where_the_workers_results_do_not_fit(self) -> None:
        it = self.rig("tail", compute=lambda _: {"y": np.zeros((1, 9), np.float32)})
        with it.agent:
            answers = it.run(2)
        check(answers)
        assert where(answers) == [("device", "misfit")] * 2

    def test_what_crosses_in_another_shape_than_planned_is_not_sent(self) -> None:
        middle = toys.bundle().cuts["middle"]
        narrow = replace(middle.frontier[0], slot=replace(toys.MIDDLE, shape=(1, 5)))
        cuts = {**toys.bundle().cuts, "middle": replace(middle, frontier=(narrow,))}
        it = rig(bundle=toys.bundle(cuts=cuts))
        with it.agent:
            answers = it.run(2)
            assert it.agent.counters.losses == 0
        check(answers)
        assert where(answers) == [("device", "misfit")] * 2
        assert requests(it) == []
        (line,) = it.said
        assert "'middle' is float32 [1, 8], but the plan has float32 [1, 5]" in line

    def test_a_dtype_that_the_wire_lacks_is_answered_here(self) -> None:
        middle = toys.bundle().cuts["middle"]
        slot = replace(toys.MIDDLE, dtype="complex64")
        cuts = {"middle": replace(middle, frontier=(replace(middle.frontier[0], slot=slot),))}
        it = rig(bundle=toys.bundle(cuts=cuts))
        head, tail = it.engine._models["head"], it.engine._models["tail"]
        it.engine._models["head"] = replace(
            head,
            compute=lambda feeds: {
                **toys.head(feeds),
                "middle": toys.head(feeds)["middle"].astype(np.complex64),
            },
        )
        it.engine._models["tail"] = replace(
            tail,
            inputs=(slot,),
            compute=lambda feeds: toys.tail({"middle": feeds["middle"].real}),
        )
        with it.agent:
            answers = it.run(1)
        check(answers)
        assert where(answers) == [("device", "misfit")]

    def test_a_bundle_whose_parts_are_not_those_it_names_is_an_error(self) -> None:
        middle = toys.bundle().cuts["middle"]
        slot = replace(toys.MIDDLE, name="muddle")
        cuts = {"middle": replace(middle, frontier=(replace(middle.frontier[0], slot=slot),))}
        with (
            pytest.raises(AgentError, match="wants 'muddle', which head does not make"),
            rig(bundle=toys.bundle(cuts=cuts)).agent,
        ):
            pass


class TestRehearsal:
    def slow(self, part: str, seconds: float, deadline_ms: int) -> Rig:
        it = rig(silent_from(1), deadline_ms=deadline_ms)
        usual = it.engine._models[part]

        def compute(feeds: toys.Arrays) -> dict[str, Any]:
            it.clock.advance(seconds)
            return usual.compute(feeds)

        it.engine._models[part] = replace(usual, compute=compute)
        return it

    def test_the_first_frame_keeps_time_for_a_slow_finish(self) -> None:
        it = self.slow("tail", 0.8, 2000)
        with it.agent:
            (answer,) = it.run(1)
        assert where([answer]) == [("device", "late")]
        assert answer.times.latency_ms == pytest.approx(1800.0)
        assert not answer.deadline_missed
        assert it.said == []

    def test_a_deadline_that_leaves_the_worker_too_little_is_named(self) -> None:
        it = self.slow("tail", 1.5, 2000)
        with it.agent:
            pass
        (line,) = it.said
        assert line.startswith("of the deadline of 2000 ms this device needs 0 ms for its part")
        assert line.endswith("give a longer --deadline-ms")

    def test_where_only_the_worker_can_keep_the_deadline_it_is_asked(self) -> None:
        it = self.slow("tail", 5.0, 2000)
        with it.agent:
            (answer,) = it.run(1)
        assert len(requests(it)) == 1
        assert answer.deadline_missed

    def test_a_synthetic_frame_that_will_not_run_is_no_error(self) -> None:
        it = rig(bundle=toys.bundle(planned_inputs=(replace(toys.X, shape=(1, 3)),)))
        with it.agent:
            answers = it.run(2)
        check(answers)
        assert where(answers) == [CLOUD] * 2
        assert it.said == []


class TestFallingBack:
    def test_an_answer_that_does_not_come_costs_three_quarters_of_the_deadline_once(self) -> None:
        it = rig(silent_from(2))
        with it.agent:
            answers = it.run(5)
            assert it.clock.monotonic() == 101.5
        check(answers)
        assert where(answers) == [CLOUD, ("device", "late"), *[("device", "overdue")] * 3]
        assert answers[1].times.latency_ms == pytest.approx(1500.0)
        assert answers[1].times.wait_ms == pytest.approx(1500.0)
        assert answers[1].uplink_bytes > 0
        assert answers[2].uplink_bytes == 0

    def test_the_tail_is_finished_from_the_cut(self) -> None:
        it = rig(silent_from(1))
        with it.agent:
            check(it.run(3))
        assert [path.name for path in it.engine.loaded] == ["head", "tail"]
        assert it.engine.runs == 8  # the first two measure what a finish takes

    def test_a_late_reply_is_counted_and_the_cloud_is_used_again(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            late = isinstance(message, Request) and len(requests(it)) == 1
            return [] if reply is None else [Arrival(reply, after_s=3.0 if late else 0.0)]

        it = rig(script)
        with it.agent:
            answers = it.run(2)
            it.clock.advance(5.0)
            answers += it.agent.answers(toys.frames(2))
        assert where(answers) == [("device", "late"), ("device", "overdue"), CLOUD, CLOUD]
        assert it.agent.counters.late == 1
        assert it.agent.counters.duplicates == 0

    def test_duplicated_replies_are_counted_and_answer_nothing_else(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            return [Arrival(reply)] * 3 if reply is not None else []

        it = rig(script)
        with it.agent:
            answers = it.run(4)
            check(answers)
        assert where(answers) == [CLOUD] * 4
        assert it.agent.counters.duplicates == 6  # those of the last frame were never looked at

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            (FailureCode.BUSY, Reason.BUSY),
            (FailureCode.DRAINING, Reason.BUSY),
            (FailureCode.EXPIRED, Reason.LATE),
            (FailureCode.INFERENCE_FAILED, Reason.WORKER_FAILED),
            (FailureCode.BAD_TENSOR, Reason.WORKER_FAILED),
            (FailureCode.REJECTED, Reason.REJECTED),
            (FailureCode.OVER_CREDIT, Reason.NO_CREDIT),
            (FailureCode.TOO_LARGE, Reason.TOO_LARGE),
        ],
    )
    def test_a_failure_is_finished_here_and_explained_once(
        self, code: FailureCode, reason: Reason
    ) -> None:
        it = rig(failing(code))
        with it.agent:
            answers = it.run(1)
            answers += it.agent.answers(toys.frames(1))
        check(answers[:1])
        assert answers[0].computed_on is ComputedOn.DEVICE
        assert answers[0].reason is reason
        assert it.said[0].startswith("tcp://worker:1: so it is; answering on the device (")
        assert len([line for line in it.said if "so it is" in line]) == 1

    def test_a_busy_worker_is_not_asked_before_the_time_that_it_names(self) -> None:
        it = rig(failing(FailureCode.BUSY, retry_after_ms=500))
        with it.agent:
            answers = it.run(3)
            assert len(requests(it)) == 1
            it.clock.advance(0.5)
            answers += it.agent.answers(toys.frames(1))
        assert where(answers) == [("device", "busy")] * 4
        assert len(requests(it)) == 2

    def test_a_forgotten_session_is_renewed_and_the_frame_sent_again(self) -> None:
        it = rig()
        with it.agent:
            answers = it.run(1)
            it.worker.forget()
            answers += it.agent.answers(toys.frames(2))
        assert where(answers) == [CLOUD] * 3
        assert it.agent.counters.sessions == 2
        assert len(requests(it)) == 4

    def test_a_worker_that_forgets_every_session_is_not_chased(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(message, Request) and len(requests(it)) > 1:
                it.worker.forget()
                reply = unknown_session(message)
            return usual(reply)

        it = rig(script)
        with it.agent:
            answers = it.run(5)
        check(answers)
        assert where(answers)[:2] == [CLOUD, ("device", "link_lost")]
        assert where(answers)[2:] == [("device", "no_session")] * 3
        assert len(requests(it)) == 3

    def test_a_session_forgotten_while_the_worker_does_not_greet_is_finished_in_time(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(message, Hello) and requests(it):
                return []
            return usual(reply)

        it = rig(script)
        with it.agent:
            it.run(1)
            it.worker.forget()
            started_s = it.clock.monotonic()
            (answer,) = it.agent.answers(toys.frames(1))
            assert it.clock.monotonic() == started_s + 1.5
        assert where([answer]) == [("device", "link_lost")]

    @pytest.mark.parametrize("incident", [Incident.DISCONNECT, Incident.GARBAGE])
    def test_a_link_lost_mid_request_is_noticed_at_once(self, incident: Incident) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(message, Request):
                return [Arrival(incident, after_s=0.2)]
            return usual(reply)

        it = rig(script)
        with it.agent:
            answers = it.run(2)
            assert it.clock.monotonic() == pytest.approx(100.2)
        check(answers)
        reason = "link_lost" if incident is Incident.DISCONNECT else "bad_reply"
        assert where(answers) == [("device", reason), ("device", "no_session")]

    def test_a_goodbye_mid_request(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(message, Request):
                return [Arrival(Goodbye(message.session, "the worker stops"))]
            return usual(reply)

        it = rig(script)
        with it.agent:
            assert where(it.run(1)) == [("device", "link_lost")]

    def test_rejoins_by_itself_and_says_so(self) -> None:
        it = rig()
        with it.agent:
            answers = it.run(1)
            it.transport.push(Arrival(Incident.DISCONNECT))
            answers += it.agent.answers(toys.frames(2))
            it.transport.push(Arrival(Incident.CONNECT))
            it.clock.advance(2.0)
            answers += it.agent.answers(toys.frames(1))  # greets, and does not wait
            answers += it.agent.answers(toys.frames(2))
        assert where(answers) == [
            CLOUD,
            *[("device", "no_session")] * 3,
            *[CLOUD] * 2,
        ]
        assert it.said == [
            "the link to tcp://worker:1 is lost (disconnected); answering on the device",
            "tcp://worker:1 answers; using the cloud",
        ]

    def test_a_dead_worker_is_greeted_with_growing_pauses(self) -> None:
        it = rig(silent, link_policy=LinkPolicy(hello_timeout_s=1.0))
        with it.agent:
            for _ in range(1200):
                it.clock.advance(0.1)
                it.run(1)
        hellos = [message for message in it.transport.sent if isinstance(message, Hello)]
        assert 5 <= len(hellos) <= 12

    def test_a_silent_worker_is_given_up_and_greeted_anew(self) -> None:
        it = rig(silent_from(1))
        with it.agent:
            it.run(1)
            it.clock.advance(10.0)
            answers = it.run(1)
            assert where(answers) == [("device", "no_session")]
        assert "is lost (overdue)" in it.said[0]

    def test_pings_a_worker_that_may_not_be_sent_frames(self) -> None:
        it = rig(failing(FailureCode.BUSY, retry_after_ms=60_000))
        with it.agent:
            for _ in range(4):
                it.run(1)
                it.clock.advance(1.5)
        assert sum(isinstance(message, Ping) for message in it.transport.sent) == 2

    def test_a_flood_of_messages_does_not_keep_frames_waiting(self) -> None:
        it = rig()
        with it.agent:
            for _ in range(1000):
                it.transport.push(Arrival(it.worker.welcome))
            check(it.run(2))

    def test_no_time_left_after_the_head_means_nothing_is_sent(self) -> None:
        it = rig()

        def slow_head(feeds: toys.Arrays) -> dict[str, Any]:
            it.clock.advance(1.6)
            return toys.head(feeds)

        it.engine._models["head"] = replace(it.engine._models["head"], compute=slow_head)
        with it.agent:
            answers = it.run(2)
        check(answers)
        assert where(answers) == [("device", "late")] * 2
        assert requests(it) == []


class TestResultsThatDoNotFit:
    @pytest.mark.parametrize(
        "results",
        [
            {"y": np.zeros((1, 8), np.float64)},
            {"z": np.zeros((1, 8), np.float32)},
            {"y": np.zeros((1, 8), np.float32), "z": np.zeros(1, np.float32)},
            {},
        ],
    )
    def test_are_not_used_and_end_the_session(self, results: dict[str, Any]) -> None:
        it = rig(compute=lambda _: results)
        with it.agent:
            answers = it.run(3)
        check(answers)
        assert where(answers) == [("device", "bad_reply"), *[("device", "no_session")] * 2]
        assert "tcp://worker:1: the worker sent" in it.said[0]

    def test_another_shape_is_the_frames_and_not_the_workers_fault(self) -> None:
        it = rig(compute=lambda _: {"y": np.zeros((1, 9), np.float32)})
        with it.agent:
            answers = it.run(3)
        check(answers)
        assert where(answers) == [("device", "misfit")] * 3
        assert "it sent 'y' as float32 [1, 9], but the plan has float32 [1, 8]" in it.said[0]

    @pytest.mark.parametrize("change", ["name", "dtype", "shape", "twice"])
    def test_what_is_not_declared_is_not_decoded(
        self, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(reply, Result):
                (tensor,) = reply.tensors
                changes = {"name": "z", "dtype": "float64", "shape": (8, 1)}
                if change == "twice":
                    return usual(replace(reply, tensors=(tensor, tensor)))
                spec = replace(tensor.spec, **{change: changes[change]})
                return usual(replace(reply, tensors=(replace(tensor, spec=spec),)))
            return usual(reply)

        def decode(*_: object) -> None:
            raise AssertionError("decoded")

        monkeypatch.setattr("device_agent._remote.decode_tensor", decode)
        it = rig(script)
        with it.agent:
            answers = it.run(1)
        check(answers)
        assert where(answers) == [("device", "misfit" if change == "shape" else "bad_reply")]

    def test_a_declared_scalar_takes_no_other_rank(self) -> None:
        middle = toys.bundle().cuts["middle"]
        scalar = replace(middle, results=(replace(toys.Y, shape=()),))
        it = rig(bundle=toys.bundle(cuts={"middle": scalar}))
        with it.agent:
            assert where(it.run(1)) == [("device", "misfit")]

    def test_a_damaged_payload(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(reply, Result):
                (tensor,) = reply.tensors
                broken = bytearray(tensor.payload)
                broken[-1] ^= 1
                reply = replace(reply, tensors=(replace(tensor, payload=bytes(broken)),))
            return usual(reply)

        it = rig(script)
        with it.agent:
            answers = it.run(1)
        check(answers)
        assert where(answers) == [("device", "bad_reply")]

    def test_a_result_above_our_limits_is_not_decoded(self) -> None:
        def script(message: Message, reply: Message | None) -> list[Arrival]:
            if isinstance(reply, Result):
                (tensor,) = reply.tensors
                huge = replace(tensor, spec=replace(tensor.spec, shape=(1 << 20, 1 << 20)))
                reply = replace(reply, tensors=(huge,))
            return usual(reply)

        middle = toys.bundle().cuts["middle"]
        free = replace(middle, results=(replace(toys.Y, shape=(None, None)),))
        it = rig(script, bundle=toys.bundle(cuts={"middle": free}))
        with it.agent:
            answers = it.run(1)
        check(answers)
        assert where(answers) == [("device", "bad_reply")]


class TestTerms:
    def test_a_frame_above_the_workers_limit_is_not_sent(self) -> None:
        it = rig(welcome=make_welcome(max_message_bytes=64))
        with it.agent:
            answers = it.run(2)
        check(answers)
        assert where(answers) == [("device", "too_large")] * 2
        assert requests(it) == []

    def test_a_frame_above_the_credit_is_not_sent(self) -> None:
        it = rig(welcome=make_welcome(credit_bytes=64))
        with it.agent:
            answers = it.run(2)
        check(answers)
        assert where(answers) == [("device", "no_credit")] * 2
        (line,) = it.said
        assert line.startswith("tcp://worker:1: a frame has more bytes than it grants; ")

    def test_the_planned_codec_is_used_and_raw_offered_beside_it(self) -> None:
        middle = toys.bundle().cuts["middle"]
        coded = replace(middle, frontier=(replace(middle.frontier[0], codec="affine8"),))
        cuts = {**toys.bundle().cuts, "middle": coded}
        it = rig(bundle=toys.bundle(cuts=cuts), welcome=make_welcome(codecs=("raw",)))
        with it.agent:
            answers = it.run(2)
        assert where(answers) == [CLOUD] * 2
        assert [request.tensors[0].codec.name for request in requests(it)] == ["affine8"] * 2
        hello = it.transport.sent[0]
        assert isinstance(hello, Hello)
        assert hello.codecs == ("affine8", "raw")

    def test_values_that_the_codec_cannot_carry_go_raw(self) -> None:
        middle = toys.bundle().cuts["middle"]
        coded = replace(middle, frontier=(replace(middle.frontier[0], codec="affine8"),))
        it = rig(bundle=toys.bundle(cuts={"middle": coded}))
        odd = np.full((1, toys.WIDTH), np.nan, np.float32)
        with it.agent:
            (answer,) = it.agent.answers([Frame({"x": odd})])
        assert where([answer]) == [CLOUD]
        assert requests(it)[0].tensors[0].codec == RawCodec()
        assert np.isnan(answer.outputs["y"]).all()


class TestRefusals:
    @pytest.mark.parametrize("code", [code for code in RefusalCode if code.advice == "give_up"])
    def test_one_that_must_be_mended_ends_the_start(self, code: RefusalCode) -> None:
        it = rig(refusing(code))
        with pytest.raises(RefusedError) as caught, it.agent:
            pass
        text = str(caught.value)
        assert "the worker says no" in text
        assert "model toy abababababab, cut middle" in text
        assert text.endswith(REFUSAL_REMEDIES[code])
        assert it.transport.closed

    @pytest.mark.parametrize("code", [RefusalCode.BUSY, RefusalCode.DRAINING])
    def test_one_that_passes_is_waited_out_on_the_device(self, code: RefusalCode) -> None:
        it = rig(refusing(code))
        with it.agent:
            answers = it.run(2)
        check(answers)
        assert where(answers) == [("device", "busy")] * 2
        assert it.said == ["tcp://worker:1: the worker says no; answering on the device (busy)"]

    def test_one_in_the_middle_of_a_run_does_not_end_the_run(self) -> None:
        it = rig()
        with it.agent:
            it.run(1)
            it.worker._script = refusing(RefusalCode.UNKNOWN_MODEL)
            it.transport.push(Arrival(Goodbye(it.worker.welcome.session, "bye")))
            it.run(1)
            it.clock.advance(2.0)
            it.run(1)
            answers = it.run(3)
        check(answers)
        assert where(answers) == [("device", "refused")] * 3
        assert sum("the worker says no" in line for line in it.said) == 1

    def test_a_worker_of_another_protocol_version(self) -> None:
        it = rig()

        def receive(timeout_s: float) -> Message | None:
            raise VersionMismatchError("a message of protocol version 2; this side speaks 1", 2)

        it.transport.receive = receive  # type: ignore[method-assign]
        with pytest.raises(RefusedError, match=r"version_mismatch.*version 2"), it.agent:
            pass


class TestPictures:
    def frames(self) -> Iterator[Frame]:
        pixels = np.full((6, 8, 3), (200, 100, 50), np.uint8)
        yield Frame({"picture": toys.PREPROCESS.normalise(pixels)}, "a.png", pixels, 4.0)

    def run(self, frames: Iterable[Frame], **options: Any) -> tuple[Answer, Rig]:
        def compute(feeds: toys.Arrays) -> dict[str, Any]:
            picture = feeds["picture"]
            if picture.dtype == np.uint8:
                picture = toys.PREPROCESS.normalise(picture)
            return toys.mean({"picture": picture})

        it = rig(
            bundle=toys.picture_bundle(), engine=toys.picture_engine(), compute=compute, **options
        )
        with it.agent:
            (answer,) = it.agent.answers(frames)
        return answer, it

    def test_cloud_only_sends_pixels_as_jpeg_and_declares_the_preprocess(self) -> None:
        answer, it = self.run(self.frames())
        (request,) = requests(it)
        assert request.tensors[0].codec.name == "jpeg90"
        assert request.tensors[0].spec.shape == (6, 8, 3)
        hello = it.transport.sent[0]
        assert isinstance(hello, Hello)
        assert hello.preprocess == toys.PREPROCESS.to_dict()
        assert where([answer]) == [CLOUD]
        assert answer.source == "a.png"
        assert answer.times.preprocess_ms == 4.0
        (frame,) = self.frames()
        whole = toys.mean(frame.feeds)["mean"]
        np.testing.assert_allclose(answer.outputs["mean"], whole, atol=0.1)

    def test_falls_back_on_the_normalised_picture(self) -> None:
        answer, _ = self.run(self.frames(), connected=False)
        (frame,) = self.frames()
        np.testing.assert_array_equal(answer.outputs["mean"], toys.mean(frame.feeds)["mean"])

    def test_what_is_no_picture_goes_raw(self) -> None:
        (frame,) = self.frames()
        answer, it = self.run([Frame(frame.feeds)])
        (tensor,) = requests(it)[0].tensors
        assert tensor.codec == RawCodec()
        assert where([answer]) == [CLOUD]
        size = len(tensor.payload)
        why = "these frames are no pictures (a folder of them gives JPEGs)"
        assert it.said == [
            f"the plan sends 'picture' as a JPEG, but {why}; sending it raw, {size} bytes a frame"
        ]
        assert it.agent.counters.raw_pictures == 1
        assert it.agent.counters.raw_picture_bytes == size

    def test_pixels_of_another_size_are_answered_here(self) -> None:
        (frame,) = self.frames()
        flat = np.zeros((6, 8), np.uint8)
        answer, it = self.run([replace(frame, pixels=flat)])
        assert requests(it) == []
        assert where([answer]) == [("device", "misfit")]
        np.testing.assert_array_equal(answer.outputs["mean"], toys.mean(frame.feeds)["mean"])

    def test_without_pillow_pictures_go_raw(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("device_agent._remote.importlib.util.find_spec", lambda _: None)
        answer, it = self.run(self.frames())
        assert requests(it)[0].tensors[0].codec == RawCodec()
        assert where([answer]) == [CLOUD]
        hello = it.transport.sent[0]
        assert isinstance(hello, Hello)
        assert hello.codecs == ("raw",)
        assert "but Pillow is not installed (run pip install '.[images]' in" in it.said[0]


class TestOptions:
    def test_an_unknown_cut_is_named_with_those_there_are(self) -> None:
        expected = (
            r"no cut 'midle' \(did you mean 'middle'\?\); it has cloud, device, middle; "
            r"for another .* again with split-plan \.\.\. -o BUNDLE --cut ID$"
        )
        with pytest.raises(OptionError, match=expected):
            Agent(toys.bundle(), cut="midle", worker="tcp://w:1")

    def test_a_split_needs_a_worker(self) -> None:
        with pytest.raises(OptionError, match="'middle' needs a worker: give --worker"):
            Agent(toys.bundle())

    def test_what_no_hello_carries_is_an_error_before_any_worker_is_there(self) -> None:
        middle = toys.bundle().cuts["middle"]
        slot = replace(toys.MIDDLE, name="m" * 600)
        cuts = {"middle": replace(middle, frontier=(replace(middle.frontier[0], slot=slot),))}
        with pytest.raises(FrameError, match=r"frontier\[0\] has 600 characters; the range is"):
            Agent(toys.bundle(cuts=cuts), worker="tcp://w:1")

    @pytest.mark.parametrize("deadline_ms", [0, -5, 3_600_001])
    def test_a_deadline_out_of_range(self, deadline_ms: int) -> None:
        with pytest.raises(OptionError, match="give 1 to 3600000"):
            Agent(toys.bundle(), worker="tcp://w:1", deadline_ms=deadline_ms)

    def test_it_is_used_in_a_with_block(self) -> None:
        with pytest.raises(RuntimeError, match="with block"):
            list(rig().agent.answers(toys.frames(1)))

    def test_a_head_that_cannot_be_loaded_leaves_nothing_open(self) -> None:
        it = rig()
        it.engine._models.clear()
        with pytest.raises(EngineError), it.agent:
            pass
        assert it.transport.closed


def usual(reply: Message | None) -> list[Arrival]:
    return [] if reply is None else [Arrival(reply)]


def silent(message: Message, reply: Message | None) -> list[Arrival]:
    return []


def requests(it: Rig) -> list[Request]:
    return [message for message in it.transport.sent if isinstance(message, Request)]


def silent_from(first: int) -> Script:
    """Answers pings and HELLOs, and requests before the given one."""
    seen = 0

    def script(message: Message, reply: Message | None) -> list[Arrival]:
        nonlocal seen
        seen += isinstance(message, Request)
        if isinstance(message, Request) and seen >= first:
            return []
        return usual(reply)

    return script


def failing(code: FailureCode, retry_after_ms: int | None = None) -> Script:
    def script(message: Message, reply: Message | None) -> list[Arrival]:
        if isinstance(message, Request):
            reply = Failure(message.session, message.number, code, "so it is", retry_after_ms)
        return usual(reply)

    return script


def refusing(code: RefusalCode) -> Script:
    def script(message: Message, reply: Message | None) -> list[Arrival]:
        return usual(Refuse(code, "the worker says no", None))

    return script


def unknown_session(request: Request) -> Failure:
    code = FailureCode.UNKNOWN_SESSION
    return Failure(request.session, request.number, code, "say HELLO", None)
