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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from profiler.values import ModelIdentity, TensorSlot
from protocol.codecs import parse_codec
from protocol.errors import ProtocolError
from protocol.preprocess import ImagePreprocess
from splitter import _manifest
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
        """Read what :meth:`to_dict` wrote.

        Raises:
            ValueError: It did not write this.
        """
        slot = _manifest.slot(data)
        return cls(slot, parse_codec(_manifest.text(data["codec"])).name)


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
        planned_inputs: The concrete inputs that the plan was made with; empty in the first bundles.
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
    manifest = _manifest.read_json(folder, MANIFEST_FILE)
    schema = manifest.get("schema")
    if type(schema) is not int or schema < 1:
        raise BundleError(f"{folder / MANIFEST_FILE} has no valid schema number; it is no bundle")
    if schema > SCHEMA:
        raise BundleError(
            f"{folder} is a bundle of schema {schema}; this version reads up to {SCHEMA}: "
            "upgrade headtail"
        )
    files = _field(folder, manifest, "files", _manifest.file_digests)
    for name, digest in files.items():
        _check_file(folder, name, digest if verify else None)
    bundle = _bundle(folder, manifest, files)
    for cut in bundle.cuts.values():
        _check_cut(bundle, cut)
    return bundle


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _check_file(folder: Path, name: str, digest: str | None) -> None:
    path = folder / name
    try:
        if not path.is_file():
            raise BundleError(f"{folder} is incomplete: {name} is missing; copy the bundle again")
        if digest is not None and file_sha256(path) != digest:
            raise BundleError(f"{folder} is damaged: {name} has changed; copy the bundle again")
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from None


def _check_cut(bundle: Bundle, cut: BundledCut) -> None:
    fault = _cut_fault(bundle, cut)
    if fault:
        raise BundleError(f"{bundle.folder / MANIFEST_FILE}: the cut {cut.id!r} {fault}")


def _cut_fault(bundle: Bundle, cut: BundledCut) -> str:
    """Why a cut cannot be run, whatever its models are; empty if it may be."""
    inputs, outputs = ({slot.name for slot in slots} for slots in (bundle.inputs, bundle.outputs))
    made = {*cut.kept, *(slot.name for slot in cut.results)}
    sent = {tensor.slot.name for tensor in cut.frontier}
    if cut.head is None and cut.tail is None:
        return "has neither head nor tail"
    if (cut.id == "device") is not (cut.tail is None):
        return "must have no tail" if cut.id == "device" else "has no tail"
    if cut.tail is None and (cut.frontier or cut.results):
        return "sends tensors, but has no tail to send them to"
    if made != outputs:
        return f"gives {', '.join(sorted(made))}, not the outputs {', '.join(sorted(outputs))}"
    if cut.head is None and not sent <= inputs:
        return f"has no head, but sends {', '.join(sorted(sent - inputs))}, which is no input"
    for tensor in cut.frontier:
        if tensor.codec.startswith("jpeg") and not _is_picture(bundle, cut, tensor.slot):
            return f"sends {tensor.slot.name!r} as a JPEG, but preprocess does not make it"
    return ""


def _is_picture(bundle: Bundle, cut: BundledCut, slot: TensorSlot) -> bool:
    if bundle.preprocess is None or cut.head is not None:
        return False
    return slot.accepts("float32", bundle.preprocess.output_shape)


def _bundle(folder: Path, manifest: dict[str, Any], files: Mapping[str, str]) -> Bundle:
    def part(name: object) -> Path | None:
        return None if name is None else file(name)

    def file(name: object) -> Path:
        if not isinstance(name, str) or name not in files:
            raise ValueError(f"{name!r} is not among the files")
        return folder / name

    def cut(value: Any) -> BundledCut:
        data = _manifest.table(value)
        return BundledCut(
            id=_manifest.text(data["id"]),
            head=part(data["head"]),
            tail=part(data["tail"]),
            frontier=_manifest.items(data["frontier"], FrontierTensor.from_dict),
            results=_manifest.slots(data["results"]),
            kept=_manifest.items(data["kept"], _manifest.text),
        )

    def cuts_by_id(value: Any) -> dict[str, BundledCut]:
        found = _manifest.items(value, cut)
        cuts = {one.id: one for one in found}
        if len(cuts) != len(found):
            raise ValueError("an id comes twice")
        return cuts

    def planned(value: Any) -> tuple[TensorSlot, ...]:
        found = _manifest.slots(value)
        if found and {slot.name for slot in found} != {slot.name for slot in inputs}:
            raise ValueError("they are not the inputs")
        return found

    # The first bundles of this schema did not say what they were planned with; nobody must know.
    manifest.setdefault("planned_inputs", [])
    inputs = _field(folder, manifest, "inputs", _manifest.slots)
    cuts = _field(folder, manifest, "cuts", cuts_by_id)
    cut_id = _field(folder, manifest, "cut", _manifest.text)
    decision = _field(folder, manifest, "decision", _decision)
    for wanted in ("device", "cloud", cut_id):
        if wanted not in cuts:
            raise BundleError(f"{folder / MANIFEST_FILE} lacks the cut {wanted!r}")
    return Bundle(
        folder=folder,
        model=_field(folder, manifest, "model", _manifest.identity),
        decision=decision,
        cut_id=cut_id,
        cuts=cuts,
        full=_field(folder, manifest, "full", file),
        inputs=inputs,
        outputs=_field(folder, manifest, "outputs", _manifest.slots),
        preprocess=_field(folder, manifest, "preprocess", _preprocess),
        labels=_field(
            folder, manifest, "labels", lambda found: _manifest.items(found, _manifest.text)
        ),
        plan=_manifest.read_json(folder, PLAN_FILE),
        planned_inputs=_field(folder, manifest, "planned_inputs", planned),
    )


def _field(folder: Path, data: Mapping[str, Any], key: str, read: Callable[[Any], _T]) -> _T:
    try:
        return read(data[key])
    except ProtocolError as error:
        raise BundleError(f"{folder / MANIFEST_FILE}: {key}: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise BundleError(f"{folder / MANIFEST_FILE}: {key} is not valid: {reason}") from error


def _decision(value: Any) -> Decision:
    for decision in _DECISIONS:
        if value == decision:
            return decision
    raise ValueError(f"{value!r} is none of {', '.join(_DECISIONS)}")


def _preprocess(value: Any) -> ImagePreprocess | None:
    return None if value is None else ImagePreprocess.from_dict(_manifest.table(value))
