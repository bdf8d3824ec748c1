"""Decide what runs where. A pure function of profiles, links, wishes and observation.

Needs onnx and scipy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from profiler.profile import Profile
from profiler.values import WHOLE_ONLY
from splitter.conflicts import conflict_message
from splitter.cuts import CLOUD_ONLY, DEVICE_ONLY
from splitter.errors import PlanError
from splitter.optimise.min_cut import prefix_costs, with_codecs
from splitter.optimise.problem import Placement, Problem, is_allowed, violation
from splitter.optimise.solver import TIME_LIMIT_S, Solution, solve
from splitter.planner_notes import plan_notes
from splitter.plans import Candidate, Machine, Plan, exceeded
from splitter.problems import Posed, pose
from splitter.situation import Situation
from splitter.weighing import Weighing
from splitter.wishes import Limit, Objective

_CANDIDATES = 10
_DIGITS = 9  # values that agree in so many are equally good
_SLACK = 1e-6


def make_plan(situation: Situation, time_limit_s: float = TIME_LIMIT_S) -> Plan:
    """Return the best plan by what the user wishes.

    It is exact for the profiles' costs; the other candidates are cuts between neighbours in
    topological order, and the best that runs something on both sides. What was timed counts instead
    of the profiles.

    Raises:
        PlanError: The model's inputs cannot be sent, a cost is not a cost, a wish names what there
            is not, or no plan keeps all rules.
    """
    space = situation.space
    if not space.units or not space.graph.inputs:
        raise PlanError(f"{situation.model.name} computes nothing from inputs; there is no split")
    if space.legal(frozenset()) is None:
        names = space.unsendable.intersection((*space.graph.input_names, *space.graph.outputs))
        what = f"{min(names)[:80]!r}, by its type or size" if names else "so many tensors"
        raise PlanError(f"{what}: {WHOLE_ONLY}")
    weighing = Weighing(situation)
    posed = pose(weighing, situation.wishes.rules)
    best = best_solution(posed, time_limit_s)
    if best is None:
        raise PlanError(conflict_message(weighing, time_limit_s))
    objectives = situation.wishes.objectives
    every = sorted(
        _short_list(weighing, posed, best, time_limit_s),
        key=lambda item: (bool(item.breaks), rank(item, objectives)),
    )
    found: dict[str, Candidate] = {}
    for item in every:  # a cut may be there in several codecs
        found.setdefault(item.cut, item)
    ranked = sorted(found.values(), key=lambda item: rank(item, objectives))
    kept = [item for item in ranked if not item.breaks]
    chosen = kept[0]
    return Plan(
        model=situation.model,
        objectives=objectives,
        objective=situation.wishes.objective_text,
        rules=situation.wishes.rules,
        device=_machine(situation.device),
        cloud=_machine(situation.cloud),
        link=situation.link,
        chosen=chosen,
        device_nodes=_nodes(situation, chosen, 0),
        cloud_nodes=_nodes(situation, chosen, len(situation.profiles) - 1),
        device_only=found[DEVICE_ONLY],
        cloud_only=found[CLOUD_ONLY],
        best_split=next((item for item in kept if item.decision == "split"), None),
        candidates=tuple(kept[:_CANDIDATES]),
        notes=(*situation.notes, *plan_notes(situation, ranked, chosen)),
        edges=tuple((_machine(hop.profile), hop.onward) for hop in situation.middle),
        edge_nodes=tuple(
            _nodes(situation, chosen, tier + 1) for tier in range(len(situation.middle))
        ),
        gap=best.gap,
    )


def best_solution(posed: Posed, time_limit_s: float) -> Solution | None:
    """Return the best of the problems; ``None`` where no placement keeps the rules."""
    found = [solve(problem, time_limit_s) for problem in posed.problems]
    return min(filter(None, found), key=lambda item: item.values, default=None)


def rank(candidate: Candidate, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Return what orders candidates: their values by each objective, least first."""
    values = []
    for objective in objectives:
        total = 0.0
        for name, weight in objective.weights.items():
            value = candidate.predicted.metric(name)
            total += math.inf if value is None else weight * value
        values.append(float(f"{total:.{_DIGITS}g}"))
    return tuple(values)


def _short_list(
    weighing: Weighing, posed: Posed, best: Solution, time_limit_s: float
) -> Iterator[Candidate]:
    """The two whole modes, enough of the best prefixes, the best split, and the optimum."""
    for placement in posed.baselines:
        candidate = weighing.candidate(placement)
        yield replace(candidate, breaks=tuple(_broken(weighing, placement, candidate)))
    for placement in _best_prefixes(posed.problems[0]):
        candidate = weighing.candidate(placement)
        fits = violation(posed.problems[0], placement) <= _SLACK
        if fits and not list(exceeded(weighing.situation.wishes.rules, candidate.predicted)):
            yield candidate
    split = _best_split(posed.problems[0], time_limit_s)
    if split is not None:
        yield weighing.candidate(split.placement)
    yield weighing.candidate(best.placement)


def _best_prefixes(problem: Problem) -> Iterator[Placement]:
    """The best cuts after each unit, between device and cloud, by the first goal."""
    metrics = list(problem.goal_metrics)
    last = problem.tier_count - 1
    totals = np.maximum.reduce(
        [prefix_costs(problem.flow, metric, problem.allowed, 0, last) for metric in metrics]
    )
    for end in np.argsort(totals, kind="stable")[: _CANDIDATES + 2].tolist():
        if math.isfinite(totals[end]):
            tiers = np.where(np.arange(problem.flow.unit_count) < end, 0, last)
            yield with_codecs(tiers, metrics[0], problem.allowed)


def _best_split(problem: Problem, time_limit_s: float) -> Solution | None:
    """The best placement that runs something on the device and something above it.

    Some unit that needs no other is on the device then, and some unit that no other needs is above
    it, so the best one is found by pinning each of the former, and where that pulls everything
    down, each of the latter as well.
    """
    found: list[Solution] = []
    problem = replace(problem, goals=problem.goals[:1])
    for source in problem.flow.sources.tolist():
        units = problem.allowed.units.copy()
        units[1:, source] = False
        one = replace(problem, allowed=replace(problem.allowed, units=units))
        solution = solve(one, time_limit_s)
        if solution is None:
            continue
        if solution.placement.tiers.max() > 0:
            found.append(solution)
            continue
        for sink in problem.flow.sinks.tolist():
            pinned = units.copy()
            pinned[0, sink] = False
            both = replace(problem, allowed=replace(problem.allowed, units=pinned))
            solution = solve(both, time_limit_s)
            if solution is not None:
                found.append(solution)
    return min(found, key=lambda item: item.values, default=None)


def _broken(weighing: Weighing, placement: Placement, candidate: Candidate) -> Iterator[str]:
    """The rules that a baseline breaks."""
    for rule in weighing.situation.wishes.rules:
        if isinstance(rule, Limit):
            continue
        (problem, *_) = pose(weighing, [rule]).problems
        if not is_allowed(problem, without_picture(weighing, placement)):
            yield str(rule)
    if math.isinf(weighing.queue.wait_ms(candidate.predicted.cloud_ms)):
        frames = weighing.situation.wishes.load.frames_per_worker_s
        yield f"the load: a worker cannot keep up with {frames:g} such frames a second"
    yield from map(str, exceeded(weighing.situation.wishes.rules, candidate.predicted))


def without_picture(weighing: Weighing, placement: Placement) -> Placement:
    """Return a placement in which the picture travels as a tensor."""
    picture = weighing.picture_codec if weighing.situation.picture is not None else -2
    return replace(placement, codecs=np.where(placement.codecs == picture, 0, placement.codecs))


def _machine(profile: Profile) -> Machine:
    return Machine(profile.label, profile.kind, profile.engine.threads, profile.uncertainty)


def _nodes(situation: Situation, candidate: Candidate, tier: int) -> tuple[str, ...]:
    """The nodes that a candidate runs on a tier, in order."""
    space = situation.space
    units = [unit for unit in space.units if candidate.tiers[unit.index] == tier]
    return _in_order(space.graph.position, (name for unit in units for name in unit.nodes))


def _in_order(position: dict[str, int], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=position.__getitem__))
