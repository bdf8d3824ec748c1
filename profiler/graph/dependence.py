"""Tell which tensors' shapes depend on values, so that one run, or two, cannot show their shapes.

NonZero, NonMaxSuppression, an If: two runs that happen to agree say nothing about the third. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from profiler.graph.graph import Graph, Node

__all__ = ["shapes_by_value"]

_BY_ANY_VALUE = frozenset({"Compress", "NonMaxSuppression", "NonZero", "StringSplit", "Unique"})
# Their bodies may hold anything, and their outputs may come from one body or another.
_WITH_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
# How long a sequence is, and what lies where in it, is seen in no tensor's shape.
_OF_SEQUENCES = frozenset({"ConcatFromSequence", "OptionalGetElement", "SequenceAt"})
# Positions of the inputs whose values are sizes, by the operator's definition in ONNX 1.2 to 1.20.
_SIZES: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "DFT": (1,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1, 2),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}


def shapes_by_value(graph: Graph) -> frozenset[str]:
    """Return the tensors whose shapes may change with the values that are fed.

    A shape that follows from the inputs' shapes alone, by way of Shape and arithmetic, is none of
    them.
    """
    varying = set(graph.input_names)  # tensors whose values are not always the same
    shaped: set[str] = set()
    for node in graph.nodes:
        takes_shape = not shaped.isdisjoint(node.inputs)
        if takes_shape or _shaped_by_value(node, varying):
            shaped.update(node.outputs)
        if node.op_type in ("Shape", "Size"):
            if takes_shape:
                varying.update(node.outputs)
        elif takes_shape or not varying.isdisjoint(node.inputs):
            varying.update(node.outputs)
    # The size of a value that Shape gives is the rank, which stays.
    return frozenset(shaped)


def _shaped_by_value(node: Node, varying: set[str]) -> bool:
    kind = node.op_type
    if node.domain:
        return False  # contributed operators compute shapes from shapes
    if kind in _BY_ANY_VALUE or kind in _WITH_BODIES or kind in _OF_SEQUENCES:
        return not varying.isdisjoint(node.inputs)
    positions = (1,) if kind.startswith("Reduce") else _SIZES.get(kind, ())
    sizes = {node.arguments[at] for at in positions if at < len(node.arguments)}
    return not varying.isdisjoint(sizes)
