"""Fakes for those who test against this package. Light."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from cloud_worker.errors import IllegalCutError
from profiler.testing import FakeEngine, FakeModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloud_worker._work import TailKey
    from cloud_worker.errors import WorkerError
    from profiler.engine import StoppableSession

__all__ = ["FakeTails"]


class FakeTails:
    """A source of tails that are Python functions.

    Attributes:
        engine: What runs them; it has gates and counters of its own.
        gate: Loading waits while it is clear. It starts set.
        failures: What loading a tail raises instead.
        loaded: Keys of the tails loaded so far.
        closed: Whether :meth:`close` was called.
    """

    def __init__(self, models: Mapping[TailKey, FakeModel]) -> None:
        self._names = {key: f"tail-{index}" for index, key in enumerate(models)}
        self.engine = FakeEngine({self._names[key]: model for key, model in models.items()})
        self.gate = threading.Event()
        self.gate.set()
        self.failures: dict[TailKey, WorkerError] = {}
        self.loaded: list[TailKey] = []
        self.closed = False

    def load(self, key: TailKey) -> StoppableSession:
        """Load a tail; see ``TailSource.load``."""
        self.gate.wait()
        if key in self.failures:
            raise self.failures[key]
        if key not in self._names:
            raise IllegalCutError(f"model {key.model[:12]} has no cut at {', '.join(key.frontier)}")
        self.loaded.append(key)
        return self.engine.load(Path(self._names[key]))

    def close(self) -> None:
        """Note the end; see ``TailSource.close``."""
        self.closed = True
