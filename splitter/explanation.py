"""Why a plan is what it is: its neighbours, the rules that bind, and when it flips. Needs scipy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from splitter.optimise.min_cut import with_codecs
from splitter.optimise.problem import Placement, is_allowed, violation
from splitter.optimise.solver import TIME_LIMIT_S, solve
from splitter.planner import rank
from splitter.plans import Candidate, Plan
from splitter.problems import pose
from splitter.sensitivity import Flip, flips
from splitter.situation import Situation
from splitter.weighing import Weighing
from splitter.wishes import Rule

_NEIGHBOURS = 8
_CLOSE = 1e-6


@dataclass(frozen=True)
class Neighbour:
    """A plan that differs by one unit.

    Attributes:
        moved: The unit's last node.
        onto: The tier that it moves to.
        candidate: What the plan is then.
        values: What it is worth by each objective.
    """

    moved: str
    onto: str
    candidate: Candidate
    values: tuple[float, ...]


@dataclass(frozen=True)
class Binding:
    """What a rule costs.

    Attributes:
        rule: The rule.
        without: What the best plan would be worth by each objective without it.
        binds: Whether that is better.
    """

    rule: Rule
    without: tuple[float, ...]
    binds: bool


@dataclass(frozen=True)
class Explanation:
    """Why a plan is what it is.

    Attributes:
        values: What it is worth by each objective.
        neighbours: Plans that differ by one unit, best first.
        bindings: What each rule costs.
        flips: How far inputs must move before another plan is better; ``None`` where the objective
            is no sum, for then that is not known.
    """

    values: tuple[float, ...]
    neighbours: tuple[Neighbour, ...]
    bindings: tuple[Binding, ...]
    flips: tuple[Flip, ...] | None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "values": list(self.values),
            "neighbours": [
                {
                    "moved": each.moved,
                    "onto": each.onto,
                    "values": list(each.values),
                    **each.candidate.to_dict(),
                }
                for each in self.neighbours
            ],
            "constraints": [
                {"constraint": str(each.rule), "without": list(each.without), "binds": each.binds}
                for each in self.bindings
            ],
            "flips": None if self.flips is None else [asdict(flip) for flip in self.flips],
        }


def plan_content(plan: Plan, explanation: Explanation | None) -> dict[str, Any]:
    """Return a plan, and why it is what it is if that is known, as one JSON-ready mapping."""
    content = plan.to_dict()
    if explanation is not None:
        content["explanation"] = explanation.to_dict()
    return content


def explain(situation: Situation, plan: Plan, time_limit_s: float = TIME_LIMIT_S) -> Explanation:
    """Return why the plan is what it is; timed cuts count as their profiles say."""
    weighing = Weighing(replace(situation, timed={}))
    placement = _placement(weighing, plan.chosen)
    objectives = situation.wishes.objectives
    neighbours = sorted(_neighbours(weighing, placement), key=lambda each: each.values)
    values = rank(weighing.candidate(placement), objectives)
    return Explanation(
        values=values,
        neighbours=tuple(neighbours[:_NEIGHBOURS]),
        bindings=tuple(_bindings(weighing, values, time_limit_s)),
        flips=flips(weighing.situation, placement, time_limit_s),
    )


def _placement(weighing: Weighing, candidate: Candidate) -> Placement:
    """The placement of a candidate, each tensor in the codec that it was given."""
    tiers = np.array(candidate.tiers, dtype=np.int64)
    problem = pose(weighing, weighing.situation.wishes.rules).problems[-1]
    placement = with_codecs(tiers, problem.goal_metrics[0], problem.allowed)
    codecs = placement.codecs.copy()
    tensors = weighing.pricing.tensors
    for link, crossing in enumerate((candidate.tensors, *candidate.onward)):
        for tensor in crossing:
            number = weighing.pricing.number[tensor.name]
            codecs[link, number] = tensors.codecs[number].index(tensor.codec)
    return replace(placement, codecs=codecs)


def _neighbours(weighing: Weighing, placement: Placement) -> Iterator[Neighbour]:
    """Plans in which one unit that has a neighbour across a border is moved over it."""
    situation = weighing.situation
    posed = pose(weighing, situation.wishes.rules)
    makers, readers = weighing.flow.edges
    highest = len(situation.profiles) - 1
    for unit in range(weighing.flow.unit_count):
        now = int(placement.tiers[unit])
        needs = placement.tiers[makers[readers == unit]]
        needed = placement.tiers[readers[makers == unit]]
        lowest, most = int(needs.max(initial=0)), int(needed.min(initial=highest))
        for onto in range(lowest, most + 1):
            if abs(onto - now) != 1:
                continue
            tiers = placement.tiers.copy()
            tiers[unit] = onto
            # Where the device runs nothing, pictures may be sent as such.
            problem = posed.problems[0 if (tiers == 0).any() else -1]
            moved = with_codecs(tiers, problem.goal_metrics[0], problem.allowed)
            if is_allowed(problem, moved) and violation(problem, moved) <= _CLOSE:
                candidate = weighing.candidate(moved)
                values = rank(candidate, situation.wishes.objectives)
                name = situation.space.units[unit].name
                yield Neighbour(name, situation.tier_names[onto], candidate, values)


def _bindings(
    weighing: Weighing, values: tuple[float, ...], time_limit_s: float
) -> Iterator[Binding]:
    rules = weighing.situation.wishes.rules
    for rule in rules:
        rest = [other for other in rules if other is not rule]
        found = [solve(problem, time_limit_s) for problem in pose(weighing, rest).problems]
        best = min(item.values for item in found if item is not None)
        binds = any(
            free < kept - _CLOSE * max(1.0, abs(kept))
            for free, kept in zip(best, values, strict=True)
        )
        yield Binding(rule, best, binds)
