"""Rest a plan on the models that its cuts really make: time the short list. Needs onnx and scipy.

A profile predicts what head and tail take from the layers of the whole model. What a cut adds, such
as fusions lost at the border and changed layouts, only the cut models show.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from profiler.engine import Engine, Session
from profiler.graph.observation import Observation
from profiler.graph.weights import StoredModel
from profiler.timing import FineClock, Schedule, time_runs
from splitter.cuts import CLOUD_ONLY, DEVICE_ONLY, Cut
from splitter.errors import CutError
from splitter.extraction import Tensors, write_head, write_tail
from splitter.optimise.solver import TIME_LIMIT_S
from splitter.planner import make_plan
from splitter.plans import Plan
from splitter.situation import PartTimes, Situation

_SCHEDULE = Schedule(most=60, budget_s=2.0)


def verified_plan(
    situation: Situation,
    time_cut: Callable[[Cut], PartTimes],
    most: int,
    time_limit_s: float = TIME_LIMIT_S,
) -> Plan:
    """Return the plan of least latency after timing the splits that lead it.

    Of both whole modes the profiles already hold times. The leader is timed until the leader is one
    that was timed; then the best split and the other candidates, best first.

    Args:
        situation: What the plan is decided from.
        time_cut: Times the models of a split.
        most: How many splits to time at most.
        time_limit_s: When a solver gives up.

    Raises:
        PlanError: See :func:`splitter.planner.make_plan`.
    """
    whole = dict.fromkeys((DEVICE_ONLY, CLOUD_ONLY), PartTimes(None, None))
    situation = replace(situation, timed=whole)
    plan = make_plan(situation, time_limit_s)
    for _ in range(most):
        leading = (plan.chosen, *([plan.best_split] if plan.best_split else []), *plan.candidates)
        units = next((item.units for item in leading if not item.verified), None)
        if units is None:
            break
        cut = situation.space.cut(units)
        situation = replace(situation, timed={**situation.timed, cut.id: time_cut(cut)})
        plan = make_plan(situation, time_limit_s)
    return plan


@dataclass(frozen=True)
class PartTimer:
    """Times the models of a cut on this machine.

    Head, tail and whole model run in turn, and the whole's time in the profile is the scale: so a
    machine that slows down meanwhile does so for all of them.

    Attributes:
        stored: The model on disk; heads and tails are written into its folder.
        observation: What was seen of it.
        engine: What runs them.
        whole_ms: What the whole model takes, by the profile of this machine.
        sides: Which sides of the plan this machine is.
        schedule: How often to run.
        clock: What to time with.
    """

    stored: StoredModel
    observation: Observation
    engine: Engine
    whole_ms: float
    sides: frozenset[Literal["device", "cloud"]]
    schedule: Schedule = _SCHEDULE
    clock: FineClock = field(default_factory=FineClock)

    def __call__(self, cut: Cut) -> PartTimes:
        """Time the head and the tail of a split, as far as they would run on this machine.

        Raises:
            CutError: The cut is one of the whole modes.
            ExtractionError: A part fails the ONNX checker.
            EngineError: The runtime refuses a part.
        """
        slots = {name: tensor.slot for name, tensor in self.observation.tensors.items()}
        head = write_head(self.stored, cut, slots, "timed_head.onnx")
        tail = write_tail(self.stored, cut, slots, "timed_tail.onnx")
        if head is None or tail is None:
            raise CutError(f"{cut.id} has no head and tail to time; it is no split")
        sessions = [self.engine.load(path) for path in (self.stored.full, head, tail)]
        try:
            whole, *parts = self._medians_ms(sessions)
        finally:
            for session in sessions:
                session.close()
            head.unlink()
            tail.unlink()
        scale = self.whole_ms / whole
        device_ms, cloud_ms = (part * scale for part in parts)
        return PartTimes(
            device_ms if "device" in self.sides else None,
            cloud_ms if "cloud" in self.sides else None,
        )

    def _medians_ms(self, sessions: list[Session]) -> list[float]:
        """Medians of the whole, the head and the tail."""
        whole, *parts = sessions
        known: Tensors = {**self.observation.feeds}
        for part in parts:
            known = {**known, **part.run(_feeds(part, known))}
        times_ms: list[list[float]] = [[] for _ in parts]

        def run_parts() -> None:
            for part, times in zip(parts, times_ms, strict=True):
                before = self.clock.monotonic()
                part.run(_feeds(part, known))
                times.append((self.clock.monotonic() - before) * 1e3)

        whole_ms = time_runs(
            lambda: whole.run(_feeds(whole, known)), self.schedule, self.clock, run_parts
        )
        counted = [times[-len(whole_ms) :] for times in times_ms]
        return [statistics.median(times) for times in (whole_ms, *counted)]


def _feeds(session: Session, known: Tensors) -> Tensors:
    return {slot.name: known[slot.name] for slot in session.inputs}
