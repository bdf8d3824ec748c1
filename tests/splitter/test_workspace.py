"""Where a bundle is built: refused early what cannot be one, and nothing left of what failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from splitter.errors import BundleError
from splitter.workspace import bundle_workspace, move_into_place


def fail_in(target: Path) -> None:
    with bundle_workspace(target) as folder:
        (folder / "weights.bin").touch()
        raise KeyboardInterrupt


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_failure_leaves_neither_the_folder_nor_its_new_parents(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for target in ("b", "new/a/b", "old/a/b"):
        with pytest.raises(KeyboardInterrupt):
            fail_in(tmp_path / target)
    assert names(tmp_path) == ["old"]
    assert names(tmp_path / "old") == []


def test_new_parents_stay_with_the_bundle(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a" / "b"
    with bundle_workspace(target) as folder:
        (folder / "bundle.json").touch()
        move_into_place(folder, target)
    assert names(target) == ["bundle.json"]
    assert names(target.parent) == ["b"]


def test_parents_that_cannot_all_be_made_are_removed(tmp_path: Path) -> None:
    with (
        pytest.raises(BundleError, match="File name too long"),
        bundle_workspace(tmp_path / "new" / ("n" * 300) / "b"),
    ):
        pass
    assert names(tmp_path) == []


def test_the_longest_name_is_a_name(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    with bundle_workspace(target) as folder:
        move_into_place(folder, target)
    assert target.is_dir()


def test_a_link_is_followed_to_where_the_bundle_will_lie(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "current").symlink_to(tmp_path / "disk" / "v1")
    with bundle_workspace(tmp_path / "current") as folder:
        assert folder.parent == tmp_path / "disk"
        move_into_place(folder, tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    assert (tmp_path / "disk" / "v1").is_dir()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("n" * 300, "File name too long"),
        ("file", "exists and is no bundle"),
        ("file/b", "Not a directory"),
        ("file/a/b", "Not a directory"),
        ("pipe", "exists and is no bundle"),
        (".", "holds the working folder"),
        ("..", "holds the working folder"),
        ("/", "holds the working folder"),
        ("", "holds the working folder"),
        ("loop", ""),
        (os.fsdecode(b"b\xff"), r"the name b\\xff is no UTF-8 text"),
        ("/proc/b", "cannot write beside /proc/b"),
    ],
)
def test_what_cannot_be_a_bundle_is_refused_at_once(
    target: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    with pytest.raises(BundleError) as caught, bundle_workspace(Path(target)):
        pass
    caught.match(message or "loop")
    assert len(str(caught.value)) < 400
    assert names(tmp_path) == ["file", "loop", "pipe"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_closed_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BundleError, match="Permission denied"), bundle_workspace(tmp_path / "b"):
        pass
