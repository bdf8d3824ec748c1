"""A small bundle of ``net.onnx``, written by hand so that no planning is needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from profiler.graph.model import load_model
from profiler.graph.weights import store_model
from profiler.values import TensorSlot
from splitter.bundle import file_sha256
from splitter.extraction import write_part

if TYPE_CHECKING:
    from pathlib import Path

SLOTS = {
    name: TensorSlot(name, "float32", (1, 8)) for name in ("image", "skip", "hidden", "answer")
}


def save_bundle(model: Path, folder: Path, frontier: tuple[str, ...] = ("skip",)) -> Path:
    """Write a bundle with one split, at the given tensors."""
    folder.mkdir()
    loaded = load_model(model)
    stored = store_model(loaded, folder)
    answer = [SLOTS["answer"]]
    write_part(stored, [SLOTS["image"]], [SLOTS[name] for name in frontier], "head-1.onnx")
    write_part(stored, [SLOTS[name] for name in frontier], answer, "tail-1.onnx")
    (folder / "plan.json").write_text("{}")

    def cut(name: str, head: str | None, tail: str | None, names: tuple[str, ...]) -> object:
        return {
            "id": name,
            "head": head,
            "tail": tail,
            "frontier": [{**SLOTS[item].to_dict(), "codec": "raw"} for item in names],
            "results": [slot.to_dict() for slot in answer] if tail else [],
            "kept": [] if tail else ["answer"],
        }

    manifest = {
        "schema": 1,
        "model": loaded.identity.to_dict(),
        "decision": "split",
        "cut": "cut-1",
        "full": "full.onnx",
        "inputs": [SLOTS["image"].to_dict()],
        "outputs": [SLOTS["answer"].to_dict()],
        "cuts": [
            cut("device", "full.onnx", None, ()),
            cut("cloud", None, "full.onnx", ("image",)),
            cut("cut-1", "head-1.onnx", "tail-1.onnx", frontier),
        ],
        "preprocess": None,
        "labels": [],
        "planned_inputs": [],
        "disagreement": {},
        "files": {path.name: file_sha256(path) for path in sorted(folder.iterdir())},
    }
    (folder / "bundle.json").write_text(json.dumps(manifest))
    return folder
