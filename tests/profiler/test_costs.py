"""Multiply-accumulates, bytes and classes of nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from onnx import TensorProto, helper

from profiler import costs
from profiler.costs import OperatorClass, Rates, Work, node_macs, operator_class, unit_work
from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.graph import Graph, Node, Unit
from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.weights import store_model
from profiler.values import TensorSlot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def node(
    op_type: str, inputs: dict[str, tuple[int, ...]], output: tuple[int, ...], **attributes: Any
) -> tuple[Node, dict[str, TensorSlot]]:
    """A node with inputs of these shapes, and the slots of its tensors."""
    slots = {name: TensorSlot(name, "float32", shape) for name, shape in inputs.items()}
    slots["out"] = TensorSlot("out", "float32", output)
    names = tuple(inputs)
    made = Node("node", op_type, "", names, ("out",), attributes, names)
    return made, slots


@pytest.mark.parametrize(
    ("op_type", "inputs", "output", "attributes", "kind", "macs"),
    [
        ("Conv", {"x": (1, 8, 10, 10), "w": (16, 8, 1, 1)}, (1, 16, 10, 10), {}, "conv1x1", 12800),
        ("Conv", {"x": (1, 8, 10, 10), "w": (16, 8, 3, 3)}, (1, 16, 5, 5), {}, "conv3x3", 28800),
        ("Conv", {"x": (1, 8, 10, 10), "w": (16, 8, 5, 5)}, (1, 16, 6, 6), {}, "conv", 115200),
        (
            "Conv",
            {"x": (1, 8, 10, 10), "w": (8, 1, 3, 3)},
            (1, 8, 10, 10),
            {"group": 8},
            "depthwise",
            7200,
        ),
        ("Conv", {"x": (1, 8, 10), "w": (4, 4, 3)}, (1, 4, 8), {"group": 2}, "conv", 384),
        ("ConvTranspose", {"x": (1, 8, 5, 5), "w": (8, 4, 2, 2)}, (1, 4, 10, 10), {}, "conv", 3200),
        ("Gemm", {"x": (1, 32), "w": (10, 32)}, (1, 10), {"transB": 1}, "dense", 320),
        ("Gemm", {"x": (32, 4), "w": (32, 10)}, (4, 10), {"transA": 1}, "matmul", 1280),
        ("MatMul", {"x": (2, 7, 5), "w": (5, 3)}, (2, 7, 3), {}, "matmul", 210),
        (
            "LSTM",
            {"x": (6, 2, 5), "w": (1, 12, 5), "r": (1, 12, 3)},
            (6, 1, 2, 3),
            {},
            "recurrent",
            6 * 2 * (60 + 36),
        ),
        ("Relu", {"x": (1, 8)}, (1, 8), {}, "elementwise", 0),
        ("Reshape", {"x": (1, 8), "shape": (2,)}, (2, 4), {}, "view", 0),
        ("If", {"c": ()}, (2, 4), {}, "opaque", 0),
    ],
)
def test_classes_and_macs(
    op_type: str,
    inputs: dict[str, tuple[int, ...]],
    output: tuple[int, ...],
    attributes: dict[str, Any],
    kind: OperatorClass,
    macs: int,
) -> None:
    made, slots = node(op_type, inputs, output, **attributes)
    assert operator_class(made, slots) == kind
    assert node_macs(made, slots) == macs


def test_an_unknown_domain_is_opaque() -> None:
    made, slots = node("Conv", {"x": (1, 8, 2, 2), "w": (1, 8, 1, 1)}, (1, 1, 2, 2))
    foreign = Node(made.name, made.op_type, "acme", made.inputs, made.outputs, {}, made.arguments)
    assert operator_class(foreign, slots) == "opaque"
    assert node_macs(foreign, slots) == 0


def test_a_unit_moves_only_what_crosses_its_border() -> None:
    slots = {
        name: TensorSlot(name, "float32", shape)
        for name, shape in {"x": (1, 4), "w": (4, 4), "mid": (1, 4), "y": (1, 4)}.items()
    }
    graph = Graph(
        nodes=(
            Node("product", "MatMul", "", ("x", "w"), ("mid",), {}, ("x", "w")),
            Node("relu", "Relu", "", ("mid",), ("y",), {}, ("mid",)),
        ),
        inputs=(slots["x"],),
        outputs=("y",),
        initializers={"w": slots["w"]},
    )
    product = Unit(0, "product", ("product",), ("x",), ("mid",))
    relu = Unit(1, "relu", ("relu",), ("mid",), ("y",))
    both = Unit(0, "relu", ("product", "relu"), ("x",), ("y",))
    assert unit_work(product, graph, slots) == Work({"dense": 16}, 4 * (4 + 16 + 4), "dense")
    assert unit_work(relu, graph, slots) == Work({}, 4 * (4 + 4), "elementwise")
    assert unit_work(both, graph, slots) == Work({"dense": 16}, 4 * (4 + 16 + 4), "dense")


def test_a_lookup_reads_rows_and_not_the_table() -> None:
    slots = {
        "table": TensorSlot("table", "float32", (50_000, 8)),
        "ids": TensorSlot("ids", "int64", (2,)),
        "rows": TensorSlot("rows", "float32", (2, 8)),
    }
    gather = Node("g", "Gather", "", ("table", "ids"), ("rows",), {}, ("table", "ids"))
    graph = Graph((gather,), (slots["ids"],), ("rows",), {"table": slots["table"]})
    unit = Unit(0, "g", ("g",), ("ids",), ("rows",))
    assert unit_work(unit, graph, slots).moved_bytes == 2 * 8 + 2 * 8 * 4


def test_rates_add_arithmetic_memory_and_the_layer_itself() -> None:
    rates = Rates({"conv1x1": 2.0}, bandwidth_gb_s=0.5, elementwise_gb_s=0.25, layer_us=100)
    work = Work({"conv1x1": 4_000_000, "dense": 10**9}, moved_bytes=1_500_000, kind="conv1x1")
    assert rates.latency_ms(work) == pytest.approx(2 + 3 + 0.1)
    assert rates.latency_ms(Work({}, 1_500_000, "elementwise")) == pytest.approx(6 + 0.1)
    assert rates.latency_ms(Work({}, 10**9, "view")) == 0


@pytest.mark.parametrize("name", ["efficientnet_lite0", "ppocrv4_rec", "resemblyzer_lstm"])
def test_macs_of_real_networks_are_those_of_the_manifest(
    shared: Path, tmp_path: Path, name: str
) -> None:
    manifest = json.loads((shared / "models" / "manifest.json").read_text())
    loaded = load_model(shared / "models" / manifest[name]["file"])
    feeds = read_feeds(shared / "models" / f"{name}.feed.npz")
    observation = observe(
        store_model(loaded, tmp_path), resolve_feeds(loaded.graph.inputs, feeds, {})
    )
    slots = {
        **loaded.graph.initializers,
        **{
            key: TensorSlot(key, seen.slot.dtype, seen.shape)
            for key, seen in observation.tensors.items()
        },
    }
    total = sum(
        sum(unit_work(unit, loaded.graph, slots).macs.values()) for unit in observation.units
    )
    assert total == manifest[name]["macs"]


def test_text_and_bodies_have_no_size(save_model: Callable[..., Path], tmp_path: Path) -> None:
    path = save_model(
        [helper.make_node("Identity", ["t"], ["u"])],
        {"t": (TensorProto.STRING, [2])},
        {"u": (TensorProto.STRING, [2])},
    )
    graph = load_model(path).graph
    slots = {name: TensorSlot(name, "string", (2,)) for name in ("t", "u")}
    name = graph.nodes[0].name
    unit = Unit(0, name, (name,), ("t",), ("u",))
    assert unit_work(unit, graph, slots) == Work({}, 0, "view")


@pytest.mark.parametrize("dtype", ["string", "seq(map(int64,tensor(float)))"])
def test_what_has_no_fixed_size_counts_as_nothing(dtype: str) -> None:
    assert costs._bytes(TensorSlot("x", dtype, (3,))) == 0
