"""Tails on demand: from a bundle, as the whole model, or cut out of the whole model.

Light until a tail must be cut or a bare model read: that needs onnx.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, get_args

from cloud_worker.errors import IllegalCutError, LoadError
from profiler.errors import EngineError, ProfilerError
from protocol import Dtype, install_hint
from splitter.bundle import open_bundle
from splitter.errors import BundleError, CutError, SplitterError

if TYPE_CHECKING:
    from cloud_worker._repository import ModelEntry, ModelRepository
    from cloud_worker._work import TailKey
    from profiler.engine import StoppableEngine, StoppableSession
    from profiler.graph.model import LoadedModel
    from splitter.bundle import Bundle

_SENDABLE = frozenset(get_args(Dtype))


class TailSource(Protocol):
    """Makes sessions of tails. One thread at a time asks it."""

    def load(self, key: TailKey) -> StoppableSession:
        """Load a tail whose inputs are exactly the frontier and whose outputs hold the results.

        Raises:
            IllegalCutError: The model cannot be cut so.
            LoadError: The tail cannot be made or loaded.
        """

    def close(self) -> None:
        """Remove what was made on the way."""


class TailLoader:
    """Loads the tails of a repository's models.

    Models are read again, and compared with their digest, each time a tail is loaded: files on
    disk may have been exchanged since the repository was read, and a tail must never meet a head
    of another model.

    Args:
        models: Where the models lie.
        engine: What loads them.
    """

    def __init__(self, models: ModelRepository, engine: StoppableEngine) -> None:
        self._models = models
        self._engine = engine
        self._cuttings: tempfile.TemporaryDirectory[str] | None = None

    def load(self, key: TailKey) -> StoppableSession:
        """Load a tail; see :meth:`TailSource.load`."""
        entry = self._models.find(key.model)
        if entry is None:
            raise LoadError(f"model {key.model[:12]} is no longer served")
        try:
            session = self._bundled(entry, key) or self._from_whole(entry, key)
        except CutError as error:
            raise IllegalCutError(f"{entry.name}: {error}") from error
        except (ProfilerError, SplitterError, OSError) as error:
            raise LoadError(f"{entry.name}: {error}") from error
        for slot in (*session.inputs, *session.outputs):
            if slot.dtype not in _SENDABLE and slot.name in {*key.frontier, *key.results}:
                session.close()
                raise IllegalCutError(f"{entry.name}: {slot.name!r} is {slot.dtype}, not sendable")
        return session

    def close(self) -> None:
        """Remove the folder of cut tails."""
        if self._cuttings is not None:
            self._cuttings.cleanup()

    def _bundled(self, entry: ModelEntry, key: TailKey) -> StoppableSession | None:
        for folder in entry.bundles:
            try:
                session = self._from_bundle(folder, entry, key)
            except (BundleError, LoadError):
                if entry.bare is None and len(entry.bundles) == 1:
                    raise
                continue  # damaged or replaced; the same model lies elsewhere, too
            if session is not None:
                return session
        return None

    def _from_bundle(
        self, folder: Path, entry: ModelEntry, key: TailKey
    ) -> StoppableSession | None:
        while True:
            bundle = _open_same(folder, entry)
            tail = _bundled_tail(bundle, key)
            if tail is None:
                return None
            session = self._engine.load(tail)
            # A new bundle may have taken its place since, with another tail of the same file name.
            if open_bundle(folder, verify=False) == bundle:
                return session
            session.close()

    def _from_whole(self, entry: ModelEntry, key: TailKey) -> StoppableSession:
        loaded = _load_whole(entry)
        inputs = {slot.name for slot in loaded.graph.inputs}
        if set(key.frontier) == inputs and set(key.results) <= set(loaded.graph.outputs):
            session = self._whole(loaded, inputs)
            if session is not None:
                return session
        from splitter.extraction import extract_tail

        tail = extract_tail(loaded, key.frontier, key.results, self._folder(key.model))
        _forget_guessed_ranks(tail)
        try:
            return self._engine.load(tail)
        finally:
            tail.unlink()  # one for each cut that somebody asks for; the weights stay

    def _folder(self, sha256: str) -> Path:
        """Where the tails of a model lie; they share the weights written for the first of them."""
        if self._cuttings is None:
            self._cuttings = tempfile.TemporaryDirectory(
                prefix="headtail-worker-", ignore_cleanup_errors=True
            )
        folder = Path(self._cuttings.name, sha256)
        folder.mkdir(exist_ok=True)
        return folder

    def _whole(self, loaded: LoadedModel, inputs: set[str]) -> StoppableSession | None:
        """The whole model as it lies there, if the runtime takes it so.

        Old models list their weights among the inputs, and some have node names that the runtime
        refuses; what is cut out of the model has neither.
        """
        try:
            session = self._engine.load(loaded.path)
        except EngineError:
            return None
        if {slot.name for slot in session.inputs} == inputs:
            return session
        session.close()
        return None


def _forget_guessed_ranks(tail: Path) -> None:
    """Declare no shape for inputs that were written as scalars.

    The runtime reports a rank that it cannot infer as a scalar's, and would refuse the consumers of
    such a scalar. It takes inputs without a shape; the ONNX checker, which has run by now, takes
    none.
    """
    import onnx

    proto = onnx.load(tail, load_external_data=False)
    types = [value.type.tensor_type for value in proto.graph.input]
    guessed = [kind for kind in types if kind.HasField("shape") and not kind.shape.dim]
    for kind in guessed:
        kind.ClearField("shape")
    if guessed:
        tail.write_bytes(proto.SerializeToString())


def _bundled_tail(bundle: Bundle, key: TailKey) -> Path | None:
    for cut in bundle.cuts.values():
        frontier = {tensor.slot.name for tensor in cut.frontier}
        results = {slot.name for slot in cut.results}
        if cut.tail and frontier == set(key.frontier) and results >= set(key.results):
            return cut.tail
    return None


def _open_same(folder: Path, entry: ModelEntry) -> Bundle:
    bundle = open_bundle(folder)
    if bundle.model.sha256 != entry.sha256:
        raise LoadError(f"{folder} holds another model now; restart the worker to serve it")
    return bundle


def _any_same(entry: ModelEntry) -> Bundle:
    """A bundle that still holds the model."""
    for folder in entry.bundles[:-1]:
        with contextlib.suppress(BundleError, LoadError):
            return _open_same(folder, entry)
    return _open_same(entry.bundles[-1], entry)


def _load_whole(entry: ModelEntry) -> LoadedModel:
    try:
        from profiler.graph.model import load_model
    except ImportError:
        raise LoadError(
            f"{entry.name}: no bundle here has this cut, and cutting needs onnx: "
            f"{install_hint('worker')}"
        ) from None
    if entry.bare is None:
        return load_model(_any_same(entry).full)
    loaded = load_model(entry.bare)
    if loaded.identity.sha256 != entry.sha256:
        raise LoadError(f"{entry.bare} has changed; restart the worker to serve it")
    return loaded
