"""Bring a model into the one form that the rest of the project works on. Needs onnx.

Each pass changes the model in place and is safe to run twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx

from profiler.errors import ModelError
from profiler.graph.graph import node_bodies, node_inputs
from profiler.values import WHOLE_ONLY

# Weights move out of the inputs only from this version of the format on (onnx IR.md).
_FIRST_IR_WITHOUT_INITIALIZER_INPUTS = 4


def normalise(model: onnx.ModelProto) -> dict[str, str]:
    """Normalise a model in place.

    Returns:
        Old name to new name of each node that had to be renamed; nodes without a name are listed
        under ``#index``.

    Raises:
        ModelError: The model holds something that cannot be carried through a cut.
    """
    graph = model.graph
    _refuse_unsupported(graph)
    for body in walk_graphs(graph):
        del body.quantization_annotation[:]
        del body.value_info[:]
        _constants_to_initializers(body)
    _drop_initializer_inputs(model)
    _give_constant_outputs_a_node(graph)
    _name_empty_split_outputs(graph)
    renamed = _name_nodes(graph)
    _sort_nodes(graph)
    _drop_dead_nodes(graph)
    return renamed


def walk_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and every body nested in it."""
    yield graph
    for node in graph.node:
        for body in node_bodies(node):
            yield from walk_graphs(body)


def tensor_names(graph: onnx.GraphProto) -> set[str]:
    """Return every tensor name used in a graph and its bodies."""
    names: set[str] = set()
    for body in walk_graphs(graph):
        names.update(value.name for value in (*body.input, *body.output))
        names.update(tensor.name for tensor in body.initializer)
        for node in body.node:
            names.update(node.input)
            names.update(node.output)
    return names


def unique_name(wanted: str, taken: set[str]) -> str:
    """Return ``wanted``, with a number behind it where it is taken, and take it."""
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def _refuse_unsupported(graph: onnx.GraphProto) -> None:
    for body in walk_graphs(graph):
        weights: set[str] = set()
        for tensor in body.initializer:
            if tensor.name in weights:
                raise ModelError(f"two weights are called {tensor.name!r}; give each its own name")
            weights.add(tensor.name)
        if body.sparse_initializer:
            name = body.sparse_initializer[0].values.name or "(unnamed)"
            raise ModelError(
                f"weight {name!r} is a sparse_initializer, which cannot be cut; "
                "store it as a dense initializer"
            )
    for value in graph.input:
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value") or "untyped value"
            raise ModelError(
                f"input {value.name!r} is of type {kind.removesuffix('_type')}; {WHOLE_ONLY}"
            )
        if not value.type.tensor_type.HasField("shape"):
            raise ModelError(
                f"input {value.name!r} does not say how many axes it has; "
                "declare its shape in the model (axes may stay free)"
            )


def _constants_to_initializers(graph: onnx.GraphProto) -> None:
    """Turn Constant nodes into weights, so that they are shared and never cross a cut."""
    outputs = {value.name for value in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        tensor = _constant_value(node) if node.op_type == "Constant" else None
        if tensor is None or node.output[0] in outputs:
            kept.append(node)
            continue
        tensor.name = node.output[0]
        graph.initializer.append(tensor)
    if len(kept) != len(graph.node):
        _replace_nodes(graph, kept)


def _constant_value(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.domain not in {"", "ai.onnx"} or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    helper = onnx.helper
    match attribute.name:
        case "value":
            copy = onnx.TensorProto()
            copy.CopyFrom(attribute.t)
            return copy
        case "value_float":
            return helper.make_tensor("", onnx.TensorProto.FLOAT, [], [attribute.f])
        case "value_floats":
            values = list(attribute.floats)
            return helper.make_tensor("", onnx.TensorProto.FLOAT, [len(values)], values)
        case "value_int":
            return helper.make_tensor("", onnx.TensorProto.INT64, [], [attribute.i])
        case "value_ints":
            integers = list(attribute.ints)
            return helper.make_tensor("", onnx.TensorProto.INT64, [len(integers)], integers)
        case _:
            return None


def _drop_initializer_inputs(model: onnx.ModelProto) -> None:
    """Weights that are also inputs are defaults; ONNX Runtime folds no constants with them."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    if len(inputs) != len(model.graph.input):
        copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in inputs]
        del model.graph.input[:]
        model.graph.input.extend(copies)
    model.ir_version = max(model.ir_version, _FIRST_IR_WITHOUT_INITIALIZER_INPUTS)


def _give_constant_outputs_a_node(graph: onnx.GraphProto) -> None:
    """A weight that is an output gets an Identity, so that each output has a node that makes it."""
    taken = tensor_names(graph)
    outputs = {value.name for value in graph.output}
    for tensor in graph.initializer:
        if tensor.name not in outputs:
            continue
        output, tensor.name = tensor.name, unique_name(f"{tensor.name}_value", taken)
        for node in graph.node:
            _rename_input(node, output, tensor.name)
        node = onnx.helper.make_node("Identity", [tensor.name], [output])
        graph.node.insert(0, node)


def _rename_input(node: onnx.NodeProto, old: str, new: str) -> None:
    for index, name in enumerate(node.input):
        if name == old:
            node.input[index] = new
    for body in node_bodies(node):
        local = {value.name for value in body.input} | {item.name for item in body.initializer}
        if old in local:
            continue
        for inner in body.node:
            _rename_input(inner, old, new)
        for value in body.output:
            if value.name == old:
                value.name = new


def _name_empty_split_outputs(graph: onnx.GraphProto) -> None:
    """ONNX Runtime 1.32.0 crashes the process when a Split has an output with an empty name."""
    taken = tensor_names(graph)
    for body in walk_graphs(graph):
        for node in body.node:
            if node.op_type != "Split":
                continue
            for index, name in enumerate(node.output):
                if not name:
                    node.output[index] = unique_name(f"{node.input[0]}_part_{index}", taken)


def _sort_nodes(graph: onnx.GraphProto) -> None:
    """Put each node behind those that it reads; ONNX asks for that, ONNX Runtime does not."""
    maker: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name in maker:
                raise ModelError(f"{name!r} is made twice, the second time by {node.name!r}")
            if name:
                maker[name] = index
    needs = [
        {maker[name] for name in node_inputs(node) if name in maker} - {index}
        for index, node in enumerate(graph.node)
    ]
    try:
        order = list(TopologicalSorter(dict(enumerate(needs))).static_order())
    except CycleError as error:
        name = graph.node[error.args[1][0]].name
        raise ModelError(f"node {name!r} needs its own result; a graph has no cycles") from None
    if any(need > index for index, wanted in enumerate(needs) for need in wanted):
        _replace_nodes(graph, [graph.node[index] for index in order])


def _replace_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _drop_dead_nodes(graph: onnx.GraphProto) -> None:
    """Remove what no output needs: nodes, then weights."""
    wanted = {value.name for value in graph.output}
    live: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(node_inputs(node))
            live.append(node)
    if len(live) != len(graph.node):
        _replace_nodes(graph, live[::-1])
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name not in wanted:
            del graph.initializer[index]


def _name_nodes(graph: onnx.GraphProto) -> dict[str, str]:
    """Give each node a unique name: ONNX Runtime wants it, profiles and plans are joined on it."""
    count: dict[str, int] = {}
    bodies = list(walk_graphs(graph))
    for body in bodies:
        for node in body.node:
            count[node.name] = count.get(node.name, 0) + 1
    taken = {name for name, times in count.items() if name and times == 1}
    renamed: dict[str, str] = {}
    for body in bodies:
        for index, node in enumerate(body.node):
            if node.name in taken and count[node.name] == 1:
                continue
            output = next((name for name in node.output if name), str(index))
            new = unique_name(f"{node.op_type}:{output}", taken)
            if body is graph:
                renamed[node.name or f"#{index}"] = new
            node.name = new
    return renamed
