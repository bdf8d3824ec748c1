"""Steps that several tests of this package share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.feeds import Feeds
from profiler.graph.fusion import units_of
from profiler.graph.model import load_model
from profiler.graph.observation import Observation, observe
from profiler.graph.weights import StoredModel, store_model
from profiler.values import TensorSlot
from splitter.cuts import CutSpace

ENGINE = OnnxRuntimeEngine(EngineOptions(threads=1))


@dataclass(frozen=True)
class Prepared:
    """A model loaded, stored and observed, with all its legal cuts."""

    path: Path
    stored: StoredModel
    observation: Observation
    feeds: Feeds

    @property
    def space(self) -> CutSpace:
        return CutSpace.of(
            self.stored.loaded.graph, self.observation.units, self.observation.tensors
        )

    @property
    def single_space(self) -> CutSpace:
        """Cuts between any two nodes, through fused groups too."""
        graph = self.stored.loaded.graph
        return CutSpace.of(graph, units_of(graph, []), self.observation.tensors)

    @property
    def slots(self) -> dict[str, TensorSlot]:
        return {name: tensor.slot for name, tensor in self.observation.tensors.items()}


def prepare_file(path: Path, feeds: Feeds, folder: Path) -> Prepared:
    loaded = load_model(path)
    folder.mkdir(exist_ok=True)
    stored = store_model(loaded, folder)
    return Prepared(path, stored, observe(stored, feeds, ["affine8", "raw"]), feeds)


def prepare(proto: onnx.ModelProto, feeds: Feeds, folder: Path) -> Prepared:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return prepare_file(path, feeds, folder / "stored")
