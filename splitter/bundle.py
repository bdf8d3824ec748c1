"""Bundles: the folder that a device or a worker runs. Light: no onnx, no scipy.

A bundle is one flat folder, since external weights may not leave a model's folder::

    bundle.json        what is in it, with the digest of every file
    plan.json          the decision, its prediction and its alternatives
    weights.bin        the weights, once for all parts
    full.onnx          the whole model
    head-ID.onnx       what the device runs of each cut
    tail-ID.onnx       what the cloud runs of each cut
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from profiler.values import ModelIdentity, TensorSlot
from protocol.errors import ProtocolError
from protocol.preprocess import ImagePreprocess
from splitter.errors import BundleError

SCHEMA = 1
MANIFEST_FILE = "bundle.json"
PLAN_FILE = "plan.json"

Decision = Literal["device", "cloud", "split"]
_DECISIONS: tuple[Decision, ...] = ("device", "cloud", "split")
_T = TypeVar("_T")


@dataclass(frozen=True)
class FrontierTensor:
    """A tensor that crosses a cut, and how.

    Attributes:
        slot: Its name, dtype and shape.
        codec: The codec's name, see :func:`protocol.parse_codec`.
    """

    slot: TensorSlot
    codec: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {**self.slot.to_dict(), "codec": self.codec}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FrontierTensor:
        """Read what :meth:`to_dict` wrote."""
        return cls(TensorSlot.from_dict(data), str(data["codec"]))


@dataclass(frozen=True)
class BundledCut:
    """One way to share the work.

    Attributes:
        id: ``device``, ``cloud``, or the id of a split.
        head: The model that the device runs; ``None`` if it runs nothing.
        tail: The model that the cloud runs; ``None`` if it runs nothing.
        frontier: What the device sends: outputs of the head, or inputs as they are.
        results: Outputs of the model that the cloud sends back.
        kept: Outputs of the model that the head makes.
    """

    id: str
    head: Path | None
    tail: Path | None
    frontier: tuple[FrontierTensor, ...]
    results: tuple[TensorSlot, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Bundle:
    """An opened bundle; every part is a path, loaded by whoever runs it.

    Attributes:
        folder: Where it lies.
        model: The model it was made from.
        decision: What the plan chose.
        cut_id: The chosen cut.
        cuts: All cuts by id; ``device`` and ``cloud`` are always there.
        full: The whole model.
        inputs: Inputs of the whole model.
        outputs: Outputs of the whole model.
        preprocess: How a picture becomes the input; ``None`` if not declared.
        labels: Names of the classes; empty if not declared.
        planned_inputs: The concrete inputs that the plan was made with.
        plan: The plan as it was written.
    """

    folder: Path
    model: ModelIdentity
    decision: Decision
    cut_id: str
    cuts: Mapping[str, BundledCut]
    full: Path
    inputs: tuple[TensorSlot, ...]
    outputs: tuple[TensorSlot, ...]
    preprocess: ImagePreprocess | None
    labels: tuple[str, ...]
    plan: Mapping[str, Any]
    planned_inputs: tuple[TensorSlot, ...] = ()


def is_bundle(folder: Path) -> bool:
    """Whether a folder says that it is a bundle."""
    return (folder / MANIFEST_FILE).is_file()


def open_bundle(folder: Path | str, *, verify: bool = True) -> Bundle:
    """Open a bundle.

    Args:
        folder: The bundle's folder.
        verify: Compare the digest of every file with the manifest, so that a damaged or
            half-copied bundle is refused before anything of it runs.

    Raises:
        BundleError: No bundle, a newer one than this version reads, or one that is damaged.
    """
    folder = Path(folder)
    manifest = _read_json(folder, MANIFEST_FILE)
    schema = manifest.get("schema")
    if type(schema) is not int or schema < 1:
        raise BundleError(f"{folder / MANIFEST_FILE} has no valid schema number; it is no bundle")
    if schema > SCHEMA:
        raise BundleError(
            f"{folder} is a bundle of schema {schema}; this version reads up to {SCHEMA}: "
            "upgrade headtail"
        )
    files = _field(folder, manifest, "files", _digests)
    for name, digest in files.items():
        path = folder / name
        if not path.is_file():
            raise BundleError(f"{folder} is incomplete: {name} is missing; copy the bundle again")
        if verify and file_sha256(path) != digest:
            raise BundleError(f"{folder} is damaged: {name} has changed; copy the bundle again")
    return _bundle(folder, manifest, files)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _bundle(folder: Path, manifest: dict[str, Any], files: Mapping[str, str]) -> Bundle:
    def part(name: object) -> Path | None:
        if name is None:
            return None
        if name not in files:
            raise ValueError(f"{name!r} is not among the files")
        return folder / str(name)

    def cut(data: dict[str, Any]) -> BundledCut:
        return BundledCut(
            id=str(data["id"]),
            head=part(data["head"]),
            tail=part(data["tail"]),
            frontier=tuple(FrontierTensor.from_dict(item) for item in data["frontier"]),
            results=_slots(data["results"]),
            kept=tuple(map(str, data["kept"])),
        )

    def full(name: object) -> Path:
        path = part(name)
        if path is None:
            raise ValueError("the full model is not named")
        return path

    cuts = _field(folder, manifest, "cuts", lambda items: {c.id: c for c in map(cut, items)})
    cut_id = _field(folder, manifest, "cut", str)
    decision = _field(folder, manifest, "decision", _decision)
    for wanted in ("device", "cloud", cut_id):
        if wanted not in cuts:
            raise BundleError(f"{folder / MANIFEST_FILE} lacks the cut {wanted!r}")
    return Bundle(
        folder=folder,
        model=_field(folder, manifest, "model", ModelIdentity.from_dict),
        decision=decision,
        cut_id=cut_id,
        cuts=cuts,
        full=_field(folder, manifest, "full", full),
        inputs=_field(folder, manifest, "inputs", _slots),
        outputs=_field(folder, manifest, "outputs", _slots),
        preprocess=_field(folder, manifest, "preprocess", _preprocess),
        labels=_field(folder, manifest, "labels", lambda items: tuple(map(str, items))),
        plan=_read_json(folder, PLAN_FILE),
        planned_inputs=_field(folder, manifest, "planned_inputs", _slots),
    )


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        if not folder.exists():
            raise BundleError(f"there is no folder {folder}") from None
        raise BundleError(
            f"{folder} is no bundle: it has no {name}; make one with split-plan MODEL -o FOLDER"
        ) from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BundleError(f"{path} is not valid JSON; copy the bundle again") from None
    if not isinstance(data, dict):
        raise BundleError(f"{path} holds no JSON object")
    return data


def _field(folder: Path, data: Mapping[str, Any], key: str, read: Callable[[Any], _T]) -> _T:
    try:
        return read(data[key])
    except ProtocolError as error:
        raise BundleError(f"{folder / MANIFEST_FILE}: {key}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise BundleError(f"{folder / MANIFEST_FILE}: {key} is not valid: {reason}") from error


def _digests(data: Any) -> dict[str, str]:
    files = {str(name): str(digest) for name, digest in data.items()}
    for name in files:
        if name != Path(name).name or name in {"", ".", ".."}:
            raise ValueError(f"{name!r} is not a plain file name")
    return files


def _slots(items: Any) -> tuple[TensorSlot, ...]:
    return tuple(TensorSlot.from_dict(item) for item in items)


def _decision(value: Any) -> Decision:
    for decision in _DECISIONS:
        if value == decision:
            return decision
    raise ValueError(f"{value!r} is none of {', '.join(_DECISIONS)}")


def _preprocess(value: Any) -> ImagePreprocess | None:
    return None if value is None else ImagePreprocess.from_dict(value)
