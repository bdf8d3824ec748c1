"""The ONNX Runtime engine and the fake one do the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from profiler.engine import EngineOptions, OnnxRuntimeEngine, RunStop
from profiler.errors import EngineError, RejectedError
from profiler.testing import FakeEngine, FakeModel
from profiler.values import TensorSlot
from tests.profiler.engine_conformance import FEEDS, EngineConformance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from profiler.engine import Engine

    SaveModel = Callable[..., Path]

SUM_NODES = (
    helper.make_node("Add", ["image", "shift"], ["total"], name="add"),
    helper.make_node("Identity", ["image"], ["same"], name="same"),
)


class TestOnnxRuntimeEngine(EngineConformance):
    @pytest.fixture
    def engine(self) -> Engine:
        return OnnxRuntimeEngine(EngineOptions(threads=1))

    @pytest.fixture
    def path(self, save_model: SaveModel) -> Path:
        return save_model(
            SUM_NODES,
            {"image": ["n", 3], "shift": [3]},
            {"total": ["n", 3], "same": ["n", 3]},
            name="sum.onnx",
        )


class TestFakeEngine(EngineConformance):
    @pytest.fixture
    def engine(self) -> FakeEngine:
        row = TensorSlot("image", "float32", (None, 3))
        model = FakeModel(
            inputs=(row, TensorSlot("shift", "float32", (3,))),
            outputs=(
                TensorSlot("total", "float32", (None, 3)),
                TensorSlot("same", "float32", (None, 3)),
            ),
            compute=lambda feeds: {
                "total": feeds["image"] + feeds["shift"],
                "same": feeds["image"],
            },
        )
        return FakeEngine({"sum.onnx": model})

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "sum.onnx"

    def test_a_run_waits_at_the_gate(self, engine: FakeEngine, path: Path) -> None:
        session = engine.load(path)
        engine.gate.clear()
        runner = threading.Thread(target=session.run, args=(FEEDS,))
        runner.start()
        assert engine.started.acquire(timeout=10)
        assert engine.runs == 0
        engine.gate.set()
        runner.join(timeout=10)
        assert (engine.runs, engine.loaded) == (1, [path])

    def test_a_waiting_run_is_stopped(self, engine: FakeEngine, path: Path) -> None:
        session, stop, errors = engine.load(path), RunStop(), []
        engine.gate.clear()

        def run() -> None:
            with pytest.raises(EngineError, match="stopped") as caught:
                session.run(FEEDS, stop)
            errors.append(caught.value)

        runner = threading.Thread(target=run)
        runner.start()
        assert engine.started.acquire(timeout=10)
        stop.set()
        runner.join(timeout=10)
        assert (len(errors), engine.runs) == (1, 0)

    def test_a_fault_fails_runs_until_cleared(self, engine: FakeEngine, path: Path) -> None:
        session = engine.load(path)
        engine.fault = "out of memory"
        with pytest.raises(EngineError, match="out of memory"):
            session.run(FEEDS)
        engine.fault = None
        assert session.run(FEEDS)

    def test_what_the_function_raises_is_an_engine_error(self, tmp_path: Path) -> None:
        def broken(feeds: object) -> dict[str, np.ndarray]:
            raise KeyError("weights")

        engine = FakeEngine({"m.onnx": FakeModel((), (), broken)})
        with pytest.raises(EngineError, match="weights"):
            engine.load(tmp_path / "m.onnx").run({})


def endless_model(path: Path) -> Path:
    """y = x after so many turns of a loop as an input says."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (int64 trips, float[4] x) => (float[4] y) {
      one = Constant<value_int=1>()
      go = Cast<to=9>(one)
      y = Loop(trips, go, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
        d = Identity(c)
        w = Relu(v) }> }"""
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


def test_a_loop_without_end_is_stopped_and_the_session_runs_again(
    engine: OnnxRuntimeEngine, tmp_path: Path
) -> None:
    session = engine.load(endless_model(tmp_path / "loop.onnx"))
    x, stop, ended = np.ones(4, np.float32), RunStop(), threading.Event()

    def run() -> None:
        with pytest.raises(EngineError):
            session.run({"trips": np.array(2**62), "x": x}, stop)
        ended.set()

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    stop.set()
    assert ended.wait(60)
    np.testing.assert_array_equal(session.run({"trips": np.array(3), "x": x}, RunStop())["y"], x)


@pytest.fixture
def engine() -> OnnxRuntimeEngine:
    return OnnxRuntimeEngine(EngineOptions(threads=1))


def test_refuses_an_unknown_provider() -> None:
    with pytest.raises(EngineError, match=r"CPUExecutionProvidr.*did you mean 'CPUExecutionProvid"):
        OnnxRuntimeEngine(EngineOptions(threads=1, provider="CPUExecutionProvidr"))


def test_refuses_no_threads() -> None:
    with pytest.raises(EngineError, match="threads is 0; give 1 or more"):
        EngineOptions(threads=0)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08"])
def test_a_broken_model_is_one_line(
    engine: OnnxRuntimeEngine, tmp_path: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(EngineError, match=r"cannot load broken\.onnx: ") as caught:
        engine.load(path)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_folder_is_no_model(engine: OnnxRuntimeEngine, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no model file"):
        engine.load(tmp_path)


TABLE = numpy_helper.from_array(np.zeros(4, np.float32), "table")
TARGET = numpy_helper.from_array(np.array([5, 5]), "target")
HUGE = numpy_helper.from_array(np.array([10**6, 10**6, 10]), "huge")
FREE = {"a": ["n"], "b": ["m"]}
VECTORS = {"a": np.ones(3, np.float32), "b": np.ones(4, np.float32)}


@pytest.mark.parametrize(
    ("operator", "operands", "said"),
    [
        ("MatMul", ["a", "b"], "MatMul dimension mismatch"),
        ("Gather", ["table", "place"], "indices element out of data bounds, idx=9"),
        ("Reshape", ["a", "target"], "input_shape_size == requested_shape_size was false"),
        ("Add", ["a", "b"], "axis == 1 || axis == largest was false"),
    ],
)
def test_values_that_the_model_cannot_take_are_told_in_one_bounded_line(
    operator: str,
    operands: list[str],
    said: str,
    engine: OnnxRuntimeEngine,
    save_model: SaveModel,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The shapes are free, so only the runtime can see that they do not go together."""
    kinds = FREE | {"place": (TensorProto.INT64, ["k"])}
    node = helper.make_node(operator, operands, ["out"], name="it")
    weights = [weight for weight in (TABLE, TARGET) if weight.name in operands]
    inputs = {name: kinds[name] for name in operands if name in kinds}
    session = engine.load(save_model([node], inputs, {"out": None}, weights))
    values: dict[str, NDArray[Any]] = {**VECTORS, "place": np.array([9])}
    expected = f"^the model cannot take these values: {operator} 'it': {re.escape(said)}"
    with pytest.raises(RejectedError, match=expected) as caught:
        session.run({name: values[name] for name in inputs})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 450
    assert capfd.readouterr() == ("", "")


def test_want_of_memory_is_no_rejection(engine: OnnxRuntimeEngine, save_model: SaveModel) -> None:
    node = helper.make_node("Expand", ["a", "huge"], ["out"], name="it")
    session = engine.load(save_model([node], {"a": ["n"]}, {"out": None}, [HUGE]))
    with pytest.raises(EngineError, match="cannot run the model: Expand 'it': ") as caught:
        session.run({"a": np.ones(1, np.float32)})
    assert not isinstance(caught.value, RejectedError)


def test_slots_have_numpy_dtypes_and_free_axes(
    engine: OnnxRuntimeEngine, save_model: SaveModel
) -> None:
    kinds = {
        "a": (TensorProto.INT64, [-1, "n", 3]),
        "b": (TensorProto.BOOL, []),
        "c": (TensorProto.DOUBLE, [None]),
        "d": (TensorProto.FLOAT16, [0]),
        "e": (TensorProto.STRING, [2]),
    }
    nodes = [helper.make_node("Identity", [name], [name * 2]) for name in kinds]
    path = save_model(nodes, kinds, {name * 2: kind for name, kind in kinds.items()})
    assert engine.load(path).inputs == (
        TensorSlot("a", "int64", (None, None, 3)),
        TensorSlot("b", "bool", ()),
        TensorSlot("c", "float64", (None,)),
        TensorSlot("d", "float16", (0,)),
        TensorSlot("e", "string", (2,)),
    )


def test_strings_can_be_fed(engine: OnnxRuntimeEngine, save_model: SaveModel) -> None:
    words = {"words": (TensorProto.STRING, [2])}
    same = {"same": (TensorProto.STRING, [2])}
    session = engine.load(
        save_model([helper.make_node("Identity", ["words"], ["same"])], words, same)
    )
    assert list(session.run({"words": np.array(["a", "b"])})["same"]) == ["a", "b"]


def test_an_undeclared_rank_is_left_to_the_runtime(
    engine: OnnxRuntimeEngine, save_model: SaveModel
) -> None:
    session = engine.load(
        save_model([helper.make_node("Relu", ["x"], ["y"])], {"x": None}, {"y": None})
    )
    assert session.run({"x": np.ones((2, 3, 4), np.float32)})["y"].shape == (2, 3, 4)


def test_finds_weights_beside_the_model(
    engine: OnnxRuntimeEngine, save_model: SaveModel, tmp_path: Path
) -> None:
    """A session must be made from the path: from bytes it finds no weights (onnxruntime#6696)."""
    weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    path = save_model(
        [helper.make_node("Add", ["x", "w"], ["y"])], {"x": [3]}, {"y": [3]}, [weight]
    )
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").is_file()
    np.testing.assert_array_equal(
        engine.load(path).run({"x": np.ones(3, np.float32)})["y"], [1, 2, 3]
    )


def test_profile_file_is_written(save_model: SaveModel, tmp_path: Path) -> None:
    path = save_model([helper.make_node("Relu", ["x"], ["y"], name="relu")], {"x": [3]}, {"y": [3]})
    options = EngineOptions(threads=1, profile_prefix=tmp_path / "profile")
    session = OnnxRuntimeEngine(options).load(path)
    session.run({"x": np.ones(3, np.float32)})
    written = session.end_profile()
    assert written.parent == tmp_path
    assert any(event["name"] == "relu_kernel_time" for event in json.loads(written.read_text()))


MEMORY_SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from profiler.engine import EngineOptions, OnnxRuntimeEngine, RunStop

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

session = OnnxRuntimeEngine(EngineOptions(1, arena=sys.argv[2] == "arena")).load(Path(sys.argv[1]))
session.run({"x": np.ones((1, 65536), np.float32)})
small = resident_bytes()
session.run({"x": np.ones((256, 65536), np.float32)})
session.run({"x": np.ones((1, 65536), np.float32)})
print(resident_bytes() - small)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_arena_keeps_the_peak_and_no_arena_gives_it_back(save_model: SaveModel) -> None:
    """Why EngineOptions.arena exists: with it, a large batch's memory is held for ever."""
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("ReduceSum", ["b"], ["y"], keepdims=0),
    ]
    path = save_model(nodes, {"x": ["n", 65536]}, {"y": []})
    held = {}
    for arena in ("arena", "none"):
        command = [sys.executable, "-c", MEMORY_SCRIPT, str(path), arena]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        held[arena] = int(output)
    one_tensor = 256 * 65536 * 4
    assert held["arena"] > one_tensor > 2 * held["none"]
