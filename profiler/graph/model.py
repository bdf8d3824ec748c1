"""Load a model's structure from disk, with its weights left where they are. Needs onnx."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError

from profiler.errors import ModelError
from profiler.graph.graph import Graph, build_graph
from profiler.graph.normalise import normalise, walk_graphs
from profiler.values import ModelIdentity
from protocol.files import read_file
from protocol.text import quoted

_LARGEST_BYTES = 1 << 31  # what a protobuf can hold; larger models keep their weights outside


@dataclass(frozen=True)
class LoadedModel:
    """A normalised model.

    Attributes:
        identity: Name and digest of the files it came from.
        path: The model file.
        proto: The normalised model; weights that lie outside the file stay outside.
        graph: Its structure.
        renamed: Old to new name of the nodes that had to be renamed.
    """

    identity: ModelIdentity
    path: Path
    proto: onnx.ModelProto
    graph: Graph
    renamed: Mapping[str, str]

    def external_file(self, location: str) -> Path:
        """Return the checked path of an external weights file of this model."""
        return external_file(self.path, location)


def load_model(path: Path | str) -> LoadedModel:
    """Load and normalise a model, without its external weights.

    Raises:
        ModelError: No such file, not an ONNX model, or one that cannot be split.
    """
    path = Path(path)
    proto = read_model(path)
    try:
        identity = ModelIdentity(_readable(path.stem), _digest(path, proto))
        renamed = normalise(proto)
        graph = build_graph(proto.graph)
    except ModelError as error:
        raise ModelError(f"{path}: {error}".replace(f"{path}: {path}", str(path))) from None
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ModelError(f"{path}: the graph is not valid ONNX ({error})") from error
    _check_wiring(path, graph)
    return LoadedModel(identity, path, proto, graph, renamed)


def _readable(name: str) -> str:
    """A file's name may hold bytes that are no text; a message's fields may not."""
    return os.fsencode(name).decode("utf-8", errors="replace")


def read_model(path: Path) -> onnx.ModelProto:
    """Read a model file as it is, without its external weights.

    Raises:
        ModelError: No such file, or not an ONNX model.
    """
    try:
        data = read_file(path, _LARGEST_BYTES)
    except IsADirectoryError:
        raise ModelError(f"{path} is a folder; name the .onnx file in it") from None
    except FileNotFoundError:
        raise ModelError(f"there is no file {path}") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise ModelError(
            f"{path} is not an ONNX model, or it is truncated or nested too deeply"
        ) from None
    if not proto.graph.node or not proto.opset_import or not proto.graph.output:
        raise ModelError(f"{path} is not an ONNX model: it has no nodes, outputs or opset")
    return proto


def tensors_of(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every stored tensor of a model: weights, and constants inside nodes and functions."""
    for graph in walk_graphs(proto.graph):
        yield from graph.initializer
        yield from _node_tensors(graph.node)
    for function in proto.functions:
        yield from _node_tensors(function.node)


def _node_tensors(nodes: object) -> Iterator[onnx.TensorProto]:
    for node in nodes:  # type: ignore[attr-defined]
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def external_entry(tensor: onnx.TensorProto) -> dict[str, str]:
    """Return where an external tensor lies: location, and offset and length in bytes as text."""
    return {entry.key: entry.value for entry in tensor.external_data}


def external_file(model: Path, location: str) -> Path:
    """Return the path of an external weights file, refusing those that leave the model's folder.

    Links are followed, since volumes of Kubernetes and caches of model hubs are made of them, but
    the file must lie in the folder of the model or beside what the model file points to.
    """
    relative = PurePosixPath(location)
    if not location or "\0" in location or relative.is_absolute() or ".." in relative.parts:
        raise ModelError(f"{model}: weights location {quoted(location)} leaves the model's folder")
    folder, real_folder = model.parent.resolve(), model.resolve().parent
    for candidate in (model.parent / relative, real_folder / relative):
        try:
            real = candidate.resolve(strict=True)
        except OSError:  # missing, or a name that no file can have
            continue
        if not real.is_file():
            raise ModelError(f"{model}: weights location {quoted(location)} is no file")
        if real.is_relative_to(folder) or real.is_relative_to(real_folder):
            return real
        raise ModelError(
            f"{model}: weights file {quoted(location)} is a link to another folder; "
            "copy the weights beside the model"
        )
    raise ModelError(
        f"{model}: weights file {quoted(location)} is missing; copy it beside the model"
    )


def _digest(path: Path, proto: onnx.ModelProto) -> str:
    """Digest of the model file, or over the digests of it and its weights files."""
    own = _file_sha256(path)
    locations = sorted(
        {
            str(external_entry(tensor).get("location", ""))
            for tensor in tensors_of(proto)
            if tensor.data_location == onnx.TensorProto.EXTERNAL
        }
    )
    if not locations:
        return own
    whole = hashlib.sha256(own.encode())
    for location in locations:
        whole.update(_file_sha256(external_file(path, location)).encode())
    return whole.hexdigest()


def _file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        digest = hashlib.sha256()
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
        return digest.hexdigest()


def _check_wiring(path: Path, graph: Graph) -> None:
    """Each tensor that is read must be given or made, and not both."""
    known = set(graph.initializers) | graph.input_names
    for node in graph.nodes:
        for name in node.inputs:
            if name not in known:
                raise ModelError(f"{path}: node {node.name!r} reads {name!r}, which nothing makes")
        for name in node.outputs:
            if name in known:
                raise ModelError(f"{path}: node {node.name!r} makes {name!r}, which is given")
        known.update(node.outputs)
    for name in graph.outputs:
        if name not in known:
            raise ModelError(f"{path}: nothing makes the output {name!r}")
