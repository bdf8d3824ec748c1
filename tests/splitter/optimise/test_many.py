"""A thousand random networks for each kind of wish; and the two exact methods on real networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import load_model
from profiler.links import SteadyLink
from profiler.presets import load_preset, predict_profile
from protocol.codecs import parse_codec
from splitter.optimise.contraction import untouched
from splitter.optimise.dataflow import FED, Dataflow
from splitter.optimise.min_cut import least_placement
from splitter.optimise.mixed_integer import solve_mixed_integer
from splitter.optimise.problem import Allowed, Metric, Problem, Sum, goal_value
from splitter.optimise.queueing import Queue
from splitter.optimise.solver import solve
from splitter.problems import pose
from splitter.situation import Hop, Situation
from splitter.weighing import Weighing
from tests.splitter.helpers import prepare_file
from tests.splitter.optimise.problems import Shape, random_problem
from tests.splitter.optimise.test_solver import (
    FIRST_THEN,
    LARGEST,
    LARGEST_THEN,
    SUM,
    WEIGHTED,
    check,
)
from tests.splitter.test_extraction import SHARED_NETWORKS

MANY = 1_000
TWO, THREE = Shape(14, tiers=2, metrics=3), Shape(8, tiers=3, metrics=3)
CODECS = Shape(5, tiers=2, codecs=2, metrics=3)


def free(problem: Problem) -> Problem:
    return problem


def limited(problem: Problem) -> Problem:
    most = 7.0 * problem.flow.unit_count + 8
    return replace(problem, limits={"m1": most, "m2": 2 * most})


def queued(problem: Problem) -> Problem:
    queue = Queue("m2", 0.2, 0.5 / (4 * problem.flow.unit_count), {"m0": 1.0, "m1": 0.3})
    return replace(problem, queue=queue)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("shape", [TWO, THREE, CODECS], ids=["two", "three", "codecs"])
@pytest.mark.parametrize(
    ("goals", "change", "memory"),
    [
        pytest.param(SUM, free, None, id="sum"),
        pytest.param(WEIGHTED, free, None, id="weighted"),
        pytest.param(LARGEST, free, None, id="largest"),
        pytest.param(FIRST_THEN, free, None, id="lexicographic"),
        pytest.param(LARGEST_THEN, limited, None, id="largest, then, limited"),
        pytest.param(SUM, limited, None, id="limited"),
        pytest.param(SUM, free, 25.0, id="memory"),
        pytest.param(LARGEST, limited, 30.0, id="largest, limited, memory"),
        pytest.param(SUM, queued, None, id="queue"),
    ],
)
def test_a_thousand_networks(
    shape: Shape, goals: tuple[Sum, ...], change: Callable[[Problem], Problem], memory: float | None
) -> None:
    for seed in range(MANY):
        source = np.random.default_rng(10_000 + seed)
        problem = random_problem(source, shape, goals, memory_limit_bytes=memory)
        check(change(problem), seed)


def permuted(problem: Problem, source: np.random.Generator) -> Problem:
    """The same problem with its units in another topological order and its tensors shuffled."""
    flow = problem.flow
    makers, readers = (part.tolist() for part in flow.edges)
    waiting = np.bincount(readers, minlength=flow.unit_count).tolist()
    ready = [unit for unit in range(flow.unit_count) if not waiting[unit]]
    order: list[int] = []
    while ready:
        unit = ready.pop(int(source.integers(len(ready))))
        order.append(unit)
        for maker, reader in zip(makers, readers, strict=True):
            if maker == unit:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
    tensors = source.permutation(flow.tensor_count)
    place = np.argsort(order)
    moved = Dataflow.of(
        flow.unit_count,
        [FED if flow.makers[t] == FED else int(place[flow.makers[t]]) for t in tensors],
        [sorted(int(place[unit]) for unit in flow.readers[t]) for t in tensors],
        np.flatnonzero(flow.is_result[tensors]).tolist(),
    )
    metrics = {
        name: Metric(
            metric.units[:, order],
            metric.tensors[:, tensors],
            metric.results[:, tensors],
            metric.tiers,
            metric.links,
        )
        for name, metric in problem.metrics.items()
    }
    allowed = problem.allowed
    masks = Allowed(
        allowed.units[:, order], allowed.tensors[:, tensors], allowed.results[:, tensors]
    )
    return replace(problem, flow=moved, metrics=metrics, allowed=masks)


@pytest.mark.parametrize("goals", [SUM, LARGEST, FIRST_THEN])
def test_neither_order_nor_numbers_change_anything(goals: tuple[Sum, ...]) -> None:
    for seed in range(15):
        source = np.random.default_rng(seed)
        problem = random_problem(source, Shape(20, tiers=3, metrics=3), goals)
        found, moved = solve(problem), solve(permuted(problem, source))
        assert (found is None) == (moved is None)
        if found is not None and moved is not None:
            assert moved.values == pytest.approx(found.values, rel=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SHARED_NETWORKS)
def test_both_methods_agree_on_real_networks(name: str, shared: Path, tmp_path: Path) -> None:
    path = shared / "models" / f"{name}.onnx"
    loaded = load_model(path)
    feeds = resolve_feeds(loaded.graph.inputs, read_feeds(path.with_suffix(".feed.npz")), {})
    prepared = prepare_file(path, feeds, tmp_path / "stored")
    pi3, pi5, cloud = (
        predict_profile(load_preset(preset), loaded, prepared.observation)
        for preset in ("pi3", "pi5", "cloud-cpu")
    )
    two = Situation(
        model=loaded.identity,
        space=prepared.space,
        tensors=prepared.observation.tensors,
        device=pi3,
        cloud=cloud,
        link=SteadyLink(10, 10, 10),
        codecs=(parse_codec("affine8"),),
    )
    for situation in (two, replace(two, middle=(Hop(pi5, SteadyLink(50, 50, 20)),))):
        problem = pose(Weighing(situation), ()).problems[0]
        (goal,) = problem.goals
        assert isinstance(goal, Sum)
        cut = least_placement(problem.flow, problem.table(goal), problem.allowed)
        exact = solve_mixed_integer(problem, goal, untouched(problem.flow), (), 300.0)
        assert cut is not None
        assert exact is not None
        assert goal_value(problem, goal, cut) == pytest.approx(
            goal_value(problem, goal, exact.placement), rel=1e-5
        )
