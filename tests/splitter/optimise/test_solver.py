"""Every goal under every kind of limit is the best of all placements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from splitter.optimise.problem import Goal, Largest, Problem, Sum, is_allowed, violation
from splitter.optimise.queueing import Queue
from splitter.optimise.solver import solve
from tests.splitter.optimise.problems import Shape, best_values, random_problem

SUM = (Sum({"m0": 1.0}),)
WEIGHTED = (Sum({"m0": 1.0, "m1": 0.5}),)
LARGEST = (Largest(("m0", "m1", "m2")),)
FIRST_THEN = (Sum({"m0": 1.0}), Sum({"m1": 1.0}))
LARGEST_THEN = (Largest(("m0", "m1")), Sum({"m2": 1.0}))
SHAPES = [
    pytest.param(Shape(12, tiers=2, metrics=3), id="two tiers"),
    pytest.param(Shape(7, tiers=3, metrics=3), id="three tiers"),
    pytest.param(Shape(5, tiers=2, codecs=2, metrics=3), id="two codecs"),
]


def check(problem: Problem, seed: int) -> bool:
    best = best_values(problem)
    found = solve(problem)
    if best is None:
        assert found is None, seed
        return False
    assert found is not None, seed
    assert is_allowed(problem, found.placement), seed
    assert violation(problem, found.placement) < 1e-5, seed
    assert found.gap == 0.0
    assert found.values == pytest.approx(best, rel=1e-4, abs=1e-5), seed
    return True


def check_many(
    shape: Shape,
    goals: tuple[Goal, ...],
    limit: float | None,
    memory: float | None,
    seeds: range,
) -> None:
    possible = 0
    for seed in seeds:
        source = np.random.default_rng(seed)
        problem = random_problem(source, shape, goals, memory_limit_bytes=memory)
        if limit is not None:
            most = limit * problem.flow.unit_count + 10
            problem = replace(problem, limits={"m1": most, "m2": 2 * most})
        possible += check(problem, seed)
    assert possible > len(seeds) / 10


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "goals",
    [
        pytest.param(WEIGHTED, id="weighted"),
        pytest.param(LARGEST, id="largest"),
        pytest.param(FIRST_THEN, id="lexicographic"),
        pytest.param(LARGEST_THEN, id="largest, then"),
    ],
)
def test_goals(shape: Shape, goals: tuple[Goal, ...]) -> None:
    check_many(shape, goals, None, None, range(9))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("goals", [SUM, LARGEST, FIRST_THEN])
def test_limits(shape: Shape, goals: tuple[Goal, ...]) -> None:
    check_many(shape, goals, 8.0, None, range(9))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("goals", [SUM, LARGEST])
def test_memory(shape: Shape, goals: tuple[Goal, ...]) -> None:
    check_many(shape, goals, None, 25.0, range(9))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("goals", [SUM, LARGEST, FIRST_THEN])
@pytest.mark.parametrize("limit", [None, 8.0])
def test_waiting_for_a_shared_worker(
    shape: Shape, goals: tuple[Goal, ...], limit: float | None
) -> None:
    for seed in range(5):
        source = np.random.default_rng(seed)
        problem = random_problem(source, shape, goals)
        if limit is not None:
            problem = replace(problem, limits={"m1": limit * problem.flow.unit_count + 10})
        queue = Queue("m2", 0.2, 0.5 / (4 * problem.flow.unit_count), {"m0": 1.0, "m1": 0.3})
        check(replace(problem, queue=queue), seed)
