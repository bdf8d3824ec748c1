"""A slow device, emulated: every run of a model takes several times its real time.

A CPU quota would stall the process in periods as long as the thing that is measured; stretching
each run does not. The rest of the time is slept: each run then begins on a processor that has
idled, as in the profile that the plan is made from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from profiler.engine import Engine, Session
from profiler.values import TensorSlot


class SlowedEngine:
    """Runs models with another engine and makes each run last ``factor`` times as long.

    Only models are slowed down; codecs and sockets run at this machine's speed.

    Args:
        engine: What really runs the models.
        factor: How many times as long; 1 or more.
        clock: The time in seconds.
        sleep: Waits, in seconds.
    """

    def __init__(
        self,
        engine: Engine,
        factor: float,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not factor >= 1:
            raise ValueError(f"a device can be emulated as 1 or more times slower, not {factor}")
        self.name = engine.name
        self.version = engine.version
        self._engine = engine
        self._factor = factor
        self._clock = clock
        self._sleep = sleep

    def load(self, path: Path) -> SlowedSession:
        """Load a model; see :meth:`profiler.engine.Engine.load`."""
        return SlowedSession(self._engine.load(path), self._factor, self._clock, self._sleep)


class SlowedSession:
    """A session of a :class:`SlowedEngine`."""

    def __init__(
        self,
        session: Session,
        factor: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._session = session
        self._factor = factor
        self._clock = clock
        self._sleep = sleep

    @property
    def inputs(self) -> tuple[TensorSlot, ...]:
        """What :meth:`run` wants."""
        return self._session.inputs

    @property
    def outputs(self) -> tuple[TensorSlot, ...]:
        """What :meth:`run` returns."""
        return self._session.outputs

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model and wait; see :meth:`profiler.engine.Session.run`."""
        start_s = self._clock()
        results = self._session.run(feeds)
        end_s = start_s + self._factor * (self._clock() - start_s)
        self._sleep(max(0.0, end_s - self._clock()))
        return results

    def close(self) -> None:
        """Free the model."""
        self._session.close()
