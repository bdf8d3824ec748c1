"""Where the models are."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest

from cloud_worker import ModelEntry, ModelIndex, RepositoryError, read_folder
from profiler.graph.model import load_model
from tests.cloud_worker.bundles import save_bundle
from tests.cloud_worker.conftest import save_net
from tests.cloud_worker.repository_conformance import RepositoryConformance

if TYPE_CHECKING:
    from cloud_worker import ModelRepository


class TestIndex(RepositoryConformance):
    @pytest.fixture
    def repository(self) -> ModelRepository:
        return ModelIndex(
            [
                ModelEntry("pear", "b" * 64, bundles=(Path("pear"),)),
                ModelEntry("apple", "a" * 64, bare=Path("apple.onnx")),
                ModelEntry("pear", "b" * 64, bare=Path("pear.onnx")),
            ]
        )

    def test_places_of_one_model_are_joined(self, repository: ModelRepository) -> None:
        entry = repository.find("b" * 64)
        assert entry is not None
        assert (entry.bundles, entry.bare) == ((Path("pear"),), Path("pear.onnx"))


class TestFolder(RepositoryConformance):
    @pytest.fixture
    def repository(self, tmp_path: Path) -> ModelRepository:
        folder = tmp_path / "served"
        folder.mkdir()
        save_net(folder / "apple.onnx", weight=1.0)
        save_net(tmp_path / "pear.onnx", weight=2.0)
        save_bundle(tmp_path / "pear.onnx", folder / "pear-plan")
        content = read_folder(folder)
        assert content.problems == ()
        return content.models


def test_bare_models_and_bundles_of_one_model_are_one_entry(models: Path) -> None:
    save_bundle(models / "net.onnx", models / "plan-a", ("skip",))
    save_bundle(models / "net.onnx", models / "plan-b", ("hidden", "skip"))
    [entry] = read_folder(models).models.entries()
    assert entry.sha256 == load_model(models / "net.onnx").identity.sha256
    assert entry.bare == models / "net.onnx"
    assert entry.bundles == (models / "plan-a", models / "plan-b")


def test_weights_beside_the_model_count(models: Path) -> None:
    proto = onnx.load(models / "net.onnx")
    onnx.save(
        proto,
        models / "large.onnx",
        save_as_external_data=True,
        location="large.data",
        size_threshold=0,
    )
    content = read_folder(models)
    assert [entry.name for entry in content.models.entries()] == ["large", "net"]
    before = content.models.entries()[0].sha256
    data = bytearray((models / "large.data").read_bytes())
    data[0] ^= 1
    (models / "large.data").write_bytes(data)
    assert read_folder(models).models.entries()[0].sha256 != before


def test_folder_that_is_a_bundle(models: Path, tmp_path: Path) -> None:
    bundle = save_bundle(models / "net.onnx", tmp_path / "bundle")
    [entry] = read_folder(bundle).models.entries()
    assert (entry.name, entry.bundles, entry.bare) == ("net", (bundle,), None)


def test_unreadable_entries_are_named_and_the_rest_is_served(models: Path) -> None:
    (models / "broken.onnx").write_bytes(b"this is no model")
    (models / "notes").mkdir()
    save_bundle(models / "net.onnx", models / "damaged")
    (models / "damaged" / "tail-1.onnx").write_bytes(b"cut short")
    (models / "README.md").write_text("not a model, and not meant to be one")
    (models / ".hidden.onnx").write_bytes(b"")
    content = read_folder(models)
    assert [entry.name for entry in content.models.entries()] == ["net"]
    assert len(content.problems) == 3
    for problem, name in zip(content.problems, ("broken.onnx", "damaged", "notes"), strict=True):
        assert str(models / name) in problem
        assert "\n" not in problem


def test_what_is_no_file_is_named_and_not_read(models: Path) -> None:
    os.mkfifo(models / "pipe.onnx")
    (models / "folder.onnx").mkdir()
    (models / "nowhere.onnx").symlink_to("missing")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(os.path.relpath(models / "socket.onnx"))  # such addresses are short
        content = read_folder(models)
    assert [entry.name for entry in content.models.entries()] == ["net"]
    names = ("folder.onnx", "nowhere.onnx", "pipe.onnx", "socket.onnx")
    for problem, name in zip(content.problems, names, strict=True):
        assert str(models / name) in problem


def test_one_model_may_be_given_as_a_file(models: Path) -> None:
    (models / "broken.onnx").write_bytes(b"not looked at")
    content = read_folder(models / "net.onnx")
    assert [entry.bare for entry in content.models.entries()] == [models / "net.onnx"]
    assert content.problems == ()


def test_symlinked_folder_is_read(models: Path, tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(models)
    assert len(read_folder(link).models.entries()) == 1


@pytest.mark.parametrize("what", ["missing", "empty", "a file", "only broken"])
def test_nothing_to_serve(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "models"
    if what == "a file":
        folder.write_text("x")
    elif what != "missing":
        folder.mkdir()
    if what == "only broken":
        (folder / "bad.onnx").write_bytes(b"x")
    with pytest.raises(RepositoryError, match=str(folder)) as caught:
        read_folder(folder)
    assert ("bad.onnx" in str(caught.value)) == (what == "only broken")


@pytest.mark.parametrize("alone", [True, False])
def test_a_model_that_is_there_is_not_said_to_be_missing(
    models: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "profiler.graph.model", None)
    with pytest.raises(RepositoryError, match="which needs onnx: run pip install") as caught:
        read_folder(models / "net.onnx" if alone else models)
    assert "no .onnx" not in str(caught.value)
    assert str(caught.value).startswith("nothing in") != alone


def test_bundles_need_no_onnx(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = save_bundle(models / "net.onnx", tmp_path / "bundle")
    shutil.move(bundle, models / "bundle")
    monkeypatch.setitem(__import__("sys").modules, "profiler.graph.model", None)
    content = read_folder(models)
    [entry] = content.models.entries()
    assert entry.bundles == (models / "bundle",)
    [problem] = content.problems
    assert "pip install '.[worker]'" in problem
