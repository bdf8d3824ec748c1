"""Heads and tails of a model, written beside the weights file that they share. Needs onnx."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import onnx

from profiler.engine import Engine, EngineOptions, OnnxRuntimeEngine
from profiler.graph.graph import node_bodies, node_inputs
from profiler.graph.model import LoadedModel
from profiler.graph.weights import StoredModel, open_stored, store_model
from profiler.values import TensorSlot
from splitter.errors import CutError, ExtractionError

if TYPE_CHECKING:
    # A worker extracts tails without scipy, which enumerating cuts needs.
    from splitter.cuts import Cut

Tensors = Mapping[str, npt.NDArray[np.generic]]

_METADATA_PREFIX = "headtail."


def write_part(
    stored: StoredModel,
    inputs: Sequence[TensorSlot],
    outputs: Sequence[TensorSlot],
    file_name: str,
) -> Path:
    """Write the part of a model that makes ``outputs`` from ``inputs``.

    Args:
        stored: The whole model; the part is written into its folder and shares its weights.
        inputs: What the part is fed.
        outputs: What it returns.
        file_name: Its file in the folder.

    Raises:
        CutError: The inputs do not close the part; names every tensor that is missing.
        ExtractionError: The part fails the ONNX checker although the whole model passes.
    """
    part = _part(stored.proto, inputs, outputs)
    # A part may be cut again, and some models give a key twice, which the checker refuses.
    metadata = {item.key: item.value for item in part.metadata_props} | {
        f"{_METADATA_PREFIX}source_sha256": stored.loaded.identity.sha256,
        f"{_METADATA_PREFIX}inputs": " ".join(slot.name for slot in inputs),
        f"{_METADATA_PREFIX}outputs": " ".join(slot.name for slot in outputs),
    }
    del part.metadata_props[:]
    for key, value in metadata.items():
        part.metadata_props.add(key=key, value=value)
    path = stored.folder / file_name
    path.write_bytes(part.SerializeToString())
    _check(path, stored)
    return path


def write_head(
    stored: StoredModel, cut: Cut, slots: Mapping[str, TensorSlot], file_name: str
) -> Path | None:
    """Write the part of a cut that runs on the device; ``None`` if the device runs nothing."""
    graph = stored.loaded.graph
    made = [name for name in (*cut.frontier, *cut.kept) if name not in graph.input_names]
    if not made:
        return None
    outputs = [slots[name] for name in dict.fromkeys(made)]
    return write_part(
        stored, _needed_inputs(stored.proto, graph.inputs, outputs), outputs, file_name
    )


def write_tail(
    stored: StoredModel, cut: Cut, slots: Mapping[str, TensorSlot], file_name: str
) -> Path | None:
    """Write the part of a cut that runs in the cloud; ``None`` if the cloud runs nothing."""
    if not cut.results:
        return None
    outputs = [slots[name] for name in cut.results]
    return write_part(stored, [slots[name] for name in cut.frontier], outputs, file_name)


def extract_tail(
    loaded: LoadedModel, frontier: Sequence[str], results: Sequence[str], folder: Path
) -> Path:
    """Write the tail behind a frontier, for a worker that has only the whole model.

    Weights are written into the folder once and shared by all tails written there.

    Args:
        loaded: The whole model.
        frontier: Tensors that arrive: graph inputs or outputs of nodes.
        results: Outputs of the model that are wanted.
        folder: Private to this model; kept between calls.

    Raises:
        CutError: Unknown names, a frontier that does not close a cut, or a type that is not sent.
        ExtractionError: ONNX Runtime refuses the model, or the tail fails the checker.
    """
    graph = loaded.graph
    known = graph.input_names | set(graph.producer)
    for name in frontier:
        if name not in known:
            raise CutError(f"{loaded.identity.name} has no tensor {name!r} to cut at")
    for name in results:
        if name not in graph.outputs or name in frontier:
            raise CutError(f"{name!r} is no output of {loaded.identity.name} behind this cut")
    if not results or len(set(frontier)) != len(frontier) or len(set(results)) != len(results):
        raise CutError("a cut needs one result or more, and each tensor named once")
    stored = open_stored(loaded, folder) or store_model(loaded, folder)
    slots = _runtime_slots(stored, [*frontier, *results])
    names = "\0".join([*sorted(frontier), "", *sorted(results)])
    return write_part(
        stored,
        [slots[name] for name in frontier],
        [slots[name] for name in results],
        f"tail-{hashlib.sha256(names.encode()).hexdigest()[:16]}.onnx",
    )


def _part(
    whole: onnx.ModelProto, inputs: Sequence[TensorSlot], outputs: Sequence[TensorSlot]
) -> onnx.ModelProto:
    chosen, leaves = _walk_back(whole.graph, inputs, outputs)
    weights = {tensor.name for tensor in whole.graph.initializer}
    given = {slot.name for slot in inputs}
    missing = sorted(leaves - weights - given)
    if missing:
        raise CutError(
            f"these inputs do not close a cut: {', '.join(map(repr, missing))} "
            f"{'is' if len(missing) == 1 else 'are'} needed as well"
        )
    part = onnx.ModelProto(
        ir_version=whole.ir_version,
        producer_name=whole.producer_name,
        producer_version=whole.producer_version,
        domain=whole.domain,
        model_version=whole.model_version,
        doc_string=whole.doc_string,
    )
    part.opset_import.extend(whole.opset_import)
    part.metadata_props.extend(whole.metadata_props)
    part.graph.name = whole.graph.name or "part"
    part.graph.node.extend(node for index, node in enumerate(whole.graph.node) if index in chosen)
    part.graph.initializer.extend(
        tensor for tensor in whole.graph.initializer if tensor.name in leaves - given
    )
    declared = {value.name: value for value in (*whole.graph.input, *whole.graph.output)}
    free_axes = iter(range(1 << 30))
    for slots, values in ((inputs, part.graph.input), (outputs, part.graph.output)):
        values.extend(
            declared[slot.name] if slot.name in declared else _value_info(slot, free_axes)
            for slot in slots
        )
    part.functions.extend(_reachable_functions(whole, part.graph.node))
    return part


def _walk_back(
    graph: onnx.GraphProto, inputs: Sequence[TensorSlot], outputs: Sequence[TensorSlot]
) -> tuple[set[int], set[str]]:
    """Positions of the nodes between inputs and outputs, and the tensors no such node makes."""
    given = {slot.name for slot in inputs}
    producer = {
        name: index for index, node in enumerate(graph.node) for name in node.output if name
    }
    chosen: set[int] = set()
    leaves: set[str] = set()
    pending = [slot.name for slot in outputs]
    while pending:
        name = pending.pop()
        index = producer.get(name)
        if name in given or index is None:
            leaves.add(name)
        elif index not in chosen:
            chosen.add(index)
            pending.extend(node_inputs(graph.node[index]))
    return chosen, leaves


def _needed_inputs(
    proto: onnx.ModelProto, inputs: Sequence[TensorSlot], outputs: Sequence[TensorSlot]
) -> list[TensorSlot]:
    """The inputs of the model that these outputs depend on."""
    _, leaves = _walk_back(proto.graph, inputs, outputs)
    return [slot for slot in inputs if slot.name in leaves]


def _value_info(slot: TensorSlot, free_axes: Iterable[int]) -> onnx.ValueInfoProto:
    numbers = iter(free_axes)
    shape = [f"dyn_{next(numbers)}" if axis is None else axis for axis in slot.shape]
    elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(slot.dtype))
    return onnx.helper.make_tensor_value_info(slot.name, elem_type, shape)


def _reachable_functions(
    whole: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]
) -> list[onnx.FunctionProto]:
    """Local functions called by these nodes, by their bodies, and by other functions."""
    by_call: dict[tuple[str, str], list[onnx.FunctionProto]] = {}
    for function in whole.functions:
        by_call.setdefault((function.domain, function.name), []).append(function)
    reached: set[tuple[str, str]] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        for body in node_bodies(node):
            pending.extend(body.node)
        call = (node.domain, node.op_type)
        if call in by_call and call not in reached:
            reached.add(call)
            for function in by_call[call]:
                pending.extend(function.node)
    return [item for item in whole.functions if (item.domain, item.name) in reached]


def _check(path: Path, stored: StoredModel) -> None:
    """Refuse what the ONNX checker refuses, unless it refuses the whole model too."""
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        try:
            onnx.checker.check_model(str(stored.full))
        except onnx.checker.ValidationError:
            return  # the checker knows less than the runtime; running the part decides
        raise ExtractionError(
            f"{path.name} fails the ONNX checker: {str(error).splitlines()[0]}"
        ) from error


def _runtime_slots(stored: StoredModel, names: Sequence[str]) -> dict[str, TensorSlot]:
    """Types of tensors as ONNX Runtime infers them, without running the model."""
    slots = {slot.name: slot for slot in stored.loaded.graph.inputs}
    proto = onnx.ModelProto()
    proto.CopyFrom(stored.proto)
    outputs = {value.name for value in proto.graph.output}
    for name in names:
        if name not in slots and name not in outputs:
            proto.graph.output.add(name=name)
    with tempfile.NamedTemporaryFile(dir=stored.folder, suffix=".onnx") as file:
        file.write(proto.SerializeToString())
        file.flush()
        session = OnnxRuntimeEngine(EngineOptions(threads=1)).load(Path(file.name))
    slots.update((slot.name, slot) for slot in session.outputs)
    session.close()
    return slots


def disagreement(whole: Tensors, parts: Tensors) -> float:
    """Return how far two answers are apart.

    That is, over all outputs, the largest absolute difference over the largest magnitude of the
    whole's output; infinite where dtypes, shapes or the places of infinities and NaN differ.
    """
    return max((_difference(value, parts.get(name)) for name, value in whole.items()), default=0.0)


def _difference(whole: npt.NDArray[np.generic], part: npt.NDArray[np.generic] | None) -> float:
    if part is None or whole.dtype != part.dtype or whole.shape != part.shape:
        return math.inf
    if whole.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(whole, part) else math.inf
    left, right = whole.astype(np.float64), part.astype(np.float64)
    finite = np.isfinite(left)
    odd = ~finite | ~np.isfinite(right)
    if not np.array_equal(left[odd], right[odd], equal_nan=True):
        return math.inf
    if not finite.any():
        return 0.0
    gap = float(np.abs(left[finite] - right[finite]).max())
    largest = float(np.abs(left[finite]).max())
    return gap / largest if largest else (0.0 if gap == 0 else math.inf)


def run_parts(
    engine: Engine, head: Path | None, tail: Path | None, feeds: Tensors
) -> dict[str, npt.NDArray[np.generic]]:
    """Run a head and then its tail, as device and cloud would, and return all their outputs."""
    known = dict(feeds)
    for part in (head, tail):
        if part is None:
            continue
        session = engine.load(part)
        known.update(session.run({slot.name: known[slot.name] for slot in session.inputs}))
        session.close()
    return known
