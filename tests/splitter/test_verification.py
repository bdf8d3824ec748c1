"""A plan that rests on timings of the models of its cuts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from profiler.engine import Engine, EngineOptions, OnnxRuntimeEngine, Session
from profiler.timing import FineClock, Schedule
from profiler.values import TensorSlot
from splitter.cuts import Cut
from splitter.errors import CutError
from splitter.planner import make_plan
from splitter.situation import PartTimes
from splitter.verification import PartTimer, verified_plan
from tests import zoo
from tests.splitter.helpers import prepare
from tests.splitter.test_planner import toy


class Timer:
    """Says what it was told to, and remembers what it was asked."""

    def __init__(self, *answers: PartTimes, otherwise: PartTimes) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)
        self._otherwise = otherwise

    def __call__(self, cut: Cut) -> PartTimes:
        self.asked.append(cut.id)
        return self._answers.pop(0) if self._answers else self._otherwise


NOTHING = PartTimes(None, None)


def test_timings_that_confirm_the_profile_change_nothing(tmp_path: Path) -> None:
    situation = toy()
    before, timer = make_plan(situation), Timer(otherwise=NOTHING)
    after = verified_plan(situation, timer, 3)
    assert after.chosen.predicted == before.chosen.predicted
    splits = [item.cut for item in before.candidates if item.decision == "split"]
    assert timer.asked == splits[:3]
    assert after.chosen.verified


def test_a_leader_that_turns_out_slow_loses(tmp_path: Path) -> None:
    situation = toy()
    before = make_plan(situation)
    assert before.best_split is not None
    timer = Timer(PartTimes(1e6, 1e6), otherwise=NOTHING)
    after = verified_plan(situation, timer, 2)
    assert after.best_split is not None
    assert after.best_split.predicted.latency_ms < 1e6
    assert timer.asked == [before.best_split.cut, after.best_split.cut]
    slow = next(item for item in after.candidates if item.cut == before.best_split.cut)
    assert slow.predicted.device_ms + slow.predicted.cloud_ms == 2e6


def test_no_more_is_timed_than_there_is(tmp_path: Path) -> None:
    situation, timer = toy(), Timer(otherwise=NOTHING)
    plan = verified_plan(situation, timer, 1000)
    assert all(item.verified for item in plan.candidates)
    assert len(timer.asked) == len(set(timer.asked)) < 1000


class SteppedClock(FineClock):
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class SteppedEngine:
    """Runs models for real, and lets a clock go on by what it was told of each file."""

    name, version = "stepped", "1"

    def __init__(self, clock: SteppedClock, ms_by_file: Mapping[str, float]) -> None:
        self._engine: Engine = OnnxRuntimeEngine(EngineOptions(threads=1))
        self._clock = clock
        self._ms_by_file = ms_by_file
        self.open: list[str] = []

    def load(self, path: Path) -> Session:
        self.open.append(path.name)
        return SteppedSession(self, path.name, self._engine.load(path))

    def ran(self, file: str) -> None:
        self._clock.now_s += self._ms_by_file[file] / 1e3


class SteppedSession:
    def __init__(self, engine: SteppedEngine, file: str, session: Session) -> None:
        self._engine, self._file, self._session = engine, file, session

    @property
    def inputs(self) -> tuple[TensorSlot, ...]:
        return self._session.inputs

    @property
    def outputs(self) -> tuple[TensorSlot, ...]:
        return self._session.outputs

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self._engine.ran(self._file)
        return self._session.run(feeds)

    def close(self) -> None:
        self._engine.open.remove(self._file)
        self._session.close()


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        (frozenset({"device", "cloud"}), PartTimes(8.0, 14.0)),
        (frozenset({"device"}), PartTimes(8.0, None)),
        (frozenset({"cloud"}), PartTimes(None, 14.0)),
    ],
)
def test_head_and_tail_are_timed_against_the_whole(
    sides: frozenset[Any], expected: PartTimes, tmp_path: Path
) -> None:
    model = zoo.resnet_toy()
    prepared = prepare(model.proto, model.feeds, tmp_path)
    clock = SteppedClock()
    files = {"timed_head.onnx": 4.0, "timed_tail.onnx": 7.0, prepared.stored.full.name: 10.0}
    engine = SteppedEngine(clock, files)
    timer = PartTimer(
        prepared.stored, prepared.observation, engine, 20.0, sides, Schedule(most=5), clock
    )
    before = sorted(path.name for path in prepared.stored.folder.iterdir())
    times = timer(prepared.space.cut(range(2)))
    assert (times.device_ms, times.cloud_ms) == (
        pytest.approx(expected.device_ms),
        pytest.approx(expected.cloud_ms),
    )
    assert not engine.open
    assert sorted(path.name for path in prepared.stored.folder.iterdir()) == before


def test_a_whole_mode_is_no_split(tmp_path: Path) -> None:
    model = zoo.resnet_toy()
    prepared = prepare(model.proto, model.feeds, tmp_path)
    timer = PartTimer(
        prepared.stored,
        prepared.observation,
        SteppedEngine(SteppedClock(), {}),
        20.0,
        frozenset({"device"}),
    )
    with pytest.raises(CutError, match="cloud has no head and tail to time"):
        timer(prepared.space.cut(()))
