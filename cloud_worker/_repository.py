"""The seam to the models on disk, and the folder that holds them.

Light, except for folders with bare models: those need onnx to be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cloud_worker.errors import RepositoryError
from protocol import install_hint
from splitter.bundle import is_bundle, open_bundle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class ModelEntry:
    """One model, wherever it lies.

    Attributes:
        name: For people.
        sha256: Digest of the whole model.
        bundles: Folders that hold tails of it.
        bare: The whole model as a file, if there is one.
    """

    name: str
    sha256: str
    bundles: tuple[Path, ...] = ()
    bare: Path | None = None


class ModelRepository(Protocol):
    """Knows which models there are and where they lie. Its answers come from memory."""

    def entries(self) -> Sequence[ModelEntry]:
        """All models, each digest once, by name."""

    def find(self, sha256: str) -> ModelEntry | None:
        """The model with this digest, or None."""


class ModelIndex:
    """A repository whose models were looked up beforehand.

    Args:
        entries: What was found; entries of one digest become one.
    """

    def __init__(self, entries: Iterable[ModelEntry]) -> None:
        self._entries: dict[str, ModelEntry] = {}
        for entry in sorted(entries, key=lambda entry: (entry.name, entry.sha256)):
            known = self._entries.get(entry.sha256)
            self._entries[entry.sha256] = entry if known is None else _merged(known, entry)

    def entries(self) -> Sequence[ModelEntry]:
        """All models; see :meth:`ModelRepository.entries`."""
        return tuple(self._entries.values())

    def find(self, sha256: str) -> ModelEntry | None:
        """The model with this digest; see :meth:`ModelRepository.find`."""
        return self._entries.get(sha256)


@dataclass(frozen=True)
class FolderContent:
    """What a folder of models holds.

    Attributes:
        models: What can be served.
        problems: One line for each entry that cannot.
    """

    models: ModelIndex
    problems: tuple[str, ...]


def read_folder(folder: Path) -> FolderContent:
    """Look for models in a folder: ``.onnx`` files, bundle folders, or the folder itself a bundle.

    Other files and hidden entries are passed over. The path of a file is read as that model.

    Raises:
        RepositoryError: There is no such folder, or nothing in it can be served.
    """
    if not folder.exists():
        raise RepositoryError(f"there is no folder {folder}; give a folder with .onnx models")
    entries: list[ModelEntry] = []
    problems: list[str] = []
    for path in _candidates(folder):
        entry = _read(path)
        if isinstance(entry, ModelEntry):
            entries.append(entry)
        else:
            problems.append(entry)
    if not entries:
        raise RepositoryError(_nothing_to_serve(folder, problems))
    return FolderContent(ModelIndex(entries), tuple(problems))


def _nothing_to_serve(folder: Path, problems: Sequence[str]) -> str:
    if not problems:
        return f"{folder} holds no .onnx model and no bundle; give a folder that does"
    if _candidates(folder) == [folder]:
        return problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"nothing in {folder} can be served: {problems[0]}{more}"


def _candidates(folder: Path) -> list[Path]:
    if not folder.is_dir() or is_bundle(folder):
        return [folder]
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise RepositoryError(f"{folder} cannot be read: {error.strerror}") from None
    return [path for path in paths if path.is_dir() or path.suffix == ".onnx"]


def _read(path: Path) -> ModelEntry | str:
    """The model at a path, or why it cannot be served."""
    try:
        if not path.is_dir() and not path.is_file():
            return f"{path} is neither a file nor a folder"  # reading a pipe might never end
        return _bundle_entry(path) if path.is_dir() else _bare_entry(path)
    except Exception as error:  # noqa: BLE001 (one bad file must not keep the rest from serving)
        text = str(error)
        return text if str(path) in text else f"{path}: {text}"


def _bundle_entry(folder: Path) -> ModelEntry:
    model = open_bundle(folder).model
    return ModelEntry(model.name, model.sha256, bundles=(folder,))


def _bare_entry(path: Path) -> ModelEntry:
    try:
        from profiler.graph.model import load_model
    except ImportError:
        raise RepositoryError(
            f"{path} is a bare model, which needs onnx: {install_hint('worker')}"
        ) from None
    identity = load_model(path).identity
    return ModelEntry(identity.name, identity.sha256, bare=path)


def _merged(first: ModelEntry, second: ModelEntry) -> ModelEntry:
    return ModelEntry(
        first.name, first.sha256, first.bundles + second.bundles, first.bare or second.bare
    )
