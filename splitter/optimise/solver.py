"""Solve a placement problem by the cheapest method that is exact for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from splitter.errors import PlanError
from splitter.optimise.contraction import Contraction, Table, contract, table_of
from splitter.optimise.min_cut import least_placement, prefix_costs, with_codecs
from splitter.optimise.mixed_integer import Solved, solve_mixed_integer
from splitter.optimise.problem import (
    NO_CODEC,
    Allowed,
    Goal,
    Metric,
    Placement,
    Problem,
    Sum,
    goal_value,
    is_allowed,
    metric_value,
    violation,
)

TIME_LIMIT_S = 60.0
# The solver's own tolerances; what is within them counts as kept, and as equally good.
_TOLERANCE = 1e-6
_TRIES = 30  # prefixes whose memory is looked at


@dataclass(frozen=True)
class Solution:
    """The best placement.

    Attributes:
        placement: Where everything runs and how it travels.
        values: What it is worth by each goal.
        gap: By which part of a value something better may exist; 0 where that is excluded.
    """

    placement: Placement
    values: tuple[float, ...]
    gap: float = 0.0


def solve(problem: Problem, time_limit_s: float = TIME_LIMIT_S) -> Solution | None:
    """Return the best placement; ``None`` where the limits allow none.

    Raises:
        PlanError: A cost is negative or not a number, or no solution was found in time.
    """
    for name, metric in problem.metrics.items():
        if not metric.is_valid():
            raise PlanError(
                f"a cost of the metric {name} is negative or not a number; costs are 0 or more"
            )
    step = problem
    gap = 0.0
    solved: Solved | None = None
    for place, goal in enumerate(problem.goals):
        solved = _solve_one(step, goal, time_limit_s)
        if solved is None:
            return None
        gap = max(gap, solved.gap)
        step = _keeping(step, goal, f"goal {place}", solved.placement)
    if solved is None:
        raise PlanError("a problem without a goal cannot be solved")
    values = tuple(goal_value(problem, goal, solved.placement) for goal in problem.goals)
    return Solution(solved.placement, values, gap)


def _keeping(problem: Problem, goal: Goal, name: str, placement: Placement) -> Problem:
    """Return the problem in which a later goal may not spoil what this one has reached."""
    most = goal_value(problem, goal, placement) * (1 + _TOLERANCE)
    limits = dict(problem.limits)
    if not isinstance(goal, Sum):
        limits.update({each: min(limits.get(each, math.inf), most) for each in goal.metrics})
        return replace(problem, limits=limits)
    queue = problem.queue
    if queue is not None:
        weight = sum(share * queue.weights.get(each, 0.0) for each, share in goal.weights.items())
        queue = replace(queue, weights={**queue.weights, name: weight})
    return replace(
        problem,
        limits={**limits, name: most},
        metrics={**problem.metrics, name: problem.table(goal)},
        queue=queue,
    )


def _solve_one(problem: Problem, goal: Goal, time_limit_s: float) -> Solved | None:
    if isinstance(goal, Sum) and problem.queue is None:
        found = least_placement(problem.flow, problem.table(goal), problem.allowed)
        if found is None:
            return None
        if violation(problem, found) <= _TOLERANCE:
            return Solved(found, 0.0)
    contraction = contract(problem.flow, _tables(problem, goal), exchange=problem.memory is None)
    small = _small(problem, contraction)
    tangents: list[tuple[float, float]] = []
    while True:
        solved = solve_mixed_integer(small, goal, contraction, tangents, time_limit_s)
        if solved is None:
            return None
        placement = _large(problem, contraction, solved.placement)
        tangent = _missing_tangent(problem, placement, tangents)
        if tangent is None:
            return replace(solved, placement=placement)
        tangents.append(tangent)


def _missing_tangent(
    problem: Problem, placement: Placement, tangents: list[tuple[float, float]]
) -> tuple[float, float] | None:
    """The line that shows how long this placement waits, where none of those known does."""
    if problem.queue is None:
        return None
    service_ms = metric_value(problem.flow, problem.metrics[problem.queue.service], placement)
    known = max((slope * service_ms + base for slope, base in tangents), default=0.0)
    if problem.queue.wait_ms(service_ms) <= max(known, 0.0) * (1 + _TOLERANCE) + _TOLERANCE:
        return None
    return problem.queue.tangent(service_ms)


def _tables(problem: Problem, goal: Goal) -> list[Table]:
    """Everything that counts, each with the most that it may be."""
    best = min(
        (
            goal_value(problem, goal, placement)
            for placement in _known(problem, goal)
            if is_allowed(problem, placement) and violation(problem, placement) == 0
        ),
        default=math.inf,
    )
    tables = []
    if isinstance(goal, Sum):
        tables.append(table_of(problem.table(goal), problem.allowed, best))
    else:
        tables.extend(
            table_of(problem.metrics[name], problem.allowed, best) for name in goal.metrics
        )
    tables.extend(
        table_of(problem.metrics[name], problem.allowed, limit)
        for name, limit in problem.limits.items()
    )
    if (
        problem.queue is not None
    ):  # what is moved down waits less, so only moving up must be checked
        service = problem.metrics[problem.queue.service]
        tables.append(table_of(service, problem.allowed, problem.queue.longest_service_ms))
    return tables


def _known(problem: Problem, goal: Goal) -> Iterator[Placement]:
    """For each codec and each pair of tiers, the best prefixes within the additive limits."""
    goals = (
        [problem.table(goal)]
        if isinstance(goal, Sum)
        else [problem.metrics[name] for name in goal.metrics]
    )
    flow = problem.flow
    for codec in range(problem.allowed.tensors.shape[2]):
        allowed = _only(problem.allowed, codec)
        for lower, upper in combinations(range(problem.tier_count), 2):

            def costs(metric: Metric) -> np.ndarray:
                return prefix_costs(flow, metric, allowed, lower, upper)  # noqa: B023

            totals = np.maximum.reduce([costs(metric) for metric in goals])
            for name, limit in problem.limits.items():
                totals[costs(problem.metrics[name]) > limit] = np.inf
            for end in np.argsort(totals, kind="stable")[
                : _TRIES if problem.memory else 1
            ].tolist():
                if np.isfinite(totals[end]):
                    tiers = np.where(np.arange(flow.unit_count) < end, lower, upper)
                    yield with_codecs(tiers, goals[0], allowed)


def _only(allowed: Allowed, codec: int) -> Allowed:
    tensors = np.zeros_like(allowed.tensors)
    tensors[:, :, codec] = allowed.tensors[:, :, codec]
    return replace(allowed, tensors=tensors)


def _small(problem: Problem, contraction: Contraction) -> Problem:
    return replace(
        problem,
        flow=contraction.flow,
        metrics={name: contraction.metric(metric) for name, metric in problem.metrics.items()},
        allowed=contraction.allowed(problem.allowed),
    )


def _large(problem: Problem, contraction: Contraction, placement: Placement) -> Placement:
    codecs = np.full((problem.tier_count - 1, problem.flow.tensor_count), NO_CODEC, dtype=np.int64)
    codecs[:, contraction.tensors] = placement.codecs
    return Placement(placement.tiers[contraction.group], codecs)
