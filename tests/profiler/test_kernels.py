"""Kernel times are read and find the units they belong to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.weights import store_model
from profiler.kernels import Attribution, Kernel, attribute_kernels, read_kernels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    SaveModel = Callable[..., Path]


def run(start: int, *kernels: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Events of one run: kernels as (name, start, duration) after the run's own start."""
    events = [
        {
            "cat": "Node",
            "name": f"{name}_kernel_time",
            "ts": start + begin,
            "dur": duration,
            "args": {"op_name": name.title()},
        }
        for name, begin, duration in kernels
    ]
    return [*events, {"cat": "Session", "name": "model_run", "ts": start, "dur": 900, "args": {}}]


def test_reads_typical_times_in_order_and_drops_the_first_runs() -> None:
    events = [
        *run(0, ("conv", 1, 800), ("relu", 810, 80)),
        *run(1000, ("conv", 1, 10), ("relu", 20, 3)),
        *run(2000, ("conv", 1, 12), ("relu", 20, 4)),
        *run(3000, ("conv", 1, 500), ("relu", 510, 3)),
        *run(4000, ("conv", 1, 12), ("relu", 20, 4)),
    ]
    assert read_kernels(events, warm_up=1) == [
        Kernel("conv", "Conv", 0.012, 0.001),
        Kernel("relu", "Relu", 0.0035, 0.0005),
    ]


def test_kernels_inside_a_body_are_part_of_its_node() -> None:
    body = (("if", 0, 100), ("inner", 10, 40), ("inner", 55, 40), ("after", 100, 7))
    kernels = read_kernels(run(0, *body), warm_up=0)
    assert [(kernel.name, kernel.latency_ms) for kernel in kernels] == [
        ("if", 0.1),
        ("after", 0.007),
    ]


def profiled(
    path: Path, tmp_path: Path, feed: Path | None = None
) -> tuple[Attribution, list[Kernel], tuple[str, ...]]:
    """Attribution, all kernels, and the names of the units, of a model that really ran."""
    loaded = load_model(path)
    folder = tmp_path / "stored"
    folder.mkdir()
    stored = store_model(loaded, folder)
    feeds = resolve_feeds(loaded.graph.inputs, read_feeds(feed) if feed else {}, {})
    units = observe(stored, feeds).units
    options = EngineOptions(threads=1, profile_prefix=folder / "profile")
    session = OnnxRuntimeEngine(options).load(stored.full)
    for _ in range(3):
        session.run(feeds)
    kernels = read_kernels(json.loads(session.end_profile().read_text()), warm_up=1)
    session_options = onnxruntime.SessionOptions()
    session_options.optimized_model_filepath = str(folder / "optimised.onnx")
    session_options.log_severity_level = 4
    onnxruntime.InferenceSession(
        str(stored.full), session_options, providers=["CPUExecutionProvider"]
    )
    optimised = onnx.load(folder / "optimised.onnx", load_external_data=False).graph
    attribution = attribute_kernels(kernels, optimised, loaded.graph, units)
    return attribution, kernels, tuple(unit.name for unit in units)


def small_network(save_model: SaveModel) -> Path:
    """Two convolutions with activation, a pooling and a matrix product."""
    generator = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w1", (16, 3, 3, 3)), ("w2", (16, 16, 3, 3)), ("w3", (16, 10)))
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c1"], name="conv1", pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="conv2", pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"], name="relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "w3"], ["logits"], name="matmul"),
    ]
    return save_model(nodes, {"image": [1, 3, 32, 32]}, {"logits": [1, 10]}, weights)


def test_fused_kernels_belong_to_the_unit_they_compute(
    save_model: SaveModel, tmp_path: Path
) -> None:
    attribution, kernels, units = profiled(small_network(save_model), tmp_path)
    computing = {
        units[index]: {kernel.operator for kernel in group}
        for index, group in attribution.kernels.items()
    }
    assert "Conv" in " ".join(computing["relu1"])  # Conv or FusedConv, as the processor allows
    assert "Conv" in " ".join(computing["relu2"])
    assert attribution.unattributed == ()
    groups = (*attribution.kernels.values(), *attribution.layout.values())
    assert sorted(kernel.name for group in groups for kernel in group) == sorted(
        kernel.name for kernel in kernels
    )


def test_layout_changes_are_kept_apart(save_model: SaveModel, tmp_path: Path) -> None:
    attribution, kernels, _ = profiled(small_network(save_model), tmp_path)
    reorders = {kernel.name for kernel in kernels if kernel.operator.startswith("Reorder")}
    noted = {kernel.name for group in attribution.layout.values() for kernel in group}
    assert noted == reorders


def test_a_kernel_nobody_knows_is_unattributed(save_model: SaveModel, tmp_path: Path) -> None:
    path = small_network(save_model)
    loaded = load_model(path)
    mystery = Kernel("Mystery", "Mystery", 1.0, 0.0)
    attribution = attribute_kernels([mystery], onnx.GraphProto(), loaded.graph, ())
    assert attribution.unattributed == (mystery,)


def test_duplicate_and_empty_node_names_do_not_matter(
    save_model: SaveModel, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], name="same"),
        helper.make_node("Sin", ["a"], ["b"], name="same"),
        helper.make_node("Cos", ["b"], ["y"]),
    ]
    path = save_model(nodes, {"x": [64]}, {"y": [64]})
    attribution, kernels, _ = profiled(path, tmp_path)
    assert len(kernels) == 3
    assert sorted(attribution.kernels) == [0, 1, 2]


def test_a_branch_costs_what_it_runs(save_model: SaveModel, tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["e"], name="exp")],
        "branch",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Sin", ["x"], ["s"], name="sin")],
        "other",
        [],
        [helper.make_tensor_value_info("s", TensorProto.FLOAT, None)],
    )
    nodes = [helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch, else_branch=other)]
    path = save_model(nodes, {"x": [9], "c": (TensorProto.BOOL, [])}, {"y": [9]})
    attribution, kernels, units = profiled(path, tmp_path)
    assert [kernel.operator for kernel in kernels] == ["If"]
    assert list(attribution.kernels) == [units.index("if")]


@pytest.mark.parametrize(
    "name",
    ["efficientnet_lite0", "efficientnet_lite0_qdq_int8", "tinygpt_prefill", "ppocr_cls"],
)
def test_all_kernels_of_real_networks_are_attributed(
    shared: Path, tmp_path: Path, name: str
) -> None:
    """Fused, quantised, transformer, and one with many layout changes."""
    models = shared / "models"
    attribution, _, units = profiled(models / f"{name}.onnx", tmp_path, models / f"{name}.feed.npz")
    assert attribution.unattributed == ()
    assert len(attribution.kernels) > len(units) / 2
