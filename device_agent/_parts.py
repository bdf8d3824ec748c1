"""The model on this device: its parts at one cut, and the whole where a frame does not fit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from device_agent.errors import AgentError
from profiler.errors import ProfilerError
from protocol import CodecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from profiler.engine import Engine, Session
    from protocol import Clock, EncodedTensor
    from splitter.bundle import Bundle, BundledCut

    Arrays = Mapping[str, NDArray[Any]]


class CutParts:
    """Head and tail of a cut, and the whole model behind them; each loaded when first needed.

    The parts are made for the shapes that the plan saw. Where a frame's values lead to others, a
    part may refuse it although the whole model would not: then the whole model answers.

    Args:
        bundle: Says what the whole model is.
        cut: The cut.
        engine: Loads and runs the models.
        notice: Told, once, that frames do not fit the parts.
    """

    def __init__(
        self, bundle: Bundle, cut: BundledCut, engine: Engine, notice: Callable[[str], None]
    ) -> None:
        self._full = bundle.full
        self._outputs = tuple(slot.name for slot in bundle.outputs)
        self._inputs = {slot.name for slot in bundle.inputs}
        self._cut = cut
        self._engine = engine
        self._notice = notice
        self._told = False
        self._loaded: dict[Path, Session] = {}

    def load(self) -> None:
        """Load head and tail, so that no frame waits for it: when the link goes there is no time.

        Raises:
            AgentError: They are not the parts that the bundle says they are.
        """
        known = set(self._inputs)
        if self._cut.head is not None:
            known |= {slot.name for slot in self._session(self._cut.head).outputs}
        wanted = {tensor.slot.name for tensor in self._cut.frontier} | set(self._cut.kept)
        if self._cut.tail is not None:
            tail = self._session(self._cut.tail)
            wanted |= {slot.name for slot in tail.inputs}
            made = {slot.name for slot in tail.outputs}
            self._check({slot.name for slot in self._cut.results} - made, self._cut.tail)
        self._check(wanted - known, self._cut.head or self._full)

    def run_head(self, feeds: Arrays) -> Arrays | None:
        """Run the head.

        Returns:
            What is known at the cut: the model's inputs, and what the head has made of them. None
            where the head cannot take this frame.

        Raises:
            ProfilerError: The head is the whole model, and cannot take it.
        """
        return self._attempt(self._cut.head, feeds)

    def finish(self, feeds: Arrays, known: Arrays | None) -> Arrays:
        """Finish a frame on this device, from what :meth:`run_head` returned if that will do.

        Returns:
            The model's outputs.

        Raises:
            ProfilerError: Not even the whole model can take the frame.
        """
        finished = None if known is None else self._attempt(self._cut.tail, known)
        return self.outputs(self._run(self._full, feeds) if finished is None else finished)

    def rehearse(self, feeds: Arrays, clock: Clock) -> tuple[float, float]:
        """Run head and tail once.

        Returns:
            The seconds that each took.

        Raises:
            ProfilerError: One of them cannot take these feeds.
        """
        started_s = clock.monotonic()
        known = feeds if self._cut.head is None else self._run(self._cut.head, feeds)
        cut_s = clock.monotonic()
        if self._cut.tail is not None:
            self._run(self._cut.tail, known)
        return cut_s - started_s, clock.monotonic() - cut_s

    def outputs(self, known: Arrays) -> Arrays:
        """Pick the model's outputs, in its order."""
        return {name: known[name] for name in self._outputs}

    def misfit(self, known: Arrays) -> str:
        """What of a frame is not as planned, so that no worker could take it; empty if all is."""
        for tensor in self._cut.frontier:
            slot, array = tensor.slot, known[tensor.slot.name]
            # A declared () may also mean that the model declares no shape; then any rank will do.
            if not slot.accepts(array.dtype.name, array.shape if slot.shape else ()):
                return (
                    f"{slot.name!r} is {array.dtype.name} {list(array.shape)}, but the plan has"
                    f" {slot.dtype} {_axes(slot.shape)}"
                )
        return ""

    def check_results(self, tensors: tuple[EncodedTensor, ...]) -> None:
        """Refuse results that are not this cut's, before anything of them is decoded.

        Raises:
            CodecError: Naming what came and what was wanted.
        """
        wanted = sorted((slot.name, slot.dtype) for slot in self._cut.results)
        sent = sorted((tensor.spec.name, tensor.spec.dtype) for tensor in tensors)
        if sent != wanted:
            raise CodecError(f"the worker sent {_named(sent)}; this cut has {_named(wanted)}")

    def result_misfit(self, tensors: tuple[EncodedTensor, ...]) -> str:
        """What of this cut's results is not as planned; empty if all is.

        An honest worker sends such results where a frame's values lead to other shapes.
        """
        slots = {slot.name: slot for slot in self._cut.results}
        for tensor in tensors:
            spec, slot = tensor.spec, slots[tensor.spec.name]
            if not slot.accepts(spec.dtype, spec.shape):
                return (
                    f"it sent {spec.name!r} as {spec.dtype} {list(spec.shape)},"
                    f" but the plan has {slot.dtype} {_axes(slot.shape)}"
                )
        return ""

    def merge(self, known: Arrays, results: Arrays) -> Arrays:
        """Join the head's outputs with the tail's results that came from the worker.

        Returns:
            The model's outputs.
        """
        return self.outputs({**known, **results})

    def close(self) -> None:
        """Free the loaded models."""
        for session in self._loaded.values():
            session.close()
        self._loaded.clear()

    def _attempt(self, part: Path | None, known: Arrays) -> Arrays | None:
        """Run a part; None where it cannot take the frame, but the whole model may."""
        if part is None:
            return known
        try:
            return self._run(part, known)
        except ProfilerError as error:
            if part == self._full:
                raise
            if not self._told:
                self._told = True
                self._notice(f"a frame does not fit {part.name} ({error}); using the whole model")
            return None

    def _run(self, path: Path, known: Arrays) -> Arrays:
        session = self._session(path)
        feeds = {slot.name: known[slot.name] for slot in session.inputs if slot.name in known}
        return {**known, **session.run(feeds)}

    def _session(self, path: Path) -> Session:
        if path not in self._loaded:
            self._loaded[path] = self._engine.load(path)
        return self._loaded[path]

    def _check(self, missing: set[str], path: Path) -> None:
        if missing:
            raise AgentError(
                f"the bundle's cut {self._cut.id!r} wants {', '.join(map(repr, sorted(missing)))},"
                f" which {path.name} does not make; make the bundle again with split-plan"
            )


def _named(tensors: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name!r} as {dtype}" for name, dtype in tensors) or "nothing"


def _axes(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('any' if axis is None else str(axis) for axis in shape)}]"
