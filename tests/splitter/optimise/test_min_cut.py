"""The layered minimum cut is the best of all placements."""

from __future__ import annotations

import numpy as np
import pytest

from splitter.optimise.min_cut import least_placement, prefix_costs, with_codecs
from splitter.optimise.problem import Sum, is_allowed, metric_value
from tests.splitter.optimise.problems import Shape, best_values, random_problem

GOAL = (Sum({"m0": 1.0}),)


@pytest.mark.parametrize(
    ("shape", "seeds"),
    [
        (Shape(most_units=14, tiers=2), 60),
        (Shape(most_units=8, tiers=3), 50),
        (Shape(most_units=5, tiers=4), 20),
        (Shape(most_units=6, tiers=2, codecs=2), 25),
        (Shape(most_units=6, tiers=2, forbid=0.4), 40),
    ],
)
def test_equals_brute_force(shape: Shape, seeds: int) -> None:
    for seed in range(seeds):
        source = np.random.default_rng(seed)
        problem = random_problem(source, shape, GOAL)
        best = best_values(problem)
        found = least_placement(problem.flow, problem.metrics["m0"], problem.allowed)
        if best is None:
            assert found is None
            continue
        assert found is not None, seed
        assert is_allowed(problem, found)
        value = metric_value(problem.flow, problem.metrics["m0"], found)
        assert value == pytest.approx(best[0], rel=1e-6), seed


def test_prefix_costs_are_those_of_prefixes() -> None:
    for seed in range(40):
        problem = random_problem(np.random.default_rng(seed), Shape(8, tiers=3), GOAL)
        flow, metric, allowed = problem.flow, problem.metrics["m0"], problem.allowed
        for lower, upper in ((0, 1), (0, 2), (1, 2)):
            totals = prefix_costs(flow, metric, allowed, lower, upper)
            for end, total in enumerate(totals):
                tiers = np.where(np.arange(flow.unit_count) < end, lower, upper)
                placement = with_codecs(tiers, metric, allowed)
                if is_allowed(problem, placement):
                    assert total == pytest.approx(metric_value(flow, metric, placement)), seed
                else:
                    assert np.isinf(total), seed
