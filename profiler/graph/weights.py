"""Move a model's weights into one file that all of its parts share. Needs onnx."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx

from profiler.errors import ModelError
from profiler.graph.model import LoadedModel, external_entry, external_file
from profiler.graph.normalise import walk_graphs

WEIGHTS_FILE = "weights.bin"
FULL_MODEL_FILE = "full.onnx"

# Smaller tensors stay in the model: shapes and axes among them must be known when a graph loads.
_SMALLEST_EXTERNAL_BYTES = 1024
# ONNX Runtime maps the file into memory; whole pages can be shared between processes.
_ALIGNMENT_BYTES = 4096
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class StoredModel:
    """A normalised model on disk beside its one weights file.

    Attributes:
        loaded: Where it came from.
        folder: Holds the weights file, the full model, and any part written later.
        proto: The model whose weights all point into the weights file: cheap to copy and to cut.
    """

    loaded: LoadedModel
    folder: Path
    proto: onnx.ModelProto

    @property
    def full(self) -> Path:
        """The full model's file."""
        return self.folder / FULL_MODEL_FILE

    @property
    def weights(self) -> Path:
        """The shared weights file."""
        return self.folder / WEIGHTS_FILE


def store_model(loaded: LoadedModel, folder: Path) -> StoredModel:
    """Write the weights file and the full model into a folder.

    Weights are copied piece by piece, so that a model larger than memory can be stored.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(loaded.proto)
    with (folder / WEIGHTS_FILE).open("wb") as stream:
        for graph in walk_graphs(proto.graph):
            for tensor in graph.initializer:
                _store_tensor(loaded, tensor, stream)
    for tensor in _inline_tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.raw_data = b"".join(external_chunks(loaded.path, tensor))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
    stored = StoredModel(loaded, folder, proto)
    # Whoever finds the full model takes the folder as complete, so it must never be there in part.
    part = stored.full.with_suffix(".part")
    part.write_bytes(proto.SerializeToString())
    part.replace(stored.full)
    return stored


def open_stored(loaded: LoadedModel, folder: Path) -> StoredModel | None:
    """Return what :func:`store_model` wrote for this model, or ``None`` where nothing is there."""
    full = folder / FULL_MODEL_FILE
    if not full.is_file():
        return None
    proto = onnx.ModelProto()
    proto.ParseFromString(full.read_bytes())
    return StoredModel(loaded, folder, proto)


def _inline_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Tensors held as attributes of nodes: too rare and too small to be worth sharing."""
    nodes = [node for graph in walk_graphs(proto.graph) for node in graph.node]
    nodes.extend(node for function in proto.functions for node in function.node)
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _store_tensor(loaded: LoadedModel, tensor: onnx.TensorProto, stream: BinaryIO) -> None:
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    if tensor.data_type == onnx.TensorProto.STRING or not (external or tensor.ByteSize()):
        return
    if not external and tensor.ByteSize() < _SMALLEST_EXTERNAL_BYTES:
        return
    if not external and not tensor.HasField("raw_data"):
        tensor.CopyFrom(_as_raw(loaded, tensor))
    stream.write(b"\0" * (-stream.tell() % _ALIGNMENT_BYTES))
    offset = stream.tell()
    if external:
        for chunk in external_chunks(loaded.path, tensor):
            stream.write(chunk)
    else:
        stream.write(tensor.raw_data)
    _point_into_weights_file(tensor, offset, stream.tell() - offset)


def _as_raw(loaded: LoadedModel, tensor: onnx.TensorProto) -> onnx.TensorProto:
    try:
        return onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name)
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"{loaded.path}: weight {tensor.name!r} does not fill its shape: {error}"
        ) from None


def _point_into_weights_file(tensor: onnx.TensorProto, offset: int, length: int) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", WEIGHTS_FILE), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def weight_bytes(tensor: onnx.TensorProto) -> int:
    """Return the size of a weight by its type and shape, wherever its values lie.

    Raises:
        ModelError: Its type is unknown.
    """
    elements = math.prod(tensor.dims)
    if tensor.data_type not in onnx.TensorProto.DataType.values():
        raise ModelError(f"weight {tensor.name!r} has the unknown type {tensor.data_type}")
    name = onnx.TensorProto.DataType.Name(tensor.data_type)
    if name.endswith("INT4") or name.startswith("FLOAT4"):
        return (elements + 1) // 2  # two in a byte
    if name.endswith("INT2"):
        return (elements + 3) // 4
    return elements * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def external_chunks(model: Path, tensor: onnx.TensorProto) -> Iterator[bytes]:
    """Yield the bytes of a weight that lies outside the model file, piece by piece.

    Raises:
        ModelError: It leaves the model's folder, or does not lie where it should.
    """
    entry = external_entry(tensor)
    path = external_file(model, str(entry.get("location", "")))
    size = path.stat().st_size
    try:
        offset = int(entry.get("offset", "0"))
        declared = int(entry.get("length", "0"))
    except ValueError:
        raise ModelError(f"{model}: weight {tensor.name!r} has no valid position") from None
    length = weight_bytes(tensor)
    if declared not in {0, length}:  # 0 and absent both mean that the shape says it
        raise ModelError(
            f"{model}: weight {tensor.name!r} takes {length} bytes by its shape, "
            f"but {declared} are declared"
        )
    if offset < 0 or length < 0 or offset + length > size:
        raise ModelError(
            f"{model}: weight {tensor.name!r} ends at byte {offset + length} of "
            f"{path.name}, which has {size}; the weights file is truncated"
        )
    with path.open("rb") as source:
        source.seek(offset)
        while length:
            chunk = source.read(min(length, _CHUNK_BYTES))
            if not chunk:
                raise ModelError(
                    f"{model}: {path.name} became shorter while it was read; "
                    "run again when nothing writes to it"
                )
            length -= len(chunk)
            yield chunk
