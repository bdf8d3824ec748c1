"""Tensors that hold what another tensor holds: moved, reshaped, converted, but not computed."""

from __future__ import annotations

from collections.abc import Iterable

from profiler.graph.graph import Graph

# Whoever has the result has the argument, and the other way round.
_REVERSIBLE = frozenset(
    {
        "Cast",
        "CastLike",
        "DepthToSpace",
        "DequantizeLinear",
        "Dropout",
        "Flatten",
        "Identity",
        "QuantizeLinear",
        "Reshape",
        "SpaceToDepth",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
# Whoever has the result has the argument as a part of it.
_CONTAINING = frozenset({"Concat", "Expand", "Pad", "Tile", "ConcatFromSequence"})


def copies_of(graph: Graph, tensors: Iterable[str]) -> frozenset[str]:
    """Return these tensors and all from which one of them can be read as it is.

    A quantised tensor counts as the tensor: it is the same picture with fewer shades.
    """
    found = set(tensors)
    pending = list(found)
    while pending:
        name = pending.pop()
        neighbours: list[str] = []
        for node in graph.consumers.get(name, ()):
            contains = node.op_type in _CONTAINING and not node.domain
            same = node.op_type in _REVERSIBLE and not node.domain and node.arguments[:1] == (name,)
            if contains or same:
                neighbours.append(node.outputs[0])
        producer = graph.producer.get(name)
        if producer is not None and producer.op_type in _REVERSIBLE and not producer.domain:
            neighbours.extend(producer.arguments[:1])
        for neighbour in neighbours:
            if neighbour not in found and neighbour not in graph.initializers:
                found.add(neighbour)
                pending.append(neighbour)
    return frozenset(found)
