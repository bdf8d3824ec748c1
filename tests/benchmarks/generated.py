"""Situations of generated networks, of any size, for planning only: nothing is run."""

from __future__ import annotations

import numpy as np

from profiler.graph.fusion import units_of
from profiler.graph.graph import Graph, Node
from profiler.graph.observation import ObservedTensor
from profiler.links import SteadyLink
from profiler.profile import CodecSpeed
from profiler.testing import fake_profile
from profiler.values import ModelIdentity, TensorSlot
from protocol.codecs import parse_codec
from splitter.cuts import CutSpace
from splitter.situation import Hop, Situation

CODECS = {name: CodecSpeed(1000, 1500, 0.02) for name in ("raw", "affine8")}


def generated_situation(nodes: int, tiers: int = 2, seed: int = 0) -> Situation:
    """A network with residual connections and side branches; sizes shrink towards its end."""
    source = np.random.default_rng(seed)
    graph = _graph(nodes, source)
    units = units_of(graph, [])
    shrink = np.exp(-3 * np.arange(nodes + 1) / nodes)
    elements = (200_000 * shrink * np.exp(source.normal(0, 0.7, nodes + 1))).astype(int) + 1
    names = ["x", *(f"t{i}" for i in range(nodes))]
    tensors = {
        name: ObservedTensor(
            TensorSlot(name, "float32", (int(count),)),
            (int(count),),
            {"affine8": int(count * 0.8), "raw": int(count * 3.5)},
        )
        for name, count in zip(names, elements, strict=True)
    }
    work_ms = source.gamma(1.0, 100 / nodes, nodes)
    profiles = [
        fake_profile(
            {f"n{i}": float(ms) / 6**tier for i, ms in enumerate(work_ms)},
            label=f"tier {tier}",
            overhead_ms=0.1,
            codecs=CODECS,
        )
        for tier in range(tiers)
    ]
    return Situation(
        model=ModelIdentity(f"generated-{nodes}", "0" * 64),
        space=CutSpace.of(graph, units, tensors),
        tensors=tensors,
        device=profiles[0],
        cloud=profiles[-1],
        link=SteadyLink(20, 20, 10),
        codecs=(parse_codec("affine8"),),
        middle=tuple(Hop(profile, SteadyLink(100, 100, 20)) for profile in profiles[1:-1]),
    )


def _graph(nodes: int, source: np.random.Generator) -> Graph:
    made: list[Node] = []
    read: set[str] = set()
    for index in range(nodes):
        last = f"t{index - 1}" if index else "x"
        reads = {last: None}
        if index > 4 and source.random() < 0.3:
            reads[f"t{index - int(source.integers(2, 5))}"] = None
        made.append(Node(f"n{index}", "Op", "", tuple(reads), (f"t{index}",)))
        read.update(reads)
    slots = (TensorSlot("x", "float32", (1,)),)
    loose = tuple(f"t{i}" for i in range(nodes) if f"t{i}" not in read)
    return Graph(tuple(made), slots, loose, {})
