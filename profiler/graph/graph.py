"""The structure of a model: nodes, tensors and who needs what. Needs onnx only to be built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx

from profiler.errors import ModelError
from profiler.values import TensorSlot

_RANDOM_OPERATORS = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


@dataclass(frozen=True)
class Node:
    """One operator call at the top level of a model.

    Attributes:
        name: Unique in the model.
        op_type: Operator or local function.
        domain: Empty for the standard operators.
        inputs: Tensors it reads, captures of If, Loop and Scan bodies included; no empty names.
        outputs: Tensors it makes; no empty names.
        attributes: Numbers, strings and tuples of them; bodies and tensors are left out.
        arguments: Its declared inputs by position, empty names included.
    """

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """A model's nodes in topological order, without its weights.

    Attributes:
        nodes: All nodes.
        inputs: What the user feeds.
        outputs: Names of what the user gets.
        initializers: dtype and shape of each weight.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[TensorSlot, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, TensorSlot]

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Node of each node name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def position(self) -> dict[str, int]:
        """Place of each node name in the topological order."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    @cached_property
    def producer(self) -> dict[str, Node]:
        """Node that makes each tensor; graph inputs and weights have none."""
        return {output: node for node in self.nodes for output in node.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """Nodes that read each tensor directly."""
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in readers.items()}

    @cached_property
    def input_names(self) -> frozenset[str]:
        """Names of the tensors that the user feeds."""
        return frozenset(slot.name for slot in self.inputs)

    @cached_property
    def floating(self) -> frozenset[str]:
        """Names of nodes that either side computes for itself and that never decide a cut.

        These are nodes that depend on weights only, and each DequantizeLinear with constant scale:
        what crosses a cut is then the quantised tensor, and both sides keep their integer kernels.
        """
        constant = set(self.initializers)
        floating: set[str] = set()
        outputs = set(self.outputs)
        for node in self.nodes:
            if outputs.intersection(node.outputs):
                continue
            if constant.issuperset(node.inputs):
                if node.op_type not in _RANDOM_OPERATORS:
                    floating.add(node.name)
                    constant.update(node.outputs)
            elif node.op_type == "DequantizeLinear" and constant.issuperset(node.inputs[1:]):
                floating.add(node.name)
        return frozenset(floating)

    @cached_property
    def regular(self) -> tuple[Node, ...]:
        """The nodes that a cut assigns to one side, in topological order."""
        return tuple(node for node in self.nodes if node.name not in self.floating)

    @cached_property
    def _sources(self) -> dict[str, frozenset[str]]:
        sources: dict[str, frozenset[str]] = {name: frozenset() for name in self.initializers}
        sources.update({name: frozenset({name}) for name in self.input_names})
        for node in self.nodes:
            if node.name in self.floating:
                needed = frozenset().union(*(sources[name] for name in node.inputs))
                sources.update(dict.fromkeys(node.outputs, needed))
            else:
                sources.update({name: frozenset({name}) for name in node.outputs})
        return sources

    def sources(self, tensors: Iterable[str]) -> frozenset[str]:
        """Return the graph inputs and regular outputs that must be known to have these tensors."""
        return frozenset().union(*(self._sources[name] for name in tensors))


@dataclass(frozen=True)
class Unit:
    """Nodes that a cut must not tear apart.

    Attributes:
        index: Position in a topological order of all units.
        name: The name of its last node.
        nodes: Its nodes in topological order.
        inputs: Tensors that it needs from outside: graph inputs or outputs of other units.
        outputs: Tensors that it makes for other units or for the user.
    """

    index: int
    name: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def captured_names(body: onnx.GraphProto) -> set[str]:
    """Return the outer tensors that a body of If, Loop or Scan reads, nested bodies included."""
    known = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    captured: set[str] = set()
    for node in body.node:
        captured.update(set(node_inputs(node)) - known)
        known.update(node.output)
    captured.update({value.name for value in body.output} - known)
    return captured


def node_bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the bodies of a control-flow node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def node_inputs(node: onnx.NodeProto) -> list[str]:
    """Return all tensors that a node reads, captures of its bodies included, each once."""
    names = [name for name in node.input if name]
    for body in node_bodies(node):
        names.extend(sorted(captured_names(body)))
    return list(dict.fromkeys(names))


def tensor_dtype(elem_type: int) -> str:
    """Return the numpy dtype name of an ONNX element type (``string`` for strings)."""
    if elem_type == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    except KeyError:
        raise ModelError(f"a tensor has the unknown element type {elem_type}") from None


def build_graph(proto: onnx.GraphProto) -> Graph:
    """Return the structure of a normalised model graph."""
    weights = {
        tensor.name: TensorSlot(tensor.name, tensor_dtype(tensor.data_type), tuple(tensor.dims))
        for tensor in proto.initializer
    }
    inputs = tuple(_input_slot(value) for value in proto.input)
    return Graph(
        nodes=tuple(_node(node) for node in proto.node),
        inputs=inputs,
        outputs=tuple(dict.fromkeys(value.name for value in proto.output)),
        initializers=weights,
    )


def _node(node: onnx.NodeProto) -> Node:
    simple = {
        onnx.AttributeProto.INT,
        onnx.AttributeProto.FLOAT,
        onnx.AttributeProto.STRING,
        onnx.AttributeProto.INTS,
        onnx.AttributeProto.FLOATS,
    }
    attributes = {
        attribute.name: _plain(onnx.helper.get_attribute_value(attribute))
        for attribute in node.attribute
        if attribute.type in simple
    }
    return Node(
        name=node.name,
        op_type=node.op_type,
        domain="" if node.domain == "ai.onnx" else node.domain,
        inputs=tuple(node_inputs(node)),
        outputs=tuple(name for name in node.output if name),
        attributes=attributes,
        arguments=tuple(node.input),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, (int, float, str)) else tuple(value)


def _input_slot(value: onnx.ValueInfoProto) -> TensorSlot:
    tensor = value.type.tensor_type
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        for dim in tensor.shape.dim
    )
    return TensorSlot(value.name, tensor_dtype(tensor.elem_type), shape)
