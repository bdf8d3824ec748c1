"""What is seen of the runtime's own graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.runtime import RuntimeGraph
from profiler.graph.runtime_observation import observe_runtime
from profiler.graph.weights import store_model
from tests import zoo


def seen(model: onnx.ModelProto, feeds: dict[str, Any], folder: Path) -> RuntimeGraph:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    stored = store_model(load_model(path), folder)
    return observe_runtime(stored, observe(stored, feeds))


@pytest.mark.parametrize("name", sorted(zoo.ZOO))
def test_any_model_can_be_seen(name: str, tmp_path: Path) -> None:
    model = zoo.ZOO[name]()
    runtime = seen(model.proto, model.feeds, tmp_path)
    made = {name for kernel in runtime.kernels for name in kernel.step.outputs if name}
    assert made <= runtime.tensor_bytes.keys()
    assert runtime.outputs <= made | model.feeds.keys() | runtime.weights.keys()
    for kernel in runtime.kernels:
        assert set(kernel.weights) <= runtime.weights.keys()
    assert sum(runtime.unit_nodes.values()) > 0


def convolutions(normalised: bool) -> onnx.ModelProto:
    """Two convolutions of 16 channels each on 8 x 8 pixels, the second normalised or not."""
    generator = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(generator.random(shape, np.float32) + 0.5, name)

    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1] * 4),
        helper.make_node("GlobalAveragePool", ["d" if normalised else "c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2"], ["y"]),
    ]
    if normalised:
        inputs = ["c", "scale", "shift", "mean", "variance"]
        nodes.insert(3, helper.make_node("BatchNormalization", inputs, ["d"]))
    weights = [weight("w0", 16, 16, 3, 3), weight("w1", 16, 16, 3, 3), weight("w2", 16, 40)]
    weights += [weight(name, 16) for name in ("scale", "shift", "mean", "variance") if normalised]
    shapes = {"x": [1, 16, 8, 8], "y": [1, 40]}
    values = {
        name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    }
    graph = helper.make_graph(nodes, "g", [values["x"]], [values["y"]], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_kernels_run_in_order_and_fused_tensors_are_not_there(tmp_path: Path) -> None:
    feeds = {"x": np.ones((1, 16, 8, 8), np.float32)}
    runtime = seen(convolutions(False), feeds, tmp_path)
    known = set(feeds)
    for kernel in runtime.kernels:
        assert {name for name in kernel.step.inputs if name} <= known
        known.update(kernel.step.outputs)
    assert "a" not in runtime.tensor_bytes
    assert runtime.outputs == {"y"}
    assert runtime.tensor_bytes["y"] == 160
    assert runtime.fixed_shapes
    assert sum(runtime.unit_nodes.values()) == 6


def test_weights_are_counted_as_they_are_held(tmp_path: Path) -> None:
    feeds = {"x": np.ones((1, 16, 8, 8), np.float32)}
    runtime = seen(convolutions(True), feeds, tmp_path)
    sizes = {name: weight.size_bytes for name, weight in runtime.weights.items()}
    assert sum(sizes.values()) == pytest.approx(2 * 16 * 16 * 9 * 4 + 16 * 40 * 4, rel=0.05)
    assert runtime.weights["w2"].rewrites == 0
    plain, folded = (
        max(
            runtime.weights[name].rewrites
            for kernel in runtime.kernels
            if kernel.unit == unit
            for name in kernel.weights
            if runtime.weights[name].size_bytes > 1000
        )
        for unit in (0, 1)
    )
    # A blocked layout, where this machine has one, makes one version more of each.
    assert folded == plain + 1


def test_weights_of_bodies_count(tmp_path: Path) -> None:
    model = zoo.loop_state()
    runtime = seen(model.proto, model.feeds, tmp_path)
    assert sum(runtime.unit_nodes.values()) > len(model.proto.graph.node)


def test_free_axes_are_noticed(tmp_path: Path) -> None:
    model = convolutions(False)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    feeds = {"x": np.ones((2, 16, 8, 8), np.float32)}
    runtime = seen(model, feeds, tmp_path)
    assert not runtime.fixed_shapes
    assert runtime.tensor_bytes["y"] == 320
