"""Which cuts are legal and what crosses them."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given, settings

from profiler.graph.fusion import units_of
from profiler.graph.graph import Graph, Node
from profiler.values import TensorSlot
from splitter.cuts import CutSpace
from splitter.errors import CutError
from tests.splitter.graphs import spaces


def small_space(*nodes: Node, outputs: tuple[str, ...]) -> CutSpace:
    graph = Graph(nodes, (TensorSlot("x", "float32", (1,)),), outputs, {})
    return CutSpace(graph, units_of(graph, []))


def node(name: str, *inputs: str) -> Node:
    return Node(name, "Op", "", inputs, (f"{name}.out",))


DIAMOND = small_space(
    node("a", "x"),
    node("b", "a.out"),
    node("c", "a.out", "x"),
    node("d", "b.out", "c.out"),
    outputs=("d.out",),
)


def test_the_frontier_is_every_tensor_needed_behind_the_cut_once() -> None:
    assert DIAMOND.cut({0}).frontier == ("a.out", "x")
    assert DIAMOND.cut({0, 1}).frontier == ("a.out", "b.out", "x")
    assert DIAMOND.cut({0, 1, 2}).frontier == ("b.out", "c.out")


def test_the_whole_on_one_side_has_its_own_name() -> None:
    assert DIAMOND.cut(()).id == "cloud"
    assert DIAMOND.cut(()).frontier == ("x",)
    assert DIAMOND.cut(range(4)).id == "device"
    assert DIAMOND.cut(range(4)).frontier == ()


def test_a_node_without_what_it_needs_is_refused_by_name() -> None:
    with pytest.raises(CutError, match=r"'d' cannot stay on the device: it needs 'b'"):
        DIAMOND.cut({0, 2, 3})


def test_what_cannot_be_sent_is_refused_by_name() -> None:
    space = CutSpace(DIAMOND.graph, DIAMOND.units, frozenset({"b.out"}))
    with pytest.raises(CutError, match=r"'b\.out' cannot cross"):
        space.cut({0, 1})
    assert space.cut({0}).frontier == ("a.out", "x")
    assert "b.out" not in {name for cut in space.all_cuts() for name in cut.frontier}


@settings(max_examples=200)
@given(spaces(most_nodes=6))
def test_all_cuts_are_exactly_the_closed_sets(space: CutSpace) -> None:
    indexes = range(len(space.units))
    subsets = chain.from_iterable(combinations(indexes, k) for k in range(len(space.units) + 1))
    legal = set()
    for subset in subsets:
        try:
            legal.add(space.cut(subset))
        except CutError:
            continue
    found = list(space.all_cuts())
    assert len(found) == len(set(found))
    assert set(found) == legal
    assert len({cut.id for cut in found}) == len(found)


@settings(max_examples=200)
@given(spaces())
def test_samples_and_prefixes_are_legal_and_different(space: CutSpace) -> None:
    legal = set(space.all_cuts())
    samples = space.sample(5, seed=3)
    assert set(samples) <= legal
    assert len(set(samples)) == len(samples) >= min(len(legal), 1)
    assert space.sample(5, seed=3) == samples
    assert set(space.prefixes()) <= legal


@settings(max_examples=200)
@given(spaces())
def test_every_output_is_kept_or_a_result(space: CutSpace) -> None:
    for cut in space.all_cuts():
        assert sorted((*cut.kept, *cut.results)) == sorted(space.graph.outputs)


def test_no_more_tensors_cross_than_a_message_carries() -> None:
    wide = [node(f"n{i}", "x") for i in range(300)]
    joined = Node("join", "Op", "", tuple(f"n{i}.out" for i in range(300)), ("y",))
    space = small_space(*wide, joined, outputs=("y",))
    assert space.legal(frozenset(range(300))) is None
    assert space.legal(frozenset(range(200))) is not None
