"""The network's figure: boxes that hold every unit once, rows without overlaps, straight cuts."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.graph.fusion import units_of
from profiler.graph.graph import Graph, Node
from profiler.values import TensorSlot
from splitter.cuts import CutSpace
from splitter.page.network_boxes import _chains, _stretches, boxes_of
from splitter.page.network_layout import layout_of
from tests.splitter.graphs import spaces
from tests.splitter.page.plans import split_plan

BOX_PX = 100.0


@st.composite
def placed(draw: st.DrawFn) -> tuple[CutSpace, list[int]]:
    """A graph, and tiers on which no unit is below what it needs."""
    space = draw(spaces(most_nodes=12))
    tiers: list[int] = []
    for unit in space.units:
        least = max((tiers[need] for need in space.needs[unit.index]), default=0)
        tiers.append(draw(st.integers(least, 2)))
    return space, tiers


def ladder(count: int) -> CutSpace:
    """A long network of blocks with a way around each."""
    nodes = [
        node
        for i in range(count)
        for node in (
            Node(f"a{i}", "Conv", "", (f"t{i}",), (f"a{i}",)),
            Node(f"b{i}", "Relu", "", (f"a{i}",), (f"b{i}",)),
            Node(f"c{i}", "Add", "", (f"b{i}", f"t{i}"), (f"t{i + 1}",)),
        )
    ]
    graph = Graph(tuple(nodes), (TensorSlot("t0", "float32", (1,)),), (f"t{count}",), {})
    return CutSpace(graph, units_of(graph, []))


@given(placed(), st.integers(1, 6))
def test_groups_hold_every_unit_once_on_one_tier(
    case: tuple[CutSpace, list[int]], most: int
) -> None:
    space, tiers = case
    for groups in (_chains(space, tiers, most), list(_stretches(space, tiers, most))):
        assert sorted(itertools.chain(*groups)) == [unit.index for unit in space.units]
        assert all(len({tiers[unit] for unit in group}) == 1 for group in groups)
        assert all(len(group) <= most for group in _chains(space, tiers, most))


@settings(deadline=None)
@given(placed(), st.integers(1, 12))
def test_edges_lead_down_and_nothing_overlaps(case: tuple[CutSpace, list[int]], most: int) -> None:
    space, tiers = case
    network = boxes_of(space, tiers, most)
    layout = layout_of(network, 3, BOX_PX)
    for made, reads in network.edges:
        assert made < reads
        assert layout.rows[made] < layout.rows[reads]
    for box, row in zip(network.boxes, layout.rows, strict=True):
        first, end = layout.tier_rows[box.tier]
        assert first <= row < end
    places: dict[int, list[float]] = {}
    for row, centre in zip(layout.rows, layout.centres, strict=True):
        places.setdefault(row, []).append(centre)
        assert BOX_PX / 2 - 1e-6 <= centre <= layout.width - BOX_PX / 2 + 1e-6
    for row_places in places.values():
        for left, right in itertools.pairwise(sorted(row_places)):
            assert right - left >= BOX_PX - 1e-6
    for (made, reads), wire in zip(sorted(network.edges), layout.wires, strict=True):
        assert wire[0] == (layout.centres[made], layout.rows[made])
        assert wire[-1] == (layout.centres[reads], layout.rows[reads])
        assert [row for _, row in wire] == list(range(layout.rows[made], layout.rows[reads] + 1))


@pytest.mark.parametrize("blocks", [1, 20, 400])
def test_large_networks_stay_readable(blocks: int) -> None:
    space = ladder(blocks)
    tiers = [0 if unit.index < blocks else 1 for unit in space.units]
    network = boxes_of(space, tiers)
    assert min(3 * blocks, 20) <= len(network.boxes) <= 60
    layout = layout_of(network, 2, BOX_PX)
    assert layout.width < 4 * BOX_PX
    assert max(layout.rows) < 60


def test_a_chain_is_straight() -> None:
    network = boxes_of(ladder(6), [0] * 18)
    layout = layout_of(network, 2, BOX_PX)
    assert max(layout.centres) - min(layout.centres) < 1


def test_what_crosses_is_written_at_the_cut(tmp_path: Path) -> None:
    found = split_plan(tmp_path)
    page = found.page
    assert page.count('class="cut"') == 1
    (tensor, *_) = found.plan.chosen.tensors
    assert f"{list(tensor.shape)} {tensor.codec} {tensor.bytes:,} bytes" in page
