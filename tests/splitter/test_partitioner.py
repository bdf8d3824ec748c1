"""The minimum cut is the best of all legal cuts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.graph.fusion import units_of
from profiler.graph.graph import Graph, Node
from profiler.values import TensorSlot
from splitter.cuts import CutSpace
from splitter.errors import PlanError
from splitter.partitioner import CutCosts, cut_cost_ms, minimum_cut, prefix_costs_ms
from tests.splitter.graphs import spaces

_MS = st.one_of(st.just(0.0), st.floats(0, 1e4), st.integers(0, 3).map(float))


@st.composite
def problems(draw: st.DrawFn) -> tuple[CutSpace, CutCosts]:
    space = draw(spaces())
    many = st.lists(_MS, min_size=len(space.units), max_size=len(space.units))
    costs = CutCosts(
        device_ms=draw(many),
        cloud_ms=draw(many),
        transfer_ms={name: draw(_MS) for name in space.readers},
        result_ms={
            name: math.inf if name in space.unsendable else draw(_MS)
            for name in space.graph.outputs
        },
        cloud_fixed_ms=draw(_MS),
        device_fixed_ms=draw(_MS),
    )
    return space, costs


@settings(max_examples=500, deadline=None)
@given(problems())
def test_minimum_cut_equals_brute_force(problem: tuple[CutSpace, CutCosts]) -> None:
    space, costs = problem
    best = min(cut_cost_ms(space, cut, costs) for cut in space.all_cuts())
    found = minimum_cut(space, costs)
    assert space.cut(found.units) == found  # legal
    assert cut_cost_ms(space, found, costs) == pytest.approx(best, rel=1e-5)


@settings(max_examples=200, deadline=None)
@given(problems())
def test_prefixes_in_one_pass_cost_what_each_costs(problem: tuple[CutSpace, CutCosts]) -> None:
    space, costs = problem
    totals = prefix_costs_ms(space, costs)
    legal = {len(cut.units): cut_cost_ms(space, cut, costs) for cut in space.prefixes()}
    assert {end for end, total in enumerate(totals) if math.isfinite(total)} == set(legal)
    for end, cost_ms in legal.items():
        assert totals[end] == pytest.approx(cost_ms, rel=1e-9, abs=1e-9)


@given(problems())
def test_costs_that_are_no_costs_are_refused(problem: tuple[CutSpace, CutCosts]) -> None:
    space, costs = problem
    for bad in (-1.0, math.nan):
        device_ms = [bad, *costs.device_ms[1:]]
        broken = CutCosts(device_ms, costs.cloud_ms, costs.transfer_ms, costs.result_ms)
        with pytest.raises(PlanError, match="costs are 0 or more"):
            minimum_cut(space, broken)


def test_costs_beyond_32_bits_of_the_flow_solver() -> None:
    """Scaled to a fixed unit these costs would overflow in maximum_flow, silently."""
    nodes = tuple(Node(f"n{i}", "Op", "", ("x",), (f"t{i}",)) for i in range(4))
    outputs = tuple(f"t{i}" for i in range(4))
    graph = Graph(nodes, (TensorSlot("x", "float32", (1,)),), outputs, {})
    space = CutSpace(graph, units_of(graph, []))
    results = {"t0": 0.0, "t1": 0.0, "t2": 0.0, "t3": 1.0}
    costs = CutCosts([0, 0, 0, 2.148e12], [0, 0, 1.0, 0], {"x": 0.0}, results)
    assert cut_cost_ms(space, minimum_cut(space, costs), costs) == 1.0
