from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from demos.slowed_engine import SlowedEngine
from profiler.testing import FakeEngine, FakeModel
from profiler.values import TensorSlot

SLOT = TensorSlot("x", "float32", (1,))


class Watch:
    """A clock that moves on by a millisecond each time it is read."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        self.now_s += 0.001
        return self.now_s


def test_a_run_lasts_the_factor_times_its_real_time_and_gives_the_same_result() -> None:
    watch = Watch()

    def compute(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        watch.now_s += 0.25
        return {"y": feeds["x"] + 1}

    model = FakeModel((SLOT,), (TensorSlot("y", "float32", (1,)),), compute)

    def sleep(seconds: float) -> None:
        watch.now_s += seconds

    engine = SlowedEngine(FakeEngine({"model.onnx": model}), 6, clock=watch, sleep=sleep)
    session = engine.load(Path("model.onnx"))
    assert session.inputs == (SLOT,)
    assert [slot.name for slot in session.outputs] == ["y"]
    results = session.run({"x": np.ones(1, np.float32)})
    assert results["y"] == [2]
    assert watch.now_s == pytest.approx(100 + 6 * 0.25, abs=0.01)
    session.close()


def test_a_device_cannot_be_faster_than_this_machine() -> None:
    with pytest.raises(ValueError, match=r"not 0\.5"):
        SlowedEngine(FakeEngine({}), 0.5)
