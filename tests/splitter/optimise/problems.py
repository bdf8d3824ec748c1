"""Random placement problems, and their best placements by trying all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splitter.optimise.dataflow import FED, Dataflow
from splitter.optimise.problem import (
    NO_CODEC,
    Allowed,
    Goal,
    Memory,
    Metric,
    Placement,
    Problem,
    crossing,
    goal_value,
    is_allowed,
    violation,
)


@dataclass(frozen=True)
class Shape:
    """How large a random problem is."""

    most_units: int = 8
    tiers: int = 2
    codecs: int = 1
    metrics: int = 1
    forbid: float = 0.05


def random_flow(source: np.random.Generator, most_units: int) -> Dataflow:
    count = int(source.integers(1, most_units + 1))
    makers: list[int] = [FED] * int(source.integers(1, 3))
    readers: list[list[int]] = [[] for _ in makers]
    # Few parents, mostly near ones: chains with branches, as networks are.
    for unit in range(count):
        wanted = int(source.integers(1, 4)) if source.random() < 0.5 else 1
        for _ in range(wanted):
            near = source.random() < 0.7
            place = len(makers) - 1 - int(source.integers(0, min(2, len(makers)))) if near else -1
            tensor = place if near else int(source.integers(0, len(makers)))
            if makers[tensor] != unit and unit not in readers[tensor]:
                readers[tensor].append(unit)
        for _ in range(int(source.integers(1, 3)) if source.random() < 0.2 else 1):
            makers.append(unit)
            readers.append([])
    results = {
        tensor
        for tensor, maker in enumerate(makers)
        if maker != FED and (not readers[tensor] or source.random() < 0.1)
    }
    return Dataflow.of(count, makers, readers, results)


def _costs(source: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Small whole numbers, so that many placements cost the same, and some large ones."""
    small = source.integers(0, 6, shape).astype(float)
    return np.where(source.random(shape) < 0.2, source.integers(0, 60, shape), small)


def random_metric(source: np.random.Generator, flow: Dataflow, shape: Shape) -> Metric:
    links = shape.tiers - 1
    results = _costs(source, (links, flow.tensor_count))
    results[:, ~flow.is_result] = 0
    return Metric(
        units=_costs(source, (shape.tiers, flow.unit_count)),
        tensors=_costs(source, (links, flow.tensor_count, shape.codecs)),
        results=results,
        tiers=_costs(source, (shape.tiers,)),
        links=_costs(source, (links,)),
    )


def random_allowed(source: np.random.Generator, flow: Dataflow, shape: Shape) -> Allowed:
    links = shape.tiers - 1
    return Allowed(
        units=source.random((shape.tiers, flow.unit_count)) >= shape.forbid,
        tensors=source.random((links, flow.tensor_count, shape.codecs)) >= shape.forbid,
        results=source.random((links, flow.tensor_count)) >= shape.forbid / 2,
    )


def random_memory(source: np.random.Generator, flow: Dataflow) -> Memory:
    weights = int(source.integers(0, 4))
    return Memory(
        flow=flow,
        tensor_bytes=_costs(source, (flow.tensor_count,)),
        weight_bytes=source.integers(0, 9, weights).astype(float),
        used_weights=np.repeat(np.arange(weights), 2),
        using_units=source.integers(0, flow.unit_count, 2 * weights),
        fixed_bytes=float(source.integers(0, 3)),
    )


def random_problem(
    source: np.random.Generator,
    shape: Shape,
    goals: tuple[Goal, ...],
    limits: Mapping[str, float] | None = None,
    *,
    memory_limit_bytes: float | None = None,
) -> Problem:
    flow = random_flow(source, shape.most_units)
    metrics = {f"m{i}": random_metric(source, flow, shape) for i in range(shape.metrics)}
    allowed = random_allowed(source, flow, shape)
    memory = None if memory_limit_bytes is None else random_memory(source, flow)
    limit = math.inf if memory_limit_bytes is None else memory_limit_bytes
    return Problem(flow, metrics, goals, allowed, limits or {}, memory, limit)


def all_tiers(flow: Dataflow, tiers: int) -> Iterator[NDArray[np.int64]]:
    """Every legal placement of the units."""
    needs: list[list[int]] = [[] for _ in range(flow.unit_count)]
    for maker, reader in zip(*(part.tolist() for part in flow.edges), strict=True):
        needs[reader].append(maker)
    chosen: list[int] = []

    def extend() -> Iterator[NDArray[np.int64]]:
        unit = len(chosen)
        if unit == flow.unit_count:
            yield np.array(chosen, dtype=np.int64)
            return
        least = max((chosen[need] for need in needs[unit]), default=0)
        for tier in range(least, tiers):
            chosen.append(tier)
            yield from extend()
            chosen.pop()

    return extend()


def all_placements(problem: Problem) -> Iterator[Placement]:
    """Every legal placement that is allowed, with every choice of codecs."""
    flow, links = problem.flow, problem.tier_count - 1
    codecs = problem.allowed.tensors.shape[2]
    for tiers in all_tiers(flow, problem.tier_count):
        sent = [
            (link, int(tensor))
            for link in range(links)
            for tensor in np.flatnonzero(crossing(flow, tiers, link))
        ]
        for choice in itertools.product(range(codecs), repeat=len(sent)):
            chosen = np.full((links, flow.tensor_count), NO_CODEC)
            for (link, tensor), codec in zip(sent, choice, strict=True):
                chosen[link, tensor] = codec
            placement = Placement(tiers, chosen)
            if is_allowed(problem, placement):
                yield placement


def best_values(problem: Problem) -> tuple[float, ...] | None:
    """What the best placement is worth by each goal, earlier goals first."""
    values = [
        tuple(goal_value(problem, goal, placement) for goal in problem.goals)
        for placement in all_placements(problem)
        if violation(problem, placement) == 0
    ]
    return min(values, default=None)
