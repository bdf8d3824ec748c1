"""Whatever the worker and the link do, each frame gets exactly one right answer in time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent import Agent, ComputedOn, Reason
from device_agent.testing import (
    Arrival,
    Incident,
    InMemoryTransport,
    ScriptedWorker,
    make_welcome,
)
from protocol import (
    Failure,
    FailureCode,
    Goodbye,
    Hello,
    Ping,
    RefusalCode,
    Refuse,
    Request,
    Result,
    message_bytes,
)
from protocol.testing import FakeClock
from tests.device_agent import toys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from device_agent import Frame
    from protocol import Message

DEADLINE_S = 2.0

FAULTS = (
    *["none"] * 4,
    "silence",
    "twice",
    "garbage",
    "garbage first",
    "disconnect",
    "disconnect for long",
    "goodbye",
    "forget",
    "wrong shape",
    "wrong number",
    "wrong session",
    "damaged",
    "own request back",
    "welcome again",
    "refuse",
    *[f"fail {code.value}" for code in FailureCode],
)


@dataclass(frozen=True)
class Step:
    """What happens to the worker's next reply, and how long it takes."""

    fault: str
    delay_s: float
    retry_after_ms: int | None


STEPS = st.builds(
    Step,
    st.sampled_from(FAULTS),
    st.sampled_from([0.0, 0.01, 0.5, 1.4, 1.5, 1.6, 3.0, 20.0]),
    st.sampled_from([None, 0, 100, 5000]),
)


class Fate:
    """Does to each reply what the next step says; after the last one all is well."""

    def __init__(self, steps: list[Step], clock: FakeClock) -> None:
        self._steps = iter(steps)
        self._clock = clock
        self.worker: ScriptedWorker

    def __call__(self, message: Message, reply: Message | None) -> list[Arrival]:
        step = next(self._steps, Step("none", 0.0, None))
        if reply is None:
            return []
        return [
            Arrival(arrival.what, arrival.after_s + step.delay_s)
            for arrival in self._arrivals(step, message, reply)
        ]

    def _arrivals(self, step: Step, message: Message, reply: Message) -> list[Arrival]:
        usual = Arrival(reply)
        if step.fault == "silence":
            return []
        if step.fault == "twice":
            return [usual, usual]
        if step.fault == "garbage":
            return [Arrival(Incident.GARBAGE)]
        if step.fault == "garbage first":
            return [Arrival(Incident.GARBAGE), usual]
        if step.fault.startswith("disconnect"):
            pause_s = 40.0 if step.fault.endswith("long") else 0.2
            return [Arrival(Incident.DISCONNECT), Arrival(Incident.CONNECT, pause_s), usual]
        if step.fault == "goodbye":
            return [Arrival(Goodbye(self.worker.welcome.session, "over")), usual]
        if step.fault == "forget":
            self.worker.forget()
            return [usual]
        if step.fault == "own request back":
            return [Arrival(message)]
        if step.fault == "welcome again":
            return [Arrival(self.worker.welcome), usual]
        if step.fault == "refuse" and isinstance(message, Hello):
            return [Arrival(Refuse(RefusalCode.BUSY, "full", step.retry_after_ms))]
        if step.fault.startswith("fail") and isinstance(message, Request | Ping):
            code = FailureCode(step.fault.split()[1])
            session, number = message.session, message.number
            return [Arrival(Failure(session, number, code, "no", step.retry_after_ms))]
        if isinstance(reply, Result):
            return [Arrival(_spoiled(reply, step.fault))]
        return [usual]


def _spoiled(result: Result, fault: str) -> Result:
    (tensor,) = result.tensors
    if fault == "wrong shape":
        spec = replace(tensor.spec, shape=(toys.WIDTH, 1))
        return replace(result, tensors=(replace(tensor, spec=spec),))
    if fault == "damaged":
        payload = bytes(tensor.payload)[:-1] + b"\x00"
        return replace(result, tensors=(replace(tensor, payload=payload),))
    if fault == "wrong number":
        return replace(result, number=result.number + 1)
    if fault == "wrong session":
        return replace(result, session=bytes([255] * 16))
    return result


@settings(max_examples=400, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=30),
    pauses_s=st.lists(st.sampled_from([0.0, 0.0, 0.1, 1.0, 5.0, 60.0]), min_size=1, max_size=25),
    credit_bytes=st.sampled_from([100, 400, 1 << 20]),
)
def test_each_frame_has_exactly_one_right_answer_in_time(
    steps: list[Step], pauses_s: list[float], credit_bytes: int
) -> None:
    clock = FakeClock()
    fate = Fate(steps, clock)
    worker = fate.worker = ScriptedWorker(toys.tail, fate, make_welcome(credit_bytes=credit_bytes))
    transport = InMemoryTransport(clock, worker)
    agent = Agent(
        toys.bundle(),
        transport=transport,
        clock=clock,
        engine=toys.engine(),
        notice=lambda _: None,
        deadline_ms=int(DEADLINE_S * 1000),
    )

    def frames() -> Iterator[Frame]:
        for frame, pause_s in zip(toys.frames(len(pauses_s)), pauses_s, strict=True):
            clock.advance(pause_s)
            yield frame

    with agent:
        answers = list(agent.answers(frames()))

    assert [answer.frame for answer in answers] == list(range(len(pauses_s)))
    for number, answer in enumerate(answers):
        for name, array in toys.expected(number).items():
            np.testing.assert_array_equal(answer.outputs[name], array)
        # Running the parts takes no time here, so only waiting can be late.
        assert answer.times.latency_ms <= DEADLINE_S * 1000 * 0.75 + 1e-6
        planned = answer.reason is Reason.PLANNED
        assert planned is (answer.computed_on is ComputedOn.CLOUD)
    sent = [message for message in transport.sent if isinstance(message, Request)]
    assert len({request.number for request in sent}) == len(sent)
    assert all(message_bytes(request) <= credit_bytes for request in sent)
    in_the_cloud = [answer for answer in answers if answer.computed_on is ComputedOn.CLOUD]
    assert len(in_the_cloud) <= agent.counters.replies <= len(sent)


@settings(max_examples=50, deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_after_all_faults_the_cloud_is_used_again(steps: list[Step]) -> None:
    clock = FakeClock()
    fate = Fate(steps, clock)
    worker = fate.worker = ScriptedWorker(toys.tail, fate)
    transport = InMemoryTransport(clock, worker)
    agent = Agent(
        toys.bundle(),
        transport=transport,
        clock=clock,
        engine=toys.engine(),
        notice=lambda _: None,
    )

    def frames() -> Iterator[Frame]:
        for frame in toys.frames(200):
            clock.advance(10.0)
            yield frame

    with agent:
        *_, last = agent.answers(frames())
    assert last.computed_on is ComputedOn.CLOUD
