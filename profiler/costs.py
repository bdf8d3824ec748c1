"""How much work a node is: multiply-accumulates, bytes moved, and the class of operator.

Pure: computed from the attributes of nodes and the shapes that were observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from profiler.graph.graph import Graph, Node, Unit
    from profiler.values import TensorSlot

__all__ = [
    "OPERATOR_CLASSES",
    "OperatorClass",
    "Rates",
    "Work",
    "hidden_class",
    "is_opaque",
    "node_macs",
    "operator_class",
    "unit_work",
]

OperatorClass = Literal[
    "conv1x1",
    "conv3x3",
    "conv",  # of any other kernel, groups or number of axes
    "depthwise",
    "dense",  # one row times a matrix of weights: bound by reading the weights
    "matmul",
    "recurrent",
    "elementwise",  # anything bound by the bytes it moves
    "view",  # changes only how a tensor is looked at; moves nothing
    "opaque",  # a body or an unknown domain: what it does cannot be seen
]
OPERATOR_CLASSES: tuple[OperatorClass, ...] = get_args(OperatorClass)

_VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"})
_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
_KNOWN_DOMAINS = frozenset({"", "ai.onnx.ml"})
# They read a few rows of a table, not all of it.
_LOOKUPS = frozenset({"Gather", "GatherElements", "GatherND"})

Slots = Mapping[str, "TensorSlot"]


@dataclass(frozen=True)
class Work:
    """What a unit of nodes does in one run.

    Attributes:
        macs: Multiply-accumulates by operator class; only classes that have any.
        moved_bytes: Tensors read and written at the unit's borders, and its weights.
        kind: The class that stands for the unit: that with the most multiply-accumulates.
    """

    macs: Mapping[OperatorClass, int]
    moved_bytes: int
    kind: OperatorClass


@dataclass(frozen=True)
class Rates:
    """How fast a machine works.

    Attributes:
        gmacs_s: 10^9 multiply-accumulates a second by operator class. A class without a rate takes
            only the time its bytes take.
        bandwidth_gb_s: 10^9 bytes moved a second by layers with arithmetic.
        elementwise_gb_s: The same by element-wise layers.
        layer_us: What each layer costs, however small.
    """

    gmacs_s: Mapping[OperatorClass, float]
    bandwidth_gb_s: float
    elementwise_gb_s: float
    layer_us: float

    def latency_ms(self, work: Work) -> float:
        """Time that this work takes, arithmetic and memory one after the other."""
        if work.kind == "view":
            return 0.0
        arithmetic_ms = sum(
            count / (self.gmacs_s[kind] * 1e6)
            for kind, count in work.macs.items()
            if kind in self.gmacs_s
        )
        gb_s = self.elementwise_gb_s if work.kind == "elementwise" else self.bandwidth_gb_s
        return arithmetic_ms + work.moved_bytes / (gb_s * 1e6) + self.layer_us / 1e3


def unit_work(unit: Unit, graph: Graph, slots: Slots) -> Work:
    """Add up the work of a unit; tensors that stay inside it are not moved.

    Args:
        unit: The unit.
        graph: The graph it belongs to.
        slots: dtype and concrete shape of every graph input, node output and weight.
    """
    nodes = [graph.by_name[name] for name in unit.nodes]
    macs: dict[OperatorClass, int] = {}
    for node in nodes:
        if count := node_macs(node, slots):
            kind = operator_class(node, slots)
            macs[kind] = macs.get(kind, 0) + count
    kinds = [operator_class(node, slots) for node in nodes]
    return Work(macs, _moved_bytes(unit, nodes, slots), _leading_class(macs, kinds))


def operator_class(node: Node, slots: Slots) -> OperatorClass:
    """Return the class whose rate decides how long a node takes."""
    if is_opaque(node.op_type, node.domain):
        return "opaque"
    if node.op_type in _VIEWS:
        return "view"
    if node.op_type in _CONVOLUTIONS:
        return _convolution_class(node, slots)
    if node.op_type in _MATRIX_PRODUCTS:
        rows = math.prod(_shape(node, 0, slots)[:-1])
        return "dense" if rows == 1 else "matmul"
    if node.op_type in _RECURRENT:
        return "recurrent"
    return "elementwise"


def is_opaque(op_type: str, domain: str) -> bool:
    """Whether an operator is a body, a local function, or of a domain that is not known here."""
    return op_type in _BODIES or domain not in _KNOWN_DOMAINS


def hidden_class(op_type: str) -> OperatorClass | None:
    """Return the class of an operator whose shapes cannot be seen, if its name alone tells one."""
    if op_type in _RECURRENT:
        return "recurrent"
    return "matmul" if op_type in _MATRIX_PRODUCTS else None


def node_macs(node: Node, slots: Slots) -> int:
    """Count a node's multiply-accumulates; 0 for classes bound by the bytes they move."""
    count = _MACS.get(node.op_type)
    return count(node, slots) if count and node.domain in _KNOWN_DOMAINS else 0


def _convolution_class(node: Node, slots: Slots) -> OperatorClass:
    weight = _shape(node, _weight_position(node), slots)
    kernel, groups = weight[2:], node.attributes.get("group", 1)
    if groups > 1:
        return "depthwise" if groups == _shape(node, 0, slots)[1] else "conv"
    if set(kernel) == {1}:
        return "conv1x1"
    return "conv3x3" if kernel == (3, 3) and node.op_type != "ConvTranspose" else "conv"


def _convolution_macs(node: Node, slots: Slots) -> int:
    weight = _shape(node, _weight_position(node), slots)
    # Each output element takes one kernel over the channels of its group; a transposed
    # convolution spends the same on each input element.
    elements = _shape(node, 0, slots) if node.op_type == "ConvTranspose" else _output(node, slots)
    return math.prod(elements) * math.prod(weight[1:])


def _matrix_product_macs(node: Node, slots: Slots) -> int:
    first = _shape(node, 0, slots)
    if not first:
        return 0
    inner = first[0] if node.attributes.get("transA") else first[-1]
    return math.prod(_output(node, slots)) * inner


def _recurrent_macs(node: Node, slots: Slots) -> int:
    # Inputs X [steps, batch, features], W [directions, gates * hidden, features],
    # R [directions, gates * hidden, hidden].
    steps, batch = _shape(node, 0, slots)[:2]
    weights = math.prod(_shape(node, 1, slots)) + math.prod(_shape(node, 2, slots))
    return steps * batch * weights


_CONVOLUTIONS = frozenset({"Conv", "ConvInteger", "ConvTranspose", "QLinearConv"})
_MATRIX_PRODUCTS = frozenset({"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"})
_RECURRENT = frozenset({"DynamicQuantizeLSTM", "GRU", "LSTM", "RNN"})
_MACS: Mapping[str, Callable[[Node, Slots], int]] = {
    **dict.fromkeys(_CONVOLUTIONS, _convolution_macs),
    **dict.fromkeys(_MATRIX_PRODUCTS, _matrix_product_macs),
    **dict.fromkeys(_RECURRENT, _recurrent_macs),
}


def _weight_position(node: Node) -> int:
    return 3 if node.op_type == "QLinearConv" else 1


def _shape(node: Node, position: int, slots: Slots) -> tuple[int, ...]:
    return _fixed(slots[node.arguments[position]])


def _output(node: Node, slots: Slots) -> tuple[int, ...]:
    return _fixed(slots[node.outputs[0]])


def _fixed(slot: TensorSlot) -> tuple[int, ...]:
    return tuple(axis or 0 for axis in slot.shape)


def _moved_bytes(unit: Unit, nodes: list[Node], slots: Slots) -> int:
    moving = [node for node in nodes if node.op_type not in _VIEWS]
    made = {name for node in nodes for name in node.outputs}
    read = {
        name
        for node in moving
        for name in node.inputs
        if name not in made and not (node.op_type in _LOOKUPS and name == node.inputs[0])
    }
    written = set(unit.outputs) if moving else set()
    return sum(_bytes(slots.get(name)) for name in read | written)


def _bytes(slot: TensorSlot | None) -> int:
    """Size of a tensor; text and sequences, which have no fixed size, count as nothing."""
    if slot is None:
        return 0
    try:
        item = np.dtype(slot.dtype).itemsize
    except (TypeError, ValueError):
        return 0
    return math.prod(_fixed(slot)) * item


def _leading_class(macs: Mapping[OperatorClass, int], kinds: list[OperatorClass]) -> OperatorClass:
    if "opaque" in kinds:
        return "opaque"
    if macs:
        return max(macs, key=lambda kind: macs[kind])
    return "elementwise" if "elementwise" in kinds else kinds[0]
