"""Random graphs, without models behind them or with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from profiler.graph.fusion import units_of
from profiler.graph.graph import Graph, Node
from profiler.values import TensorSlot
from splitter.cuts import CutSpace

SHAPE = [2, 4]
_UNARY = ["Relu", "Tanh", "Neg", "Sigmoid", "Identity", "MatMul", "Bias"]
_BINARY = ["Add", "Sub", "Mul", "Min"]


@st.composite
def graphs(draw: st.DrawFn, most_nodes: int = 8) -> Graph:
    """Structures only: up to two inputs, nodes with one or two outputs, any wiring."""
    inputs = [f"in{i}" for i in range(draw(st.integers(1, 2)))]
    known = list(inputs)
    nodes = []
    for index in range(draw(st.integers(1, most_nodes))):
        reads = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        outputs = [f"t{index}_{k}" for k in range(draw(st.integers(1, 2)))]
        known.extend(outputs)
        nodes.append(Node(f"n{index}", "Op", "", tuple(reads), tuple(outputs)))
    made = [name for name in known if name not in inputs]
    read = {name for node in nodes for name in node.inputs}
    loose = [node.outputs[0] for node in nodes if not read.intersection(node.outputs)]
    extra = draw(st.lists(st.sampled_from(made), max_size=2, unique=True))
    outputs = tuple(dict.fromkeys([*loose, *extra]))
    slots = tuple(TensorSlot(name, "float32", (2, 4)) for name in inputs)
    return Graph(tuple(nodes), slots, outputs, {})


@st.composite
def spaces(draw: st.DrawFn, most_nodes: int = 8) -> CutSpace:
    """Graphs with fused groups and with tensors that cannot be sent."""
    graph = draw(graphs(most_nodes))
    names = [node.name for node in graph.nodes]
    groups = draw(st.lists(st.lists(st.sampled_from(names), max_size=2), max_size=2))
    made = [name for node in graph.nodes for name in node.outputs]
    unsendable = draw(st.frozensets(st.sampled_from(made), max_size=1))
    return CutSpace(graph, units_of(graph, groups), unsendable)


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """Models that run: element-wise operators and matrix products on one small shape."""
    inputs = [f"in{i}" for i in range(draw(st.integers(1, 2)))]
    known, nodes, weights = list(inputs), [], []
    for index in range(draw(st.integers(1, 9))):
        output = f"t{index}"
        kind = draw(st.sampled_from([*_UNARY, *_BINARY, "Halves"]))
        reads = [draw(st.sampled_from(known)), draw(st.sampled_from(known))]
        if kind == "Halves":  # two outputs, swapped and joined again
            nodes.append(helper.make_node("Split", reads[:1], [f"{output}a", f"{output}b"], axis=1))
            reads = [f"{output}b", f"{output}a"]
            nodes.append(helper.make_node("Concat", reads, [output], axis=1))
        elif kind in {"MatMul", "Bias"}:
            shape = (4, 4) if kind == "MatMul" else (4,)
            value = np.random.default_rng(index).standard_normal(shape).astype(np.float32) / 2
            weights.append(numpy_helper.from_array(value, f"w{index}"))
            operator = "MatMul" if kind == "MatMul" else "Add"
            nodes.append(helper.make_node(operator, [reads[0], f"w{index}"], [output]))
        else:
            count = 1 if kind in _UNARY else 2
            nodes.append(helper.make_node(kind, reads[:count], [output]))
        known.append(output)
    read = {name for node in nodes for name in node.input}
    made = [name for name in known if name not in inputs]
    loose = [name for name in made if name not in read]
    extra = draw(st.lists(st.sampled_from(made), max_size=2, unique=True))
    return helper.make_model(
        helper.make_graph(
            nodes,
            "random",
            [_value(name) for name in inputs],
            [_value(name) for name in dict.fromkeys([*loose, *extra])],
            weights,
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )


def _value(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)
