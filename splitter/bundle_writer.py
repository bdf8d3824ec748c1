"""Write a bundle: checked, run against the whole model, moved into place. Needs onnx."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from splitter.bundle import (
    MANIFEST_FILE,
    PLAN_FILE,
    SCHEMA,
    BundledCut,
    FrontierTensor,
    file_sha256,
    is_bundle,
)
from splitter.cuts import CLOUD_ONLY, DEVICE_ONLY, CutSpace
from splitter.errors import BundleError, ExtractionError
from splitter.extraction import disagreement, run_parts, write_head, write_tail
from splitter.plan import Candidate, Plan

# Parts compute what the whole computes, but the runtime may order sums differently where a cut
# keeps it from fusing; 6e-6 is the most seen on 22 networks. Half precision has 11 bits.
_TOLERANCE = 1e-4
_HALF_TOLERANCE = 1e-2


@dataclass(frozen=True)
class BundleContents:
    """What goes into a bundle besides the model.

    Attributes:
        plan: The decision; its best split is written, chosen or not.
        space: The legal cuts of the model.
        tensors: What was seen of each tensor.
        feeds: Inputs on which the parts must agree with the whole.
        preprocess: How a picture becomes the input, if declared.
        labels: Names of the classes, if declared.
    """

    plan: Plan
    space: CutSpace
    tensors: Mapping[str, ObservedTensor]
    feeds: Feeds
    preprocess: ImagePreprocess | None = None
    labels: Sequence[str] = ()


@contextmanager
def bundle_workspace(target: Path) -> Iterator[Path]:
    """Give a folder beside the target to build in; it is removed unless it was moved into place.

    Raises:
        BundleError: The target is something else than a bundle, or cannot be written beside.
    """
    if target.exists() and not (target.is_dir() and (is_bundle(target) or _is_empty(target))):
        raise BundleError(f"{target} exists and is no bundle; name another folder")
    foreign = _foreign_files(target)
    if foreign:
        raise BundleError(f"{target} holds {foreign[0]!r}, which is no part of a bundle; move it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise BundleError(f"cannot write beside {target}: {error.strerror}") from None
    try:
        folder.chmod(0o755)
        yield folder
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise BundleError(f"cannot write {target}: {error.strerror}") from None
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_bundle(
    stored: StoredModel, contents: BundleContents, engine: Engine, target: Path
) -> dict[str, float]:
    """Complete a stored model to a bundle and move it into place.

    Args:
        stored: The model, stored in the folder of :func:`bundle_workspace`.
        contents: The plan and what it was made from.
        engine: Runs whole and parts.
        target: The bundle's folder. An old bundle there is replaced at once, or not at all.

    Returns:
        For each split in the bundle, how far its answer is from the whole model's.

    Raises:
        ExtractionError: A part does not load, run, or agree with the whole.
        BundleError: The target cannot be replaced.
    """
    cuts = [_whole_on_one_side(stored, contents, cut_id) for cut_id in (DEVICE_ONLY, CLOUD_ONLY)]
    apart: dict[str, float] = {}
    whole = _run_repeatably(engine, stored, contents.feeds)
    for split in _splits(contents.plan):
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
    _sync(stored.folder)
    _move_into_place(stored.folder, target)
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


def _splits(plan: Plan) -> list[Candidate]:
    """The splits a bundle carries: the best one, whether or not another mode is better still."""
    return [] if plan.best_split is None else [plan.best_split]


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
        "decision": plan.chosen.decision,
        "cut": plan.chosen.cut,
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


def _foreign_files(target: Path) -> list[str]:
    """What lies in an old bundle's folder without being part of it, and would be lost with it."""
    if not is_bundle(target):
        return []
    try:
        known = json.loads((target / MANIFEST_FILE).read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BundleError(f"{target} is a damaged bundle; remove it first") from None
    return sorted(
        path.name for path in target.iterdir() if path.name not in {*known, MANIFEST_FILE}
    )


def _is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


def _sync(folder: Path) -> None:
    """A rename may reach the disk before what was written into the files: force them first."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _move_into_place(folder: Path, target: Path) -> None:
    """Rename, or exchange with the old bundle, which the workspace then removes."""
    target = target.resolve()  # a link such as "current" keeps pointing where it points
    try:
        if target.exists():
            _replace(folder, target)
        else:
            folder.rename(target)
    except OSError as error:
        raise BundleError(f"cannot put the bundle at {target}: {error.strerror}") from None


def _replace(folder: Path, target: Path) -> None:
    try:
        _exchange(folder, target)
    except (AttributeError, OSError):  # an old C library, or a file system that cannot exchange
        old = folder.with_name(f"{folder.name}-old")
        target.rename(old)
        folder.rename(target)
        shutil.rmtree(old)


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def _exchange(first: Path, second: Path) -> None:
    """Swap two folders in one step, so that whoever opens the target finds the old or the new."""
    rename = ctypes.CDLL(
        None, use_errno=True
    ).renameat2  # in glibc from 2.28 on, in musl from 1.2.4
    code = rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
