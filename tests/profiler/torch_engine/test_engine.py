"""The torch engine does what every engine does, refuses by name, and reads what others write."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from profiler.engine import RunStop
from profiler.errors import EngineError
from profiler.graph.model import load_model
from profiler.graph.weights import store_model
from profiler.torch_engine import TorchEngine
from profiler.torch_engine.compiling import Compiler
from profiler.torch_engine.reading import read_for_torch, read_weight, standard_opset
from tests.profiler.engine_conformance import FEEDS, EngineConformance
from tests.profiler.test_engine import SUM_NODES, endless_model
from tests.profiler.torch_engine.reference import run_unoptimised
from tests.zoo import ZOO

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    SaveModel = Callable[..., Path]


@pytest.fixture
def engine() -> TorchEngine:
    return TorchEngine(threads=1)


def parsed(path: Path, text: str, opset: int = 17) -> Path:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    path.write_bytes(model.SerializeToString())
    return path


class TestTorchEngine(EngineConformance):
    @pytest.fixture
    def engine(self) -> TorchEngine:
        return TorchEngine(threads=1)

    @pytest.fixture
    def path(self, save_model: SaveModel) -> Path:
        return save_model(
            SUM_NODES,
            {"image": ["n", 3], "shift": [3]},
            {"total": ["n", 3], "same": ["n", 3]},
            name="sum.onnx",
        )

    def test_takes_arrays_that_torch_does_not(self, engine: TorchEngine, path: Path) -> None:
        session = engine.load(path)
        backwards = np.array([[3, -2, 1]], np.float32)[:, ::-1]
        locked = FEEDS["shift"].copy()
        locked.flags.writeable = False
        results = session.run({"image": backwards, "shift": locked})
        np.testing.assert_array_equal(results["total"], [[11, 18, 33]])


REFUSED_TOYS = {
    "detector": "NonMaxSuppression",
    "runtime_operator": r"com\.microsoft\.Gelu",
    "scan": "Scan",
    "sequence_inside": "SequenceConstruct .*, ConcatFromSequence",
    "string_inside": "Cast string tensors",
}


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_is_computed_as_by_onnx_runtime(
    name: str, engine: TorchEngine, tmp_path: Path
) -> None:
    model = ZOO[name]()
    path = tmp_path / "model.onnx"
    onnx.save(model.proto, path)
    # As it is profiled and cut: ONNX Runtime takes some of them in no other form.
    path = store_model(load_model(path), tmp_path).full
    if name in REFUSED_TOYS:
        with pytest.raises(EngineError, match=REFUSED_TOYS[name]):
            engine.load(path)
        return
    # Without optimisation: ONNX Runtime's own integer kernels are some steps off its plain ones.
    expected = run_unoptimised(path, model.feeds)
    results = engine.load(path).run(model.feeds)
    for key, array in expected.items():
        assert results[key].dtype == array.dtype
        error = 0.02 if array.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(results[key], array, rtol=error, atol=error / 10)


def test_a_loop_without_end_is_stopped_and_the_session_runs_again(
    engine: TorchEngine, tmp_path: Path
) -> None:
    session = engine.load(endless_model(tmp_path / "loop.onnx"))
    x, stop, ended = np.ones(4, np.float32), RunStop(), threading.Event()

    def run() -> None:
        with pytest.raises(EngineError, match="stopped"):
            session.run({"trips": np.array(2**62), "x": x}, stop)
        ended.set()

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    stop.set()
    assert ended.wait(60)
    np.testing.assert_array_equal(session.run({"trips": np.array(3), "x": x}, RunStop())["y"], x)


class TestRefusals:
    def test_all_that_is_lacking_is_named_with_its_node(
        self, engine: TorchEngine, tmp_path: Path
    ) -> None:
        path = parsed(
            tmp_path / "m.onnx",
            """g (float[1,2,8,8] x, float[1,1,4] boxes, float[1,1,1] scores) => (int64[n,3] y, z) {
              y = NonMaxSuppression (boxes, scores)
              s = Constant <value_floats=[1.0,1.0,2.0,2.0]> ()
              none = Constant <value_floats=[0.0]> ()
              z = Resize <mode="linear", antialias=1> (x, , s)
              w = com.acme.Magic (x) }""",
            18,
        )
        with pytest.raises(EngineError) as caught:
            engine.load(path)
        assert str(caught.value) == (
            "the torch engine cannot run m.onnx (opset 18): it has no NonMaxSuppression "
            "(node 'y'), Resize antialias=1 (node 'z'), com.acme.Magic (node 'Magic'); "
            "use --engine onnxruntime"
        )

    @pytest.mark.parametrize(
        ("node", "message"),
        [
            ("y = LSTM <hidden_size=2, clip=1.0> (x, w, r)", "LSTM clip=1"),
            ("y = GRU <hidden_size=2> (x, w, r)", "GRU linear_before_reset=0"),
            ("y = Cast <to=8> (x)", "Cast string tensors"),
            ("y = Cast <to=16> (x)", "Cast bfloat16 tensors"),
            ("y = Relu <odd=1> (x)", "Relu odd"),
            ("y, i = MaxPool <kernel_shape=[2]> (x)\n z = Identity (i)", "MaxPool output 2"),
            ('y = Constant <value_string="a"> ()', "Constant value_string"),
        ],
    )
    def test_a_variant_that_is_not_implemented(
        self, node: str, message: str, engine: TorchEngine, tmp_path: Path
    ) -> None:
        extra = ", z" if "z =" in node else ""
        text = f"g (float[1,2,4] x, float[1,4,4] w, float[1,4,2] r) => (y{extra}) {{ {node} }}"
        with pytest.raises(EngineError, match=message):
            engine.load(parsed(tmp_path / "m.onnx", text))

    def test_an_old_version_of_an_operator(self, engine: TorchEngine, tmp_path: Path) -> None:
        text = "g (float[2] x, float[2] z) => (float[2] y) { y = Add <broadcast=1> (x, z) }"
        with pytest.raises(EngineError, match="Add version 6 of the operator"):
            engine.load(parsed(tmp_path / "m.onnx", text, 6))

    def test_an_operator_set_that_nobody_knows(self, engine: TorchEngine, tmp_path: Path) -> None:
        text = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
        with pytest.raises(EngineError, match="operator set 999 is newer than"):
            engine.load(parsed(tmp_path / "m.onnx", text, 999))

    @pytest.mark.parametrize("dtype", [TensorProto.STRING, TensorProto.BFLOAT16])
    def test_an_input_of_a_type_that_it_does_not_carry(
        self, dtype: int, engine: TorchEngine, save_model: SaveModel
    ) -> None:
        path = save_model(
            [helper.make_node("Identity", ["words"], ["same"])],
            {"words": (dtype, [2])},
            {"same": (dtype, [2])},
        )
        with pytest.raises(EngineError, match=r"(string|bfloat16) tensors \(node 'words'\)"):
            engine.load(path)

    @pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08"])
    def test_a_broken_model_is_one_line(
        self, engine: TorchEngine, tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / "broken.onnx"
        path.write_bytes(content)
        with pytest.raises(EngineError, match=r"cannot load broken\.onnx: ") as caught:
            engine.load(path)
        assert "\n" not in str(caught.value)

    def test_a_tensor_that_nothing_makes(self, engine: TorchEngine, tmp_path: Path) -> None:
        text = "g (float[2] x) => (float[2] y) { y = Add (x, ghost) }"
        with pytest.raises(EngineError, match="'ghost' is read, but nothing before makes it"):
            engine.load(parsed(tmp_path / "m.onnx", text))

    def test_a_device_that_is_not_there(self) -> None:
        if torch.cuda.is_available():
            pytest.skip("there is one")
        with pytest.raises(EngineError, match="finds no CUDA device here; use --provider cpu"):
            TorchEngine(1, "cuda")

    def test_an_unknown_device(self) -> None:
        with pytest.raises(EngineError, match=r"no provider 'cuba' \(did you mean 'cuda'"):
            TorchEngine(1, "cuba")

    def test_no_threads(self) -> None:
        with pytest.raises(EngineError, match="threads is 0; give 1 or more"):
            TorchEngine(0)


def test_a_failed_run_names_its_node_in_one_line(
    engine: TorchEngine, save_model: SaveModel
) -> None:
    session = engine.load(
        save_model(
            [helper.make_node("MatMul", ["a", "b"], ["c"], name="product")],
            {"a": ["n", "k"], "b": ["l", "m"]},
            {"c": ["n", "m"]},
        )
    )
    with pytest.raises(EngineError, match="cannot run the model: MatMul 'product': ") as caught:
        session.run({"a": np.ones((2, 3), np.float32), "b": np.ones((4, 5), np.float32)})
    assert "\n" not in str(caught.value)


class TestWeights:
    def save(self, save_model: SaveModel, location: str) -> Path:
        weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
        path = save_model(
            [helper.make_node("Add", ["x", "w"], ["y"])], {"x": [3]}, {"y": [3]}, [weight]
        )
        model = onnx.load(path)
        onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
        model = onnx.load(path, load_external_data=False)
        model.graph.initializer[0].external_data[0].value = location
        path.write_bytes(model.SerializeToString())
        return path

    def test_beside_the_model_are_found(self, engine: TorchEngine, save_model: SaveModel) -> None:
        session = engine.load(self.save(save_model, "w.bin"))
        np.testing.assert_array_equal(session.run({"x": np.ones(3, np.float32)})["y"], [1, 2, 3])

    @pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "gone.bin", ""])
    def test_elsewhere_are_refused(
        self, engine: TorchEngine, save_model: SaveModel, location: str
    ) -> None:
        with pytest.raises(EngineError, match=r"cannot load model\.onnx: .*weights"):
            engine.load(self.save(save_model, location))

    def test_of_a_constant_that_points_elsewhere_are_refused(
        self, engine: TorchEngine, save_model: SaveModel
    ) -> None:
        value = numpy_helper.from_array(np.arange(3, dtype=np.float32), "v")
        node = helper.make_node("Constant", [], ["c"], value=value)
        tensor = node.attribute[0].t
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../w.bin")
        path = save_model(
            [node, helper.make_node("Add", ["x", "c"], ["y"])], {"x": [3]}, {"y": [3]}
        )
        with pytest.raises(EngineError, match="leaves the model's folder"):
            engine.load(path)


def test_nodes_are_timed_in_their_order(engine: TorchEngine, tmp_path: Path) -> None:
    text = """g (float[4] x, bool[] c) => (float[4] y) {
      a = Relu (x)
      b = If (c) <then_branch = t () => (p) { q = Exp (a)
                                              p = Neg (q) },
                  else_branch = e () => (r) { r = Neg (a) }>
      y = Abs (b) }"""
    session = engine.load(parsed(tmp_path / "m.onnx", text))
    times = session.time_steps({"x": np.ones(4, np.float32), "c": np.array(True)})
    assert [step.operator for step in times] == ["Relu", "If", "Abs"]
    assert all(step.ms > 0 for step in times)


def test_values_are_let_go_after_their_last_reader(engine: TorchEngine, tmp_path: Path) -> None:
    text = """g (float[4] x) => (float[4] y) {
      a = Relu (x)
      b = Exp (a)
      y = Add (b, a) }"""
    program = engine.load(parsed(tmp_path / "m.onnx", text))._program
    assert [len(step.frees) for step in program.steps] == [1, 0, 2]


def test_what_never_changes_is_computed_when_the_model_is_loaded(
    engine: TorchEngine, tmp_path: Path
) -> None:
    text = """g (float[4] x) => (float[4] y) {
      a = Constant <value_floats=[1.0,2.0,3.0,4.0]> ()
      b = Exp (a)
      y = Mul (x, b) }"""
    session = engine.load(parsed(tmp_path / "m.onnx", text))
    assert [step.operator for step in session._program.steps] == ["Mul"]


def test_threads_are_those_asked_for(save_model: SaveModel) -> None:
    path = save_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [3]}, {"y": [3]})
    before = torch.get_num_threads()
    try:
        for threads in (2, 1):
            TorchEngine(threads).load(path).run({"x": np.ones(3, np.float32)})
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


class TestAnAcceleratorIsNotWaitedFor:
    """torch's device ``meta`` has shapes and no values, so reading a value from it fails.

    It also refuses operations whose tensors lie in different memories, as CUDA does.
    """

    def run(self, path: Path, feeds: dict[str, np.ndarray]) -> list[torch.Tensor]:
        with torch.inference_mode():
            proto = read_for_torch(path)
            compiler = Compiler(
                standard_opset(proto), torch.device("meta"), partial(read_weight, path)
            )
            program = compiler.compile(proto.graph)
            return program.run([torch.from_numpy(feed) for feed in feeds.values()], lambda _: None)

    def test_shapes_stay_with_the_host(self, tmp_path: Path) -> None:
        text = """g (float[n,4] x, int64[1] k) => (float[m] y) {
          s = Shape (x)
          zero = Constant <value_ints=[0]> ()
          n = Gather (s, zero)
          four = Constant <value_ints=[4]> ()
          total = Mul (n, four)
          wanted = Mul (total, k)
          t = Tile (x, twice)
          y = Reshape (t, wanted) }""".replace(
            "t = Tile (x, twice)",
            "one = Constant <value_ints=[1]> ()\n r = Concat <axis=0> (k, one)\n t = Tile (x, r)",
        )
        path = parsed(tmp_path / "m.onnx", text)
        feeds = {"x": np.ones((3, 4), np.float32), "k": np.array([2])}
        (result,) = self.run(path, feeds)
        assert (result.device.type, tuple(result.shape)) == ("meta", (24,))

    def test_a_value_of_the_device_is_missed_here(self, tmp_path: Path) -> None:
        """The tests here would pass for nothing if values could be read."""
        text = """g (float[4] x, int64[1,1] k) => (y) {
          flat = Squeeze (k)
          y = Tile (x, flat) }"""
        feeds = {"x": np.ones(4, np.float32), "k": np.array([[2]])}
        with pytest.raises(EngineError, match="Tile 'y'"):
            self.run(parsed(tmp_path / "m.onnx", text), feeds)
