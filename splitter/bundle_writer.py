"""Write a bundle: checked, run against the whole model, put into its place. Needs onnx."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from profiler.engine import Engine
from profiler.graph.feeds import Feeds
from profiler.graph.observation import ObservedTensor
from profiler.graph.weights import FULL_MODEL_FILE, StoredModel
from profiler.values import TensorSlot
from protocol.preprocess import ImagePreprocess
from protocol.text import quoted
from splitter.bundle import (
    MANIFEST_FILE,
    PLAN_FILE,
    SCHEMA,
    BundledCut,
    FrontierTensor,
    file_sha256,
)
from splitter.cuts import CLOUD_ONLY, DEVICE_ONLY, CutSpace
from splitter.errors import ExtractionError, PlanError
from splitter.extraction import disagreement, run_parts, write_head, write_tail
from splitter.plans import Candidate, Plan
from splitter.workspace import move_into_place, sync

# Parts compute what the whole computes, but the runtime may order sums differently where a cut
# keeps it from fusing; 6e-6 is the most seen on 22 networks. Half precision has 11 bits.
_TOLERANCE = 1e-4
_HALF_TOLERANCE = 1e-2


@dataclass(frozen=True)
class BundleContents:
    """What goes into a bundle besides the model.

    Attributes:
        plan: The decision; its best split and its family are written, chosen or not.
        space: The legal cuts of the model.
        tensors: What was seen of each tensor.
        feeds: Inputs on which the parts must agree with the whole.
        preprocess: How a picture becomes the input, if declared.
        labels: Names of the classes, if declared.
        cut: Id of the candidate that is to be run, whatever the plan chose.
    """

    plan: Plan
    space: CutSpace
    tensors: Mapping[str, ObservedTensor]
    feeds: Feeds
    preprocess: ImagePreprocess | None = None
    labels: Sequence[str] = ()
    cut: str | None = None

    @property
    def chosen(self) -> Candidate:
        """The candidate that is to be run.

        Raises:
            PlanError: The plan weighed no cut of this id.
        """
        plan = self.plan
        if self.cut is None:
            return plan.chosen
        modes = (plan.device_only, plan.cloud_only)
        weighed = {item.cut: item for item in (*modes, *plan.family_candidates, *plan.candidates)}
        if self.cut not in weighed:
            raise PlanError(f"the plan has no cut {quoted(self.cut)}; it has {', '.join(weighed)}")
        return weighed[self.cut]


def write_bundle(
    stored: StoredModel, contents: BundleContents, engine: Engine, target: Path
) -> dict[str, float]:
    """Complete a stored model to a bundle and move it into place.

    Args:
        stored: The model, stored in the folder of
            :func:`~splitter.workspace.bundle_workspace`.
        contents: The plan and what it was made from.
        engine: Runs whole and parts.
        target: The bundle's folder. An old bundle there is replaced at once, or not at all.

    Returns:
        For each split in the bundle, how far its answer is from the whole model's.

    Raises:
        ExtractionError: A part does not load, run, or agree with the whole.
        BundleError: The target cannot be replaced.
        PlanError: The plan weighed no cut of the wanted id.
    """
    splits = _splits(contents.plan, contents.chosen)
    cuts = [_whole_on_one_side(stored, contents, cut_id) for cut_id in (DEVICE_ONLY, CLOUD_ONLY)]
    apart: dict[str, float] = {}
    whole = _run_repeatably(engine, stored, contents.feeds)
    for split in splits:
        bundled = _write_split(stored, contents, split)
        parts = run_parts(engine, bundled.head, bundled.tail, contents.feeds)
        outputs = {name: whole[name] for name in stored.loaded.graph.outputs}
        apart[split.cut] = disagreement(outputs, parts)
        tolerance = _tolerance(outputs.values())
        if apart[split.cut] > tolerance:
            raise ExtractionError(
                f"{split.cut}: head and tail are {apart[split.cut]:.2e} away from the whole model "
                f"(limit {tolerance:.0e}); this runtime computes the parts differently"
            )
        cuts.append(bundled)
    _write_manifest(stored, contents, cuts, apart)
    sync(stored.folder)
    move_into_place(stored.folder, target)
    return apart


def _run_repeatably(engine: Engine, stored: StoredModel, feeds: Feeds) -> Mapping[str, Any]:
    """Return the whole model's answer, if it gives the same one twice."""
    session = engine.load(stored.full)
    # In one session: a new one would start its random numbers from the same seed.
    first, second = session.run(feeds), session.run(feeds)
    session.close()
    if disagreement(first, second) > _tolerance(first.values()):
        raise ExtractionError(
            f"{stored.loaded.identity.name} answers the same input differently each time (a random "
            "operator, or dropout in training mode?), so no part can be checked against it"
        )
    return first


def _splits(plan: Plan, chosen: Candidate) -> list[Candidate]:
    """The splits a bundle carries: the best, that which is to be run, and the plan's family."""
    best = [] if plan.best_split is None else [plan.best_split]
    splits = (item for item in (*best, chosen, *plan.family_candidates) if item.decision == "split")
    return list({item.cut: item for item in splits}.values())


def _tolerance(outputs: Any) -> float:
    half = any(value.dtype == np.float16 for value in outputs)
    return _HALF_TOLERANCE if half else _TOLERANCE


def _write_split(stored: StoredModel, contents: BundleContents, split: Candidate) -> BundledCut:
    cut = contents.space.cut(split.units)
    slots = {name: tensor.slot for name, tensor in contents.tensors.items()}
    name = cut.id.removeprefix("cut-")
    return BundledCut(
        id=cut.id,
        head=write_head(stored, cut, slots, f"head-{name}.onnx"),
        tail=write_tail(stored, cut, slots, f"tail-{name}.onnx"),
        frontier=tuple(FrontierTensor(slots[item.name], item.codec) for item in split.tensors),
        results=tuple(slots[output] for output in cut.results),
        kept=cut.kept,
    )


def _whole_on_one_side(stored: StoredModel, contents: BundleContents, cut_id: str) -> BundledCut:
    graph = stored.loaded.graph
    outputs = tuple(contents.tensors[name].slot for name in graph.outputs)
    if cut_id == DEVICE_ONLY:
        return BundledCut(DEVICE_ONLY, stored.full, None, (), (), graph.outputs)
    codecs = {tensor.name: tensor.codec for tensor in contents.plan.cloud_only.tensors}
    # The whole model wants all its inputs, even one that no node reads.
    frontier = tuple(FrontierTensor(slot, codecs.get(slot.name, "raw")) for slot in graph.inputs)
    return BundledCut(CLOUD_ONLY, None, stored.full, frontier, outputs, ())


def _write_manifest(
    stored: StoredModel,
    contents: BundleContents,
    cuts: Sequence[BundledCut],
    apart: Mapping[str, float],
) -> None:
    folder, loaded, plan = stored.folder, stored.loaded, contents.plan
    outputs: list[TensorSlot] = [contents.tensors[name].slot for name in loaded.graph.outputs]
    (folder / PLAN_FILE).write_text(json.dumps(plan.to_dict(), indent=1) + "\n")
    files = sorted(path for path in folder.iterdir() if path.name != MANIFEST_FILE)
    manifest = {
        "schema": SCHEMA,
        "model": loaded.identity.to_dict(),
        "decision": contents.chosen.decision,
        "cut": contents.chosen.cut,
        "full": FULL_MODEL_FILE,
        "inputs": [slot.to_dict() for slot in loaded.graph.inputs],
        "outputs": [slot.to_dict() for slot in outputs],
        "planned_inputs": [
            TensorSlot(name, str(array.dtype), array.shape).to_dict()
            for name, array in contents.feeds.items()
        ],
        "cuts": [_cut_to_dict(cut) for cut in cuts],
        "preprocess": None if contents.preprocess is None else contents.preprocess.to_dict(),
        "labels": list(contents.labels),
        "disagreement": dict(apart),
        "files": {path.name: file_sha256(path) for path in files},
    }
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest, indent=1) + "\n")


def _cut_to_dict(cut: BundledCut) -> dict[str, Any]:
    return {
        "id": cut.id,
        "head": None if cut.head is None else cut.head.name,
        "tail": None if cut.tail is None else cut.tail.name,
        "frontier": [tensor.to_dict() for tensor in cut.frontier],
        "results": [slot.to_dict() for slot in cut.results],
        "kept": list(cut.kept),
    }
