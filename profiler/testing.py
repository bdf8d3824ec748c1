"""Fakes for those who test against this package.

Light: standard library and numpy only, apart from :mod:`profiler.engine`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiler.engine import check_feeds
from profiler.errors import EngineError, RejectedError
from profiler.profile import CodecSpeed, EngineUsed, LayerCost, Profile
from profiler.values import ModelIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from profiler.engine import RunStop
    from profiler.values import TensorSlot

__all__ = ["FakeEngine", "FakeModel", "FakeSession", "Gate", "fake_profile"]


@dataclass(frozen=True)
class FakeModel:
    """A model that is a Python function.

    Attributes:
        inputs: What it takes.
        outputs: What it gives.
        compute: From feeds to results, both by name. What it raises comes out as an EngineError.
    """

    inputs: tuple[TensorSlot, ...]
    outputs: tuple[TensorSlot, ...]
    compute: Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]]


class Gate:
    """Like a ``threading.Event`` that starts set, but who waits can be called away."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._open = True

    def set(self) -> None:
        """Let everyone through."""
        with self._condition:
            self._open = True
            self._condition.notify_all()

    def clear(self) -> None:
        """Have everyone wait."""
        with self._condition:
            self._open = False

    def wait(self, stop: RunStop | None = None) -> None:
        """Wait until the gate is set, or the run stopped."""
        if stop is not None:
            stop.arm(self._look)
        with self._condition:
            self._condition.wait_for(lambda: self._open or (stop is not None and stop.stopped))

    def _look(self) -> None:
        with self._condition:
            self._condition.notify_all()


class FakeEngine:
    """An engine without files; models are found by their file name.

    Attributes:
        gate: Runs wait while it is clear. It starts set.
        deaf: Whether runs cannot be stopped, as if one operator took all their time.
        started: Released once for each run that begins, so a test can wait for it.
        loaded: The paths loaded so far.
        runs: How many runs have ended well.
        fault: While set, each run raises it as an EngineError.
    """

    name = "fake"
    version = "0"

    def __init__(self, models: Mapping[str, FakeModel]) -> None:
        self._models = dict(models)
        self.gate = Gate()
        self.deaf = False
        self.started = threading.Semaphore(0)
        self.loaded: list[Path] = []
        self.runs = 0
        self.fault: str | None = None

    def load(self, path: Path) -> FakeSession:
        """Return a session of the model named like the file; see ``Engine.load``."""
        if path.name not in self._models:
            raise EngineError(f"no model file {str(path)!r}")
        self.loaded.append(path)
        return FakeSession(self, self._models[path.name])


class FakeSession:
    """A session of a :class:`FakeEngine`."""

    def __init__(self, engine: FakeEngine, model: FakeModel) -> None:
        self.inputs = model.inputs
        self.outputs = model.outputs
        self._engine = engine
        self._model = model
        self._open = True

    def run(
        self, feeds: Mapping[str, NDArray[Any]], stop: RunStop | None = None
    ) -> dict[str, NDArray[Any]]:
        """Wait for the gate, then compute; see ``StoppableSession.run``."""
        if not self._open:
            raise EngineError("the session is closed")
        check_feeds(self.inputs, feeds)
        self._engine.started.release()
        self._engine.gate.wait(None if self._engine.deaf else stop)
        if stop is not None and stop.stopped:
            raise EngineError("the run was stopped")
        if self._engine.fault is not None:
            raise EngineError(self._engine.fault)
        try:
            results = self._model.compute({name: array.copy() for name, array in feeds.items()})
        except RejectedError:
            raise
        except Exception as error:
            raise EngineError(f"the model failed: {error}") from error
        self._engine.runs += 1
        return {slot.name: results[slot.name] for slot in self.outputs}

    def close(self) -> None:
        """End the session; see ``Session.close``."""
        self._open = False


def fake_profile(
    costs_ms: Mapping[str, float],
    *,
    model: ModelIdentity | None = None,
    inputs: Collection[TensorSlot] = (),
    overhead_ms: float = 0.0,
    codecs: Mapping[str, CodecSpeed] | None = None,
    label: str = "fake",
) -> Profile:
    """Return a profile in which each node is a layer with the given cost."""
    return Profile(
        label=label,
        kind="measured",
        model=model or ModelIdentity("fake", "0" * 64),
        inputs=tuple(inputs),
        engine=EngineUsed("fake", "0", "none", 1, "float32"),
        machine={},
        whole_ms=sum(costs_ms.values()) + overhead_ms,
        whole_spread_ms=0.0,
        overhead_ms=overhead_ms,
        border_ms_per_mb=0.0,
        exchange_ms=0.0,
        unattributed_ms=0.0,
        layers=tuple(LayerCost(name, (name,), cost, 0.0) for name, cost in costs_ms.items()),
        peak_memory_bytes=None,
        codecs=codecs or {"raw": CodecSpeed(1000.0, 1000.0, 0.0)},
        uncertainty=0.0,
    )
