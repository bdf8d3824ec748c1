"""What every engine must do; each engine's test class inherits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from profiler.engine import RunStop
from profiler.errors import EngineError, FeedError
from profiler.values import TensorSlot

if TYPE_CHECKING:
    from pathlib import Path

    from profiler.engine import Session, StoppableEngine, StoppableSession

FEEDS = {
    "image": np.array([[1, -2, 3]], np.float32),
    "shift": np.array([10, 20, 30], np.float32),
}


class EngineConformance:
    """The engine under test serves ``sum.onnx``: total = image + shift, and image back as it is."""

    @pytest.fixture
    def engine(self) -> StoppableEngine:
        raise NotImplementedError

    @pytest.fixture
    def path(self) -> Path:
        """Where ``sum.onnx`` lies: inputs image [n, 3] and shift [3], outputs total and same."""
        raise NotImplementedError

    @pytest.fixture
    def session(self, engine: StoppableEngine, path: Path) -> StoppableSession:
        return engine.load(path)

    def test_has_a_name_and_a_version(self, engine: StoppableEngine) -> None:
        assert engine.name
        assert engine.version

    def test_describes_inputs_and_outputs(self, session: Session) -> None:
        assert session.inputs == (
            TensorSlot("image", "float32", (None, 3)),
            TensorSlot("shift", "float32", (3,)),
        )
        assert [slot.name for slot in session.outputs] == ["total", "same"]

    def test_computes(self, session: Session) -> None:
        results = session.run(FEEDS)
        assert list(results) == ["total", "same"]
        np.testing.assert_array_equal(results["total"], [[11, 18, 33]])

    def test_a_free_axis_may_change_from_run_to_run(self, session: Session) -> None:
        for rows in (1, 4, 2, 0):
            image = np.ones((rows, 3), np.float32)
            assert session.run({**FEEDS, "image": image})["total"].shape == (rows, 3)

    def test_leaves_feeds_alone_and_shares_no_memory(self, session: Session) -> None:
        feeds = {name: array.copy() for name, array in FEEDS.items()}
        results = session.run(feeds)
        for array in results.values():
            assert not any(np.shares_memory(array, feed) for feed in feeds.values())
            array[...] = 99
        for name, feed in feeds.items():
            np.testing.assert_array_equal(feed, FEEDS[name])
        np.testing.assert_array_equal(session.run(feeds)["total"], [[11, 18, 33]])

    def test_earlier_results_survive_later_runs(self, session: Session) -> None:
        first = session.run(FEEDS)["total"]
        session.run({**FEEDS, "image": np.zeros((1, 3), np.float32)})
        np.testing.assert_array_equal(first, [[11, 18, 33]])

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"image": None}, r"input 'image' \(float32 \[any, 3\]\) is missing"),
            (
                {"image": None, "shift": None},
                r"inputs 'image' \(float32 \[any, 3\]\), 'shift' \(float32 \[3\]\) are missing",
            ),
            ({"imago": FEEDS["image"]}, "no input 'imago'; did you mean 'image'"),
            (
                {"image": FEEDS["image"].astype(np.float16)},
                r"'image' is float16 \[1, 3\]; it wants float32 \[any, 3\]",
            ),
            ({"shift": np.zeros((3, 1), np.float32)}, r"'shift' is float32 \[3, 1\]; .* \[3\]"),
            ({"shift": np.zeros(4, np.float32)}, r"'shift' is float32 \[4\]; it wants .* \[3\]"),
            ({"shift": FEEDS["shift"].astype(">f4")}, "foreign byte order"),
            ({"shift": [1.0, 2.0, 3.0]}, "'shift' is a list, not a numpy array"),
        ],
    )
    def test_names_what_is_wrong_with_a_feed(
        self, session: Session, changes: dict[str, np.ndarray | None], message: str
    ) -> None:
        feeds = {name: feed for name, feed in (FEEDS | changes).items() if feed is not None}
        with pytest.raises(FeedError, match=message):
            session.run(feeds)

    def test_a_run_that_was_stopped_before_it_began_ends_and_the_next_runs(
        self, session: StoppableSession
    ) -> None:
        stop = RunStop()
        stop.set()
        with pytest.raises(EngineError):
            session.run(FEEDS, stop)
        np.testing.assert_array_equal(session.run(FEEDS, RunStop())["total"], [[11, 18, 33]])

    def test_a_stop_after_the_run_is_harmless(self, session: StoppableSession) -> None:
        stop = RunStop()
        session.run(FEEDS, stop)
        stop.set()
        np.testing.assert_array_equal(session.run(FEEDS)["total"], [[11, 18, 33]])

    def test_refuses_a_missing_file(self, engine: StoppableEngine, path: Path) -> None:
        with pytest.raises(EngineError, match=r"no model file .*other\.onnx"):
            engine.load(path.with_name("other.onnx"))

    def test_refuses_runs_after_closing(self, session: Session) -> None:
        session.close()
        session.close()
        with pytest.raises(EngineError, match="closed"):
            session.run(FEEDS)
