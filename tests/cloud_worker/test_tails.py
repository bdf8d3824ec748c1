"""Tails on demand, from every place they may come from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cloud_worker import (
    IllegalCutError,
    LoadError,
    TailKey,
    TailLoader,
    TailSource,
    read_folder,
)
from cloud_worker.testing import FakeTails
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.model import load_model
from tests.cloud_worker.bundles import save_bundle
from tests.cloud_worker.conftest import save_net
from tests.cloud_worker.support import KEY, MODEL, X, tails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from profiler.engine import Session

IMAGE = np.linspace(-2, 2, 8, dtype=np.float32).reshape(1, 8)
SKIP = IMAGE * 2
HIDDEN = SKIP + np.linspace(-8, 0.5, 8, dtype=np.float32)
ANSWER = np.maximum(HIDDEN, 0) + SKIP
VALUES = {"image": IMAGE, "skip": SKIP, "hidden": HIDDEN}


class Recorder(OnnxRuntimeEngine):
    """An engine that remembers what it loaded."""

    def __init__(self) -> None:
        super().__init__(EngineOptions(threads=1))
        self.loaded: list[Path] = []

    def load(self, path: Path) -> Any:
        self.loaded.append(path)
        return super().load(path)


@pytest.fixture
def engine() -> Recorder:
    return Recorder()


@pytest.fixture
def loader(models: Path, engine: Recorder) -> Iterator[Callable[[], TailLoader]]:
    """Makes a loader of what is in the folder by then."""
    made: list[TailLoader] = []

    def make() -> TailLoader:
        made.append(TailLoader(read_folder(models).models, engine))
        return made[-1]

    yield make
    for item in made:
        item.close()


def key(models: Path, *frontier: str, results: tuple[str, ...] = ("answer",)) -> TailKey:
    return TailKey.of(load_model(models / "net.onnx").identity.sha256, frontier, results)


def answer(session: Session) -> NDArray[Any]:
    return session.run({slot.name: VALUES[slot.name] for slot in session.inputs})["answer"]


class TailSourceConformance:
    """The source under test serves ``good`` and has no cut like ``bad``."""

    @pytest.fixture
    def source(self) -> TailSource:
        raise NotImplementedError

    @pytest.fixture
    def good(self) -> TailKey:
        raise NotImplementedError

    @pytest.fixture
    def bad(self) -> TailKey:
        raise NotImplementedError

    def test_inputs_are_the_frontier_and_outputs_hold_the_results(
        self, source: TailSource, good: TailKey
    ) -> None:
        session = source.load(good)
        assert {slot.name for slot in session.inputs} == set(good.frontier)
        assert {slot.name for slot in session.outputs} >= set(good.results)
        session.close()

    def test_each_load_gives_a_session_of_its_own(self, source: TailSource, good: TailKey) -> None:
        first, second = source.load(good), source.load(good)
        first.close()
        assert {slot.name for slot in second.inputs} == set(good.frontier)
        second.close()

    def test_illegal_cut(self, source: TailSource, bad: TailKey) -> None:
        with pytest.raises(IllegalCutError):
            source.load(bad)


class TestFake(TailSourceConformance):
    @pytest.fixture
    def source(self) -> TailSource:
        return tails()

    @pytest.fixture
    def good(self) -> TailKey:
        return KEY

    @pytest.fixture
    def bad(self) -> TailKey:
        return TailKey.of(MODEL, ["z"], ["y"])

    def test_knobs(self) -> None:
        source: FakeTails = tails()
        source.failures[KEY] = LoadError("disk full")
        with pytest.raises(LoadError, match="disk full"):
            source.load(KEY)
        source.failures.clear()
        session = source.load(KEY)
        np.testing.assert_array_equal(session.run({"x": X})["y"], X * 2)
        assert source.loaded == [KEY]
        source.close()
        assert source.closed


class TestLoader(TailSourceConformance):
    @pytest.fixture
    def source(self, loader: Callable[[], TailLoader]) -> TailSource:
        return loader()

    @pytest.fixture
    def good(self, models: Path) -> TailKey:
        return key(models, "skip", "hidden")

    @pytest.fixture
    def bad(self, models: Path) -> TailKey:
        return key(models, "hidden")


def test_cloud_only_runs_the_file_as_it_is(
    models: Path, engine: Recorder, loader: Callable[[], TailLoader]
) -> None:
    session = loader().load(key(models, "image"))
    assert engine.loaded == [models / "net.onnx"]
    np.testing.assert_array_equal(answer(session), ANSWER)


@pytest.mark.parametrize("frontier", [("skip",), ("hidden", "skip"), ("skip", "hidden")])
def test_any_cut_of_a_bare_model(
    models: Path, loader: Callable[[], TailLoader], frontier: tuple[str, ...]
) -> None:
    session = loader().load(key(models, *frontier))
    np.testing.assert_allclose(answer(session), ANSWER, rtol=1e-6)


@pytest.mark.parametrize(
    ("behind", "shape"),
    [("y = MatMul(h, h)", (3, 3)), ("y = Transpose<perm=[1,0]>(h)", (2, 3)), ("y = Relu(h)", ())],
)
def test_cut_at_a_tensor_whose_rank_the_runtime_cannot_infer(
    tmp_path: Path, engine: Recorder, behind: str, shape: tuple[int, ...]
) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g (float[n] x, int64[k] s) => (float[a, b] y) {{
      h = Reshape(x, s)
      {behind} }}"""
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    source = TailLoader(read_folder(path).models, engine)
    session = source.load(key(tmp_path, "h", results=("y",)))
    h = np.ones(shape, np.float32)
    whole = engine.load(path).run({"x": h.reshape(-1), "s": np.array(shape, np.int64)})
    np.testing.assert_array_equal(session.run({"h": h})["y"], whole["y"])
    source.close()


def test_bundled_tail_is_taken_where_the_bundle_has_the_cut(
    models: Path, engine: Recorder, loader: Callable[[], TailLoader]
) -> None:
    bundle = save_bundle(models / "net.onnx", models / "plan")
    source = loader()
    np.testing.assert_array_equal(answer(source.load(key(models, "skip"))), ANSWER)
    np.testing.assert_array_equal(answer(source.load(key(models, "image"))), ANSWER)
    assert engine.loaded == [bundle / "tail-1.onnx", bundle / "full.onnx"]


def test_other_cut_is_cut_out_of_a_bundles_whole_model(
    models: Path, tmp_path: Path, engine: Recorder
) -> None:
    wanted = key(models, "hidden", "skip")
    bundle = save_bundle(models / "net.onnx", tmp_path / "bundle")
    source = TailLoader(read_folder(bundle).models, engine)
    np.testing.assert_allclose(answer(source.load(wanted)), ANSWER, rtol=1e-6)
    source.close()


def test_cut_tails_lie_in_a_private_folder_that_goes_away(
    models: Path, engine: Recorder, loader: Callable[[], TailLoader]
) -> None:
    source = loader()
    source.load(key(models, "skip"))
    [path] = engine.loaded
    assert path.parents[1].stat().st_mode & 0o077 == 0
    assert sorted(models.iterdir()) == [models / "net.onnx"]
    source.close()
    assert not path.parents[1].exists()


def test_cut_tails_do_not_pile_up(
    models: Path, engine: Recorder, loader: Callable[[], TailLoader]
) -> None:
    source = loader()
    first = source.load(key(models, "skip"))
    folder = engine.loaded[0].parent
    kept = sorted(folder.iterdir())
    second = source.load(key(models, "hidden", "skip"))
    assert sorted(folder.iterdir()) == kept
    assert not engine.loaded[0].exists()
    for session in (first, second):
        np.testing.assert_allclose(answer(session), ANSWER, rtol=1e-6)


def test_bundle_that_is_replaced_while_it_is_read(models: Path, tmp_path: Path) -> None:
    wanted = key(models, "skip")
    bundle = save_bundle(models / "net.onnx", tmp_path / "bundle")

    class Replacing(Recorder):
        def load(self, path: Path) -> Any:
            session = super().load(path)
            if len(self.loaded) == 1:
                bundle.rename(tmp_path / "old")
                save_bundle(models / "net.onnx", bundle, ("hidden", "skip"))
            return session

    engine = Replacing()
    source = TailLoader(read_folder(bundle).models, engine)
    session = source.load(wanted)
    assert len(engine.loaded) == 2  # the second one was cut out of the whole model
    np.testing.assert_allclose(answer(session), ANSWER, rtol=1e-6)
    source.close()


def test_one_of_two_bundles_now_holds_another_model(
    models: Path, tmp_path: Path, engine: Recorder
) -> None:
    wanted = key(models, "hidden", "skip")
    folder = tmp_path / "served"
    folder.mkdir()
    for name in ("a", "b"):
        save_bundle(models / "net.onnx", folder / name)
    source = TailLoader(read_folder(folder).models, engine)
    (folder / "a").rename(tmp_path / "old")
    save_net(models / "net.onnx", weight=7.0)
    save_bundle(models / "net.onnx", folder / "a")
    np.testing.assert_allclose(answer(source.load(wanted)), ANSWER, rtol=1e-6)
    source.close()


@pytest.mark.parametrize(
    ("frontier", "results"),
    [
        (("hidden",), ("answer",)),
        (("nothing",), ("answer",)),
        (("skip",), ("hidden",)),
        (("answer",), ("answer",)),
        (("weights",), ("answer",)),
    ],
)
def test_illegal_cuts(
    models: Path,
    loader: Callable[[], TailLoader],
    frontier: tuple[str, ...],
    results: tuple[str, ...],
) -> None:
    with pytest.raises(IllegalCutError, match="net"):
        loader().load(key(models, *frontier, results=results))


def test_model_that_changed_on_disk_is_not_served(
    models: Path, loader: Callable[[], TailLoader]
) -> None:
    wanted = key(models, "image")
    source = loader()
    save_net(models / "net.onnx", weight=7.0)
    with pytest.raises(LoadError, match=r"net\.onnx has changed; restart"):
        source.load(wanted)


def test_model_that_went_away(models: Path, loader: Callable[[], TailLoader]) -> None:
    wanted = key(models, "image")
    source = loader()
    (models / "net.onnx").unlink()
    with pytest.raises(LoadError, match="net"):
        source.load(wanted)


def test_bundle_of_another_model_in_the_same_place(
    models: Path, tmp_path: Path, engine: Recorder
) -> None:
    wanted = key(models, "skip")
    bundle = save_bundle(models / "net.onnx", tmp_path / "bundle")
    source = TailLoader(read_folder(bundle).models, engine)
    bundle.rename(tmp_path / "old")
    save_net(models / "net.onnx", weight=7.0)
    save_bundle(models / "net.onnx", bundle)
    with pytest.raises(LoadError, match="another model now"):
        source.load(wanted)
    source.close()


def test_model_that_the_runtime_refuses(models: Path, loader: Callable[[], TailLoader]) -> None:
    graph = helper.make_graph(
        [helper.make_node("NoSuchOperator", ["image"], ["answer"], name="odd")],
        "odd",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("answer", TensorProto.FLOAT, [1, 8])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, models / "net.onnx")
    with pytest.raises(LoadError, match="net"):
        loader().load(key(models, "image"))


def test_old_model_that_lists_weights_as_inputs(
    models: Path, loader: Callable[[], TailLoader]
) -> None:
    proto = onnx.load(models / "net.onnx")
    proto.ir_version = 3
    for weight in proto.graph.initializer:
        proto.graph.input.append(
            helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims))
        )
    onnx.save(proto, models / "net.onnx")
    session = loader().load(key(models, "image"))
    assert [slot.name for slot in session.inputs] == ["image"]
    np.testing.assert_array_equal(answer(session), ANSWER)


def test_nodes_of_one_name(models: Path, loader: Callable[[], TailLoader]) -> None:
    proto = onnx.load(models / "net.onnx")
    for node in proto.graph.node:
        node.name = "same"
    onnx.save(proto, models / "net.onnx")
    np.testing.assert_array_equal(answer(loader().load(key(models, "image"))), ANSWER)


def test_text_cannot_be_sent(models: Path, loader: Callable[[], TailLoader]) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["image"], ["answer"], name="same")],
        "text",
        [value("image", TensorProto.STRING, [1])],
        [value("answer", TensorProto.STRING, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, models / "net.onnx")
    with pytest.raises(IllegalCutError, match="string"):
        loader().load(key(models, "image"))


def test_cutting_without_onnx_says_what_to_install(
    models: Path, tmp_path: Path, engine: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled, other = key(models, "skip"), key(models, "hidden", "skip")
    bundle = save_bundle(models / "net.onnx", tmp_path / "bundle")
    for name in ("profiler.graph.model", "splitter.extraction", "onnx"):
        monkeypatch.setitem(sys.modules, name, None)
    source = TailLoader(read_folder(bundle).models, engine)
    np.testing.assert_array_equal(answer(source.load(bundled)), ANSWER)
    with pytest.raises(LoadError, match=r"run pip install '\.\[worker\]'"):
        source.load(other)
    source.close()


def test_all_real_networks_are_read(shared: Path) -> None:
    content = read_folder(shared / "models")
    assert content.problems == ()
    assert len(content.models.entries()) == 22
