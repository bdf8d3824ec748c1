"""Which nodes ONNX Runtime runs as one, read from its own optimised graphs. Needs onnx and scipy.

The runtime's answer is used instead of a table of patterns: original tensor names survive in its
optimised graph exactly at the borders of what it fused (seen with ONNX Runtime 1.20 to 1.32).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from profiler.graph.graph import Graph, Node, Unit, node_inputs

_NCHWC_SUFFIX = "_nchwc"
_NCHWC_DOMAIN = "com.microsoft.nchwc"
# Position of the tensor that a convolution in the blocked layout adds to its result.
_NCHWC_SUM_ARGUMENT = 3


def units_of(graph: Graph, groups: Iterable[Iterable[str]]) -> tuple[Unit, ...]:
    """Return the units made of these groups of node names; other nodes stand alone."""
    merges = _Merges(len(graph.regular))
    place = {node.name: index for index, node in enumerate(graph.regular)}
    for group in groups:
        merges.merge(place[name] for name in group)
    return _units(graph, merges)


class _Merges:
    """Disjoint sets of positions."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, item: int) -> int:
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def merge(self, items: Iterable[int]) -> None:
        roots = sorted({self.find(item) for item in items})
        for root in roots[1:]:
            self._parent[root] = roots[0]


def fused_units(
    graph: Graph, fused: onnx.GraphProto, laid_out: onnx.GraphProto | None = None
) -> tuple[Unit, ...]:
    """Return the units of a graph.

    Args:
        graph: The original graph.
        fused: What the runtime made of it with extended optimisation (names still in place).
        laid_out: The same with full optimisation, where an Add may vanish into a convolution.
    """
    position = {node.name: index for index, node in enumerate(graph.regular)}
    merges = _Merges(len(position))
    for inputs, outputs in _kernels(graph, fused):
        merges.merge(position[name] for name in _nodes_between(graph, inputs, outputs))
    for pair in (*_quantised_pairs(graph), *_summed_pairs(graph, laid_out)):
        merges.merge(position[name] for name in pair)
    return _units(graph, merges)


def _kernels(graph: Graph, fused: onnx.GraphProto) -> list[tuple[set[str], set[str]]]:
    """Original tensors read and made by each kernel.

    Kernels joined by a tensor that the original graph does not know count as one.
    """
    original = graph.producer
    producer = {
        name: index for index, node in enumerate(fused.node) for name in node.output if name
    }
    merges = _Merges(len(fused.node))
    for index, node in enumerate(fused.node):
        unknown = [name for name in node_inputs(node) if name in producer and name not in original]
        merges.merge([index, *(producer[name] for name in unknown)])
    kernels: dict[int, tuple[set[str], set[str]]] = {}
    for index, node in enumerate(fused.node):
        inputs, outputs = kernels.setdefault(merges.find(index), (set(), set()))
        outputs.update(name for name in node.output if name in original)
        inputs.update(
            name
            for name in node_inputs(node)
            if name in graph.input_names or (name in producer and name in original)
        )
    return [(inputs - outputs, outputs) for inputs, outputs in kernels.values() if outputs]


def _nodes_between(graph: Graph, inputs: set[str], outputs: set[str]) -> set[str]:
    """Regular nodes on the way from the inputs to the outputs."""
    back: set[str] = set()
    frontier = list(outputs)
    while frontier:
        node = graph.producer.get(frontier.pop())
        if node is None or node.name in back:
            continue
        back.add(node.name)
        frontier.extend(name for name in node.inputs if name not in inputs)
    ends = {graph.producer[name].name for name in outputs}
    reached = set(inputs)
    chosen: set[str] = set()
    for name in sorted(back, key=graph.position.__getitem__):
        node = graph.by_name[name]
        if name in ends or reached.intersection(node.inputs):
            reached.update(node.outputs)
            chosen.add(name)
    return chosen - graph.floating


def _quantised_pairs(graph: Graph) -> list[tuple[str, str]]:
    """A QuantizeLinear stays with the only node whose result it quantises."""
    pairs: list[tuple[str, str]] = []
    for node in graph.regular:
        if node.op_type != "QuantizeLinear":
            continue
        maker = graph.producer.get(node.inputs[0])
        alone = graph.consumers[node.inputs[0]] == (node,)
        if maker and alone and maker.name not in graph.floating:
            pairs.append((maker.name, node.name))
    return pairs


def _summed_pairs(graph: Graph, laid_out: onnx.GraphProto | None) -> list[tuple[str, str]]:
    """An Add that full optimisation folds into the convolution before it stays with it."""
    if laid_out is None:
        return []
    present = {name for node in laid_out.node for name in node.output}
    present.update(node.name.removesuffix(_NCHWC_SUFFIX) for node in laid_out.node)
    pairs: list[tuple[str, str]] = []
    for node in laid_out.node:
        sums = len(node.input) > _NCHWC_SUM_ARGUMENT and node.input[_NCHWC_SUM_ARGUMENT]
        if node.op_type != "Conv" or node.domain != _NCHWC_DOMAIN or not sums:
            continue
        name = node.name.removesuffix(_NCHWC_SUFFIX)
        maker = graph.producer.get(name) or graph.by_name.get(name)
        if maker is None:
            continue
        pairs.extend(
            (maker.name, reader.name)
            for reader in _readers(graph, maker)
            if reader.op_type in {"Add", "Sum"}
            and reader.name not in present
            and not present.intersection(reader.outputs)
        )
    return pairs


def _readers(graph: Graph, node: Node) -> Sequence[Node]:
    return [reader for name in node.outputs for reader in graph.consumers.get(name, ())]


def _units(graph: Graph, merges: _Merges) -> tuple[Unit, ...]:
    nodes = graph.regular
    position = {node.name: index for index, node in enumerate(nodes)}
    needs = [graph.sources(node.inputs) for node in nodes]
    edges = [
        (position[graph.producer[name].name], index)
        for index, wanted in enumerate(needs)
        for name in wanted
        if name in graph.producer
    ]
    members = _acyclic_groups(len(nodes), edges, merges)
    group_of = {item: number for number, group in enumerate(members) for item in group}
    after: list[set[int]] = [set() for _ in members]
    for start, end in edges:
        if group_of[start] != group_of[end]:
            after[group_of[start]].add(group_of[end])
    needed_outside = {
        name
        for index, wanted in enumerate(needs)
        for name in wanted
        if name in graph.producer
        and group_of[position[graph.producer[name].name]] != group_of[index]
    }
    needed_outside.update(graph.outputs)
    units = []
    for index, number in enumerate(_topological(members, after)):
        group = members[number]
        made = {name for item in group for name in nodes[item].outputs}
        wanted = frozenset().union(*(needs[item] for item in group))
        units.append(
            Unit(
                index=index,
                name=nodes[group[-1]].name,
                nodes=tuple(nodes[item].name for item in group),
                inputs=tuple(sorted(wanted - made)),
                outputs=tuple(sorted(made & needed_outside)),
            )
        )
    return tuple(units)


def _acyclic_groups(
    size: int, edges: Sequence[tuple[int, int]], merges: _Merges
) -> list[list[int]]:
    """Groups of nodes, those on a common cycle of groups joined."""
    if not size:
        return []
    pairs = np.array(
        [(merges.find(start), merges.find(end)) for start, end in edges], dtype=np.int64
    ).reshape(-1, 2)
    matrix = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(size, size))
    _, component = connected_components(matrix, directed=True, connection="strong")
    groups: dict[int, list[int]] = {}
    for item in range(size):
        groups.setdefault(int(component[merges.find(item)]), []).append(item)
    return list(groups.values())


def _topological(members: Sequence[Sequence[int]], after: Sequence[set[int]]) -> list[int]:
    """Order groups so that each comes after what it needs, else by their first node."""
    waiting = [0] * len(members)
    for following in after:
        for number in following:
            waiting[number] += 1
    ready = [(members[number][0], number) for number, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(number)
        for later in after[number]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (members[later][0], later))
    return order
