"""A small real bundle, pictures for it, and the real worker."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from protocol import ImagePreprocess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SIDE = 8
LABELS = ("red", "green", "blue", "grey")
MODEL_SHA256 = "c0" * 32

_IMAGE = [1, 3, SIDE, SIDE]
_WEIGHTS = np.array([[4, 0, 0, 1], [0, 4, 0, 1], [0, 0, 4, 1]], np.float32)
_HEAD = [helper.make_node("Mul", ["image", "two"], ["middle"], name="double")]
_TAIL = [
    helper.make_node("GlobalAveragePool", ["middle"], ["pooled"], name="pool"),
    helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"),
    helper.make_node("MatMul", ["flat", "weights"], ["logits"], name="classify"),
]


@pytest.fixture(scope="session")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that tells the main colour of a picture; its chosen cut is ``middle``."""
    folder = tmp_path_factory.mktemp("bundle") / "colours"
    folder.mkdir()
    write_bundle(folder)
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pictures, each of one colour and named after it."""
    folder = tmp_path_factory.mktemp("photos")
    for channel, name in enumerate(LABELS[:3]):
        colour = tuple(230 if channel == other else 20 for other in range(3))
        Image.new("RGB", (40, 30), colour).save(folder / f"{name}.png")
    return folder


@pytest.fixture
def worker(bundle_folder: Path) -> Iterator[WorkerProcess]:
    """The real worker, serving the bundle."""
    with WorkerProcess(bundle_folder) as process:
        yield process


class WorkerProcess:
    """``cloud-worker`` in a process of its own."""

    def __init__(self, models: Path, bind: str = "tcp://127.0.0.1:0") -> None:
        command = [
            sys.executable,
            "-c",
            "import sys; from cloud_worker.cli import main; sys.exit(main())",
            *("--models", str(models), "--bind", bind, "--threads", "1"),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("serving"), line
        self.address = line.split()[-1]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        # On a busy machine a thread of it may run on for a while; it has stopped when this returns.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()


def write_bundle(folder: Path, model: str = MODEL_SHA256) -> None:
    _save(folder / "full.onnx", _HEAD + _TAIL, {"image": _IMAGE}, {"logits": [1, 4]})
    _save(folder / "head-1.onnx", _HEAD, {"image": _IMAGE}, {"middle": _IMAGE})
    _save(folder / "tail-1.onnx", _TAIL, {"middle": _IMAGE}, {"logits": [1, 4]})
    (folder / "plan.json").write_text("{}")
    image, middle = _slot("image", _IMAGE), _slot("middle", _IMAGE)
    logits = _slot("logits", [1, 4])
    preprocess = ImagePreprocess(SIDE, SIDE, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    cuts = [
        _cut("device", "full.onnx", None, [], [], ["logits"]),
        _cut("cloud", None, "full.onnx", [{**image, "codec": "jpeg90"}], [logits], []),
        _cut("middle", "head-1.onnx", "tail-1.onnx", [{**middle, "codec": "raw"}], [logits], []),
    ]
    files = [path for path in folder.iterdir() if path.name != "bundle.json"]
    manifest = {
        "schema": 1,
        "model": {"name": "colours", "sha256": model},
        "decision": "split",
        "cut": "middle",
        "full": "full.onnx",
        "inputs": [image],
        "outputs": [logits],
        "cuts": cuts,
        "preprocess": preprocess.to_dict(),
        "labels": LABELS,
        "planned_inputs": [],
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
    }
    (folder / "bundle.json").write_text(json.dumps(manifest))


def _slot(name: str, shape: Sequence[int]) -> dict[str, Any]:
    return {"name": name, "dtype": "float32", "shape": list(shape)}


def _cut(
    cut_id: str, head: str | None, tail: str | None, frontier: Any, results: Any, kept: Any
) -> dict[str, Any]:
    return {
        "id": cut_id,
        "head": head,
        "tail": tail,
        "frontier": frontier,
        "results": results,
        "kept": kept,
    }


def _save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
) -> None:
    read = {name for node in nodes for name in node.input}
    weights = [
        numpy_helper.from_array(array, name)
        for name, array in (("two", np.array(2, np.float32)), ("weights", _WEIGHTS))
        if name in read
    ]
    graph = helper.make_graph(nodes, "part", _values(inputs), _values(outputs), weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def _values(shapes: dict[str, Any]) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
