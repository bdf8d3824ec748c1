"""Random models, random legal cuts: the parts compose to the whole, fused groups included."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.graph.fusion import fused_units, units_of
from profiler.graph.model import load_model
from profiler.graph.trial import optimised_graph
from profiler.graph.weights import store_model
from profiler.values import TensorSlot
from splitter.cuts import CutSpace
from splitter.extraction import disagreement, run_parts, write_head, write_tail
from tests.splitter.graphs import SHAPE, models
from tests.splitter.helpers import ENGINE


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(models(), st.integers(0, 1 << 30), st.booleans())
def test_composition_is_the_whole(proto: onnx.ModelProto, seed: int, fused: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        loaded = load_model(path)
        stored = store_model(loaded, folder)
        units = (
            fused_units(
                loaded.graph,
                optimised_graph(stored.full, folder, "extended"),
                optimised_graph(stored.full, folder, "all"),
            )
            if fused
            else units_of(loaded.graph, [])
        )
        space = CutSpace(loaded.graph, units)
        cut = space.sample(1, seed)[0]
        tensors = {name for node in loaded.graph.nodes for name in node.outputs}
        shape = tuple(SHAPE)
        slots = {
            name: TensorSlot(name, "float32", (2, None) if name[-1] in "ab" else shape)
            for name in tensors | loaded.graph.input_names
        }
        noise = np.random.default_rng(seed)
        feeds = {
            slot.name: noise.standard_normal(shape).astype(np.float32)
            for slot in loaded.graph.inputs
        }
        whole = ENGINE.load(path).run(feeds)
        head = write_head(stored, cut, slots, "head.onnx")
        tail = write_tail(stored, cut, slots, "tail.onnx")
        parts = run_parts(ENGINE, head, tail, feeds)
        assert disagreement(whole, parts) <= 1e-5
        made = {name for index in cut.units for name in space.units[index].outputs}
        assert set(cut.frontier) <= made | loaded.graph.input_names
