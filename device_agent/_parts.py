"""The two parts of the model at one cut, each loaded when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol import CodecError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from profiler.engine import Engine, Session
    from splitter.bundle import BundledCut

    Arrays = Mapping[str, NDArray[Any]]


class CutParts:
    """Head and tail of a cut.

    Args:
        cut: The cut.
        engine: Loads and runs the models.
        outputs: The whole model's outputs, in its order.
    """

    def __init__(self, cut: BundledCut, engine: Engine, outputs: tuple[str, ...]) -> None:
        self._cut = cut
        self._engine = engine
        self._outputs = outputs
        self._loaded: dict[Path, Session] = {}

    def load_head(self) -> None:
        """Load what every frame needs, so that the first frame does not wait for it."""
        if self._cut.head is not None:
            self._session(self._cut.head)

    def run_head(self, feeds: Arrays) -> dict[str, NDArray[Any]]:
        """Run the head.

        Returns:
            What is known at the cut: the model's inputs, and what the head has made of them.
        """
        return self._run(self._cut.head, feeds)

    def run_tail(self, known: Arrays) -> dict[str, NDArray[Any]]:
        """Run the tail on this device, from what :meth:`run_head` returned.

        Returns:
            The model's outputs.
        """
        return self.outputs(self._run(self._cut.tail, known))

    def outputs(self, known: Arrays) -> dict[str, NDArray[Any]]:
        """Pick the model's outputs, in its order."""
        return {name: known[name] for name in self._outputs}

    def load_tail(self) -> None:
        """Load what finishes a frame here: when the link has gone there is no time for it."""
        if self._cut.tail is not None:
            self._session(self._cut.tail)

    def merge(self, known: Arrays, results: Arrays) -> dict[str, NDArray[Any]]:
        """Join the head's outputs with the tail's results that came from the worker.

        Returns:
            The model's outputs.

        Raises:
            CodecError: The results are not those of this cut.
        """
        wanted = {slot.name: slot for slot in self._cut.results}
        if set(results) != set(wanted):
            raise CodecError(f"the worker sent {sorted(results)}, not {sorted(wanted)}")
        for name, slot in wanted.items():
            array = results[name]
            if not slot.accepts(array.dtype.name, array.shape if slot.shape else ()):
                raise CodecError(
                    f"the worker sent {name!r} as {array.dtype.name} {list(array.shape)};"
                    f" it should be {slot.dtype} {list(slot.shape)}"
                )
        return self.outputs({**known, **results})

    def close(self) -> None:
        """Free the loaded models."""
        for session in self._loaded.values():
            session.close()
        self._loaded.clear()

    def _run(self, path: Path | None, known: Arrays) -> dict[str, NDArray[Any]]:
        if path is None:
            return dict(known)
        session = self._session(path)
        results = session.run({slot.name: known[slot.name] for slot in session.inputs})
        return {**known, **results}

    def _session(self, path: Path) -> Session:
        if path not in self._loaded:
            self._loaded[path] = self._engine.load(path)
        return self._loaded[path]
