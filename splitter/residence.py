"""What the device holds at once, for the solver: weights, live tensors, the runtime. Needs numpy.

It is linear in what runs where, so limits on it can be planned with. What the runtime's allocator
wastes, and copies of weights that it makes while loading, only :mod:`splitter.memory` predicts.
"""

from __future__ import annotations

import math

import numpy as np

from profiler.graph.graph import Graph
from profiler.memory import FIXED_BYTES, NODE_BYTES
from profiler.values import TensorSlot
from splitter.optimise.problem import Memory
from splitter.pricing import Pricing


def device_memory(pricing: Pricing) -> Memory:
    """Return what each unit and each tensor takes."""
    space = pricing.situation.space
    needed = _weights_behind(space.graph)
    number = {name: place for place, name in enumerate(space.graph.initializers)}
    uses: list[tuple[int, int]] = []
    for unit in space.units:
        names = {name for node in unit.nodes for name in space.graph.by_name[node].inputs}
        weights = {weight for name in names for weight in needed.get(name, ())}
        uses.extend((number[weight], unit.index) for weight in weights)
        uses.append((len(number) + unit.index, unit.index))  # what the runtime keeps of its nodes
    sizes = [_bytes(slot) for slot in space.graph.initializers.values()]
    sizes.extend(NODE_BYTES * len(unit.nodes) for unit in space.units)
    pairs = np.array(uses, dtype=np.int64).reshape(-1, 2)
    return Memory(
        flow=pricing.flow,
        tensor_bytes=pricing.tensors.raw_bytes,
        weight_bytes=np.array(sizes, dtype=np.float64),
        used_weights=pairs[:, 0],
        using_units=pairs[:, 1],
        fixed_bytes=FIXED_BYTES,
    )


def _weights_behind(graph: Graph) -> dict[str, frozenset[str]]:
    """The weights that each weight, and each tensor computed from weights only, stands for."""
    behind = {name: frozenset({name}) for name in graph.initializers}
    for node in graph.nodes:
        if node.name in graph.floating:
            needed = frozenset[str]().union(
                *(behind.get(name, frozenset()) for name in node.inputs)
            )
            behind.update(dict.fromkeys(node.outputs, needed))
    return behind


def _bytes(slot: TensorSlot) -> int:
    try:
        item = np.dtype(slot.dtype).itemsize
    except TypeError:
        return 0  # text has no fixed size
    return math.prod(axis or 0 for axis in slot.shape) * item
