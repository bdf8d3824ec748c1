"""A model whose shapes depend on its values, in a bundle that declares those of one frame."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from device_agent import Agent, Frame, LinkPolicy, Patience
from splitter.bundle import open_bundle
from tests.device_agent.conftest import MODEL_SHA256, WorkerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from device_agent import Answer

WIDTH = 6
PLANNED = 3  # positive values in the frame that the plan saw

_HEAD = [
    helper.make_node("Relu", ["x"], ["positive"], name="relu"),
    helper.make_node("NonZero", ["positive"], ["found"], name="find"),
]
_TAIL = [
    helper.make_node("Cast", ["found"], ["float"], name="cast", to=TensorProto.FLOAT),
    helper.make_node("Add", ["float", "float"], ["y"], name="double"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("varying") / "bundle"
    folder.mkdir()
    x = ("x", TensorProto.FLOAT, [1, WIDTH])
    found = ("found", TensorProto.INT64, [2, PLANNED])
    y = ("y", TensorProto.FLOAT, [2, PLANNED])
    save(folder / "full.onnx", _HEAD + _TAIL, x, y)
    save(folder / "head.onnx", _HEAD, x, found)
    save(folder / "tail.onnx", _TAIL, found, y)
    (folder / "plan.json").write_text("{}")
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    sent = {**slot("found", "int64", [2, PLANNED]), "codec": "raw"}
    encoded = {**slot("x", "float32", [1, WIDTH]), "codec": "raw"}
    results = [slot("y", "float32", [2, PLANNED])]
    manifest = {
        "schema": 1,
        "model": {"name": "varying", "sha256": MODEL_SHA256},
        "decision": "split",
        "cut": "split",
        "full": "full.onnx",
        "inputs": [slot("x", "float32", [1, WIDTH])],
        "outputs": results,
        "cuts": [
            cut("device", "full.onnx", None, [], [], ["y"]),
            cut("cloud", None, "full.onnx", [encoded], results, []),
            cut("split", "head.onnx", "tail.onnx", [sent], results, []),
        ],
        "preprocess": None,
        "labels": [],
        "planned_inputs": [slot("x", "float32", [1, WIDTH])],
        "files": files,
    }
    (folder / "bundle.json").write_text(json.dumps(manifest))
    return folder


def save(path: Path, nodes: list[onnx.NodeProto], first: Any, last: Any) -> None:
    inputs = [helper.make_tensor_value_info(*first)]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(*last)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def slot(name: str, dtype: str, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape}


def cut(name: str, head: Any, tail: Any, frontier: Any, results: Any, kept: Any) -> dict[str, Any]:
    return {
        "id": name,
        "head": head,
        "tail": tail,
        "frontier": frontier,
        "results": results,
        "kept": kept,
    }


def run(folder: Path, cut_id: str, address: str, positives: list[int]) -> list[Answer]:
    agent = Agent(
        open_bundle(folder),
        cut=cut_id,
        worker=address,
        notice=lambda _: None,
        deadline_ms=30_000,
        link_policy=LinkPolicy(backoff_first_s=0.0),
        patience=Patience(20.0, 20.0),
    )
    frames = []
    for count in positives:
        x = np.full((1, WIDTH), -1, np.float32)
        x[0, :count] = 1
        frames.append(Frame({"x": x}))
    with agent:
        return list(agent.answers(frames))


@pytest.mark.parametrize(
    ("cut_id", "reason"), [("device", "planned"), ("split", "misfit"), ("cloud", "misfit")]
)
def test_every_frame_has_its_right_answer(cut_id: str, reason: str, folder: Path) -> None:
    positives = [PLANNED, PLANNED - 1, 0, WIDTH, PLANNED]
    with WorkerProcess(folder) as worker:
        answers = run(folder, cut_id, worker.address, positives)
    for answer, count in zip(answers, positives, strict=True):
        expected = np.stack([np.zeros(count), 2 * np.arange(count)])
        np.testing.assert_array_equal(answer.outputs["y"], expected)
    assert answers[1].reason.value == reason
    for planned in (answers[0], answers[-1]):  # the odd frames between cost no session
        assert planned.computed_on.value == ("device" if cut_id == "device" else "cloud")
