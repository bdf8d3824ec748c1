"""Read a model for the torch engine: structure, weights wherever they lie, functions inlined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import torch

from profiler.errors import EngineError, ModelError
from profiler.graph.graph import tensor_dtype
from profiler.graph.model import read_model, tensors_of
from profiler.graph.normalise import walk_graphs
from profiler.graph.weights import external_chunks
from profiler.torch_engine.dtypes import tensor_of
from profiler.values import TensorSlot

__all__ = ["read_for_torch", "read_weight", "slots_of", "standard_opset"]

_STANDARD_DOMAINS = frozenset({"", "ai.onnx"})


def read_for_torch(path: Path) -> onnx.ModelProto:
    """Return a model without local functions, whose initialisers may still lie outside.

    Raises:
        ModelError: It is no ONNX model, or holds what this engine does not take.
    """
    proto = read_model(path)
    stored_weights = {
        id(tensor) for graph in walk_graphs(proto.graph) for tensor in graph.initializer
    }
    for tensor in tensors_of(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL and id(tensor) not in stored_weights:
            tensor.raw_data = b"".join(external_chunks(path, tensor))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
    for graph in walk_graphs(proto.graph):
        if graph.sparse_initializer:
            raise ModelError("sparse weights; store them as dense ones")
    for function in proto.functions:
        if function.domain in _STANDARD_DOMAINS:
            # ONNX lets such a function override the operator, ONNX Runtime does not.
            raise ModelError(f"a local function is called like the operator {function.name}")
    return onnx.inliner.inline_local_functions(proto) if proto.functions else proto


def standard_opset(proto: onnx.ModelProto) -> int:
    """Return the version of the standard operators that a model means.

    Raises:
        ModelError: The installed onnx does not know it, so nobody knows what its operators mean.
    """
    known = onnx.defs.onnx_opset_version()
    for entry in proto.opset_import:
        if entry.domain in _STANDARD_DOMAINS:
            if entry.version > known:
                raise ModelError(
                    f"its operator set {entry.version} is newer than {known}, the newest that "
                    f"onnx {onnx.__version__} knows; install a newer onnx"
                )
            return int(entry.version)
    return 1


def slots_of(values: list[onnx.ValueInfoProto]) -> tuple[TensorSlot, ...]:
    """Return name, dtype and shape of inputs or outputs; a free axis is None."""
    return tuple(_slot(value) for value in values)


def _slot(value: onnx.ValueInfoProto) -> TensorSlot:
    tensor = value.type.tensor_type
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        for dim in tensor.shape.dim
    )
    dtype = tensor_dtype(tensor.elem_type) if tensor.elem_type else "undeclared"
    return TensorSlot(value.name, dtype, shape)


def read_weight(path: Path, proto: onnx.TensorProto) -> torch.Tensor:
    """Return a weight, from the model's file or from the one beside it.

    Raises:
        EngineError: It does not fill its shape.
    """
    try:
        if proto.data_location != onnx.TensorProto.EXTERNAL:
            return tensor_of(proto)
        data = bytearray().join(external_chunks(path, proto))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)
        return torch.from_numpy(np.frombuffer(data, dtype).reshape(tuple(proto.dims)))
    except (ValueError, TypeError) as error:
        if isinstance(error, ModelError):
            raise
        raise EngineError(f"weight {proto.name!r} does not fill its shape: {error}") from error
