"""Bundles are whole or not there: written in one step, checked when opened, cheap in disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.preprocess import ImagePreprocess
from splitter.bundle import Bundle, is_bundle, open_bundle
from splitter.bundle_writer import BundleContents, write_bundle
from splitter.errors import BundleError, ExtractionError, PlanError
from splitter.extraction import disagreement, run_parts
from splitter.planner import make_plan
from splitter.workspace import bundle_workspace
from tests.splitter.helpers import ENGINE, Prepared, prepare_file
from tests.splitter.test_planner import situation_of
from tests.zoo import ZooModel, chain_cnn, dead_branches, multi_output, noise, parsed


def make_bundle(
    target: Path, scratch: Path, model: ZooModel | None = None, **changes: Any
) -> Prepared:
    model = model or chain_cnn()
    path = scratch / "chain.onnx"
    path.write_bytes(model.proto.SerializeToString())
    with bundle_workspace(target) as folder:
        prepared = prepare_file(path, model.feeds, folder)
        contents = BundleContents(
            make_plan(situation_of(prepared)),
            prepared.space,
            prepared.observation.tensors,
            prepared.feeds,
        )
        write_bundle(prepared.stored, replace(contents, **changes), ENGINE, target)
    return prepared


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    make_bundle(tmp_path / "bundle", tmp_path)
    return open_bundle(tmp_path / "bundle")


@pytest.mark.parametrize("make", [chain_cnn, multi_output, dead_branches])
def test_every_cut_of_a_bundle_gives_the_whole_answer(make: type, tmp_path: Path) -> None:
    prepared = make_bundle(tmp_path / "bundle", tmp_path, make())
    bundle = open_bundle(tmp_path / "bundle")
    whole = ENGINE.load(prepared.path).run(prepared.feeds)
    assert {"device", "cloud"} < set(bundle.cuts)
    for cut in bundle.cuts.values():
        parts = run_parts(ENGINE, cut.head, cut.tail, prepared.feeds)
        assert disagreement(whole, parts) <= 1e-5, cut.id
        sent = {tensor.slot.name for tensor in cut.frontier}
        assert cut.tail is None or {s.name for s in ENGINE.load(cut.tail).inputs} == sent
        assert {*cut.kept, *(slot.name for slot in cut.results)} == {s.name for s in bundle.outputs}


def test_nothing_but_the_bundle_is_left_beside_it(bundle: Bundle) -> None:
    names = sorted(path.name for path in bundle.folder.parent.iterdir())
    assert names == ["bundle", "chain.onnx"]


def test_weights_are_stored_once(bundle: Bundle) -> None:
    size = {path.name: path.stat().st_size for path in bundle.folder.iterdir()}
    models = sum(value for name, value in size.items() if name.endswith(".onnx"))
    assert size["weights.bin"] > 2000
    assert models < 20_000
    assert len([name for name in size if name.endswith(".onnx")]) == 3


def test_declared_preprocessing_and_labels_come_back(tmp_path: Path) -> None:
    preprocess = ImagePreprocess(16, 16, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    make_bundle(tmp_path / "b", tmp_path, preprocess=preprocess, labels=("cat", "dog"))
    bundle = open_bundle(tmp_path / "b")
    assert bundle.preprocess == preprocess
    assert bundle.labels == ("cat", "dog")
    assert [slot.shape for slot in bundle.planned_inputs] == [(1, 3, 16, 16)]


def test_an_old_bundle_is_replaced_and_something_else_never(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    make_bundle(target, tmp_path, labels=("old",))
    make_bundle(target, tmp_path, labels=("new",))
    assert open_bundle(target).labels == ("new",)
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_bytes(b"cat")
    (target / "mine.txt").write_text("mine")
    with pytest.raises(BundleError, match=r"holds 'mine\.txt', which is no part of a bundle"):
        make_bundle(target, tmp_path)
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for path in (other, file):
        with pytest.raises(BundleError, match="exists and is no bundle"):
            make_bundle(path, tmp_path)
    assert (other / "cat.jpg").read_bytes() == b"cat"
    assert file.read_text() == "mine"


def test_any_weighed_cut_can_be_the_one_that_runs(tmp_path: Path) -> None:
    make_bundle(tmp_path / "b", tmp_path)
    planned = open_bundle(tmp_path / "b")
    for item in planned.plan["candidates"]:
        make_bundle(tmp_path / "b", tmp_path, cut=item["cut"])
        bundle = open_bundle(tmp_path / "b")
        assert (bundle.cut_id, bundle.decision) == (item["cut"], item["decision"])
        assert set(bundle.cuts) == {*planned.cuts, item["cut"]}
        assert bundle.plan == planned.plan


def test_an_unknown_cut_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="the plan has no cut 'cut-0'; it has device, cloud, cut-"):
        make_bundle(tmp_path / "b", tmp_path, cut="cut-0")
    assert not (tmp_path / "b").exists()


def test_a_failing_part_leaves_the_old_bundle(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    make_bundle(target, tmp_path, labels=("old",))

    class Liar:
        """An engine whose parts disagree with the whole."""

        name, version = ENGINE.name, ENGINE.version

        def load(self, path: Path) -> Any:
            session = ENGINE.load(path)
            if path.name.startswith("tail-"):
                run = session.run
                session.run = lambda feeds: {k: v + 1 for k, v in run(feeds).items()}  # type: ignore[method-assign]
            return session

    model = chain_cnn()
    path = tmp_path / "m.onnx"
    path.write_bytes(model.proto.SerializeToString())
    with bundle_workspace(target) as folder:
        prepared = prepare_file(path, model.feeds, folder)
        plan = make_plan(situation_of(prepared))
        contents = BundleContents(
            plan, prepared.space, prepared.observation.tensors, prepared.feeds
        )
        with pytest.raises(ExtractionError, match="away from the whole model"):
            write_bundle(prepared.stored, contents, Liar(), target)
    assert open_bundle(target).labels == ("old",)


def test_a_model_that_answers_at_random_is_refused(tmp_path: Path) -> None:
    proto = parsed(
        """g (float[2,4] x) => (float[2,4] y) {
        a = Tanh (x)
        r = RandomNormalLike (a)
        y = Add (a, r) }"""
    )
    with pytest.raises(ExtractionError, match="differently each time"):
        make_bundle(tmp_path / "b", tmp_path, ZooModel(proto, {"x": noise(2, 4)}))
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("step", ["fsync", "renameat2", "rename"])
def test_a_writer_killed_at_any_step_leaves_an_old_or_a_new_bundle(
    step: str, tmp_path: Path
) -> None:
    """The process ends at the named call: before it nothing has changed."""
    target = tmp_path / "bundle"
    if step != "rename":
        make_bundle(target, tmp_path, labels=("old",))
    script = f"""
import ctypes, os, pathlib, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.splitter.test_bundle import make_bundle
def die(*_, **__): os._exit(9)
if {step!r} == "fsync": os.fsync = die
elif {step!r} == "rename": pathlib.Path.rename = die
else:
    class Library:
        renameat2 = staticmethod(die)
    ctypes.CDLL = lambda *_, **__: Library()
make_bundle(pathlib.Path({str(target)!r}), pathlib.Path({str(tmp_path)!r}), labels=("new",))
"""
    process = subprocess.run([sys.executable, "-c", script], check=False)
    assert process.returncode == 9
    if step == "rename":
        assert not target.exists()
    else:
        assert open_bundle(target).labels == ("old",)


class TestOpening:
    def test_what_is_no_bundle_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match="there is no folder"):
            open_bundle(tmp_path / "nowhere")
        with pytest.raises(BundleError, match=r"is no bundle: it has no bundle\.json"):
            open_bundle(tmp_path)
        assert not is_bundle(tmp_path)

    def test_every_changed_or_missing_file_is_named(self, bundle: Bundle) -> None:
        for path in sorted(bundle.folder.iterdir()):
            if path.name == "bundle.json":
                continue
            content = path.read_bytes()
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            with pytest.raises(BundleError, match=f"is damaged: {path.name} has changed"):
                open_bundle(bundle.folder)
            path.unlink()
            with pytest.raises(BundleError, match=f"is incomplete: {path.name} is missing"):
                open_bundle(bundle.folder, verify=False)
            path.write_bytes(content)
        open_bundle(bundle.folder)

    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda m: m.update(schema=2), "schema 2; this version reads up to 1"),
            (lambda m: m.update(schema="1"), "no valid schema"),
            (lambda m: m.pop("cuts"), "cuts is not valid"),
            (lambda m: m.update(cuts=[]), "lacks the cut 'device'"),
            (lambda m: m.update(cut="cut-ffffffff"), "lacks the cut 'cut-ffffffff'"),
            (lambda m: m.update(decision="maybe"), "'maybe' is none of device, cloud, split"),
            (lambda m: m["cuts"][0].update(head="../full.onnx"), "is not among the files"),
            (lambda m: m["files"].update({"../x": "0"}), "is not a plain file name"),
            (lambda m: m["files"].update({"a/b": "0"}), "is not a plain file name"),
            (lambda m: m.update(preprocess={"hight": 3}), "preprocess"),
            (lambda m: m.update(inputs=[{}]), "inputs is not valid"),
            (lambda m: m.update(full=None), "full is not valid"),
        ],
    )
    def test_a_wrong_manifest_is_refused(
        self, bundle: Bundle, edit: Callable[[dict[str, Any]], object], message: str
    ) -> None:
        path = bundle.folder / "bundle.json"
        manifest = json.loads(path.read_text())
        edit(manifest)
        path.write_text(json.dumps(manifest))
        with pytest.raises(BundleError, match=message):
            open_bundle(bundle.folder)

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
    def test_what_is_no_json_is_refused(self, bundle: Bundle, content: bytes) -> None:
        (bundle.folder / "bundle.json").write_bytes(content)
        with pytest.raises(BundleError, match=r"bundle\.json"):
            open_bundle(bundle.folder)

    def test_needs_neither_onnx_nor_scipy(self, bundle: Bundle) -> None:
        script = (
            "import sys\n"
            "for name in ('onnx', 'scipy', 'torch', 'yaml', 'PIL'): sys.modules[name] = None\n"
            "from splitter.bundle import open_bundle\n"
            "print(open_bundle(sys.argv[1]).decision)\n"
        )
        subprocess.run(
            [sys.executable, "-c", script, str(bundle.folder)],
            check=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
