"""See what ONNX Runtime really runs of a model. Needs onnx and scipy.

The optimised graph says which kernels there are, in the order in which they run; a run of it says
how large each of their tensors is, those in the blocked layout of convolutions included, whose
names and shapes the original model does not know.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from profiler.graph.feeds import Feeds
from profiler.graph.graph import Graph, node_bodies, node_inputs
from profiler.graph.normalise import walk_graphs
from profiler.graph.observation import Observation
from profiler.graph.runtime import HeldWeight, RuntimeGraph, RuntimeKernel
from profiler.graph.weights import StoredModel, weight_bytes
from profiler.kernels import units_by_node, units_of_kernels
from profiler.liveness import Step

__all__ = ["observe_runtime"]

_PROVIDER = "CPUExecutionProvider"
_BLOCKED_DOMAIN = "com.microsoft.nchwc"
_POINTER_BYTES = 8
_QUANTISED_WEIGHT = 3  # argument of a QLinearConv
# Working memory of kernels, each buffer in sizes of the first output: the gates of a recurrent
# layer; the padded squares, and the scale, of a local normalisation.
_SCRATCH = {"GRU": (3,), "LRN": (1, 1), "LSTM": (4,)}

Weight = tuple[int, tuple[int, ...]]  # size in bytes, and shape


def observe_runtime(stored: StoredModel, observation: Observation) -> RuntimeGraph:
    """Optimise and run a stored model that has been tried out already.

    Takes one load with and one without optimisation, and one run, all in this process.
    """
    graph, original = stored.loaded.graph, stored.proto.graph
    with tempfile.TemporaryDirectory(prefix="headtail-") as name:
        optimised = _optimised(stored.full, Path(name))
        sizes = _tensor_bytes(optimised, Path(name), observation.feeds)
    owners = units_by_node(graph, observation.units)
    units = units_of_kernels(optimised.graph, graph, observation.units)
    held = _weights(optimised.graph)
    kernels = tuple(
        RuntimeKernel(_step(node, sizes, held), unit, _weights_of(node, held))
        for node, unit in zip(optimised.graph.node, units, strict=True)
    )
    counts: Counter[int] = Counter()
    for node in original.node:
        if node.name in owners:
            counts[owners[node.name]] += 1 + sum(len(body.node) for _, body in _bodies(node))
    rewrites = _rewrites(optimised.graph, units, _folding_units(graph, owners))
    before = _weights(original)
    return RuntimeGraph(
        kernels=kernels,
        tensor_bytes=sizes,
        weights={
            name: HeldWeight(weight[0], 0 if before.get(name) == weight else rewrites.get(name, 1))
            for name, weight in held.items()
        },
        plain=frozenset(observation.tensors),
        outputs=frozenset(graph.outputs),
        unit_nodes=dict(counts),
        fixed_shapes=not any(None in slot.shape for slot in graph.inputs),
    )


def _optimised(model: Path, folder: Path) -> onnx.ModelProto:
    """The graph that really runs; its weights lie beside it."""
    options = _session_options()
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_file_name", "optimised.bin"
    )
    onnxruntime.InferenceSession(str(model), options, providers=[_PROVIDER])
    return onnx.load(folder / "optimised.onnx", load_external_data=False)


def _tensor_bytes(optimised: onnx.ModelProto, folder: Path, feeds: Feeds) -> dict[str, int]:
    """Run the optimised graph as it is, with every tensor as an output."""
    watched = onnx.ModelProto()
    watched.CopyFrom(optimised)
    names = [name for node in watched.graph.node for name in node.output if name]
    known = {value.name for value in watched.graph.output}
    watched.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in known
    )
    path = folder / "watched.onnx"
    path.write_bytes(watched.SerializeToString())
    options = _session_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=[_PROVIDER])
    results: list[Any] = session.run(names, dict(feeds))
    values: dict[str, Any] = {**feeds, **dict(zip(names, results, strict=True))}
    # Sequences and the like are no arrays; what they take is not known.
    return {name: getattr(value, "nbytes", 0) for name, value in values.items()}


def _session_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # It warns that the written graph fits this machine only, which is all we want of it.
    options.log_severity_level = 4
    return options


def _step(node: onnx.NodeProto, sizes: Mapping[str, int], held: Mapping[str, Weight]) -> Step:
    captured = (name for name in node_inputs(node) if name not in node.input)
    return Step(
        operator=node.op_type,
        inputs=tuple("" if name in held else name for name in (*node.input, *captured)),
        outputs=tuple(node.output),
        scratch_bytes=_scratch_bytes(node, sizes, held),
    )


def _scratch_bytes(
    node: onnx.NodeProto, sizes: Mapping[str, int], held: Mapping[str, Weight]
) -> tuple[int, ...]:
    """Working memory of the kernels that have a good deal of it."""
    made = next((sizes[name] for name in node.output if name), 0)
    if node.op_type == "QLinearConv":
        _, shape = held.get(node.input[_QUANTISED_WEIGHT], (0, ()))
        taps = math.prod(shape[2:])
        # A pointer for each tap at each output pixel; a kernel of one tap reads its input directly.
        return (made // shape[0] * taps * _POINTER_BYTES,) if taps > 1 else ()
    return tuple(times * made for times in _SCRATCH.get(node.op_type, ()))


def _weights_of(node: onnx.NodeProto, held: Mapping[str, Weight]) -> tuple[str, ...]:
    inner = (key for prefix, body in _bodies(node) for key in _sized(prefix, body))
    return (*(name for name in node_inputs(node) if name in held), *inner)


def _folding_units(graph: Graph, owners: Mapping[str, int]) -> set[int]:
    """Units whose normalisation the optimiser folds into the weights before it."""
    return {
        owners[node.name]
        for node in graph.nodes
        if node.op_type == "BatchNormalization" and node.name in owners
    }


def _rewrites(
    optimised: onnx.GraphProto, units: Sequence[int | None], folding: Collection[int]
) -> dict[str, int]:
    """How often each new weight of a convolution was made anew."""
    rewrites: dict[str, int] = {}
    for node, unit in zip(optimised.node, units, strict=True):
        if node.op_type in {"Conv", "FusedConv"}:
            times = (node.domain == _BLOCKED_DOMAIN) + (unit in folding)
            rewrites[node.input[1]] = max(1, times)
    return rewrites


def _weights(graph: onnx.GraphProto) -> dict[str, Weight]:
    """Size and shape of each weight; those of bodies are named after the node and the body."""
    weights = _sized("", graph)
    for node in graph.node:
        for prefix, body in _bodies(node):
            weights |= _sized(prefix, body)
    return weights


def _bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """All bodies of a node, nested ones included, each with a prefix of its own."""
    for place, body in enumerate(node_bodies(node)):
        for inner, graph in enumerate(walk_graphs(body)):
            yield f"{node.name}/{place}/{inner}/", graph


def _sized(prefix: str, graph: onnx.GraphProto) -> dict[str, Weight]:
    return {
        f"{prefix}{tensor.name}": (weight_bytes(tensor), tuple(tensor.dims))
        for tensor in graph.initializer
    }
