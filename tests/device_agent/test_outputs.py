"""What ``--outputs`` leaves in its folder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from device_agent import OptionError
from device_agent._outputs import OutputFolder
from tests.device_agent.test_answers import answer

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_frame_is_a_file_that_numpy_reads(tmp_path: Path) -> None:
    outputs: dict[str, Any] = {
        "boxes": np.arange(12, dtype=np.float32).reshape(3, 4).T,
        "a/scores": np.array(0.5, np.float16),
        "file": np.zeros((0, 4), np.int64),
        "allow_pickle": np.array([True]),
        "texts": np.array(["one", "two"], object),
    }
    OutputFolder(tmp_path / "new" / "folder").save(answer(outputs))
    (name,) = names(tmp_path / "new" / "folder")
    assert name == "frame-000003.npz"
    with np.load(tmp_path / "new" / "folder" / name, allow_pickle=False) as loaded:
        assert {key.replace("__slash__", "/") for key in loaded.files} == set(outputs)
        for key in loaded.files:
            array = outputs[key.replace("__slash__", "/")]
            np.testing.assert_array_equal(loaded[key], array)
            assert array.dtype == object or loaded[key].dtype == array.dtype


def test_a_file_that_cannot_be_finished_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = OutputFolder(tmp_path)
    folder.save(answer({"y": np.zeros(3)}))
    before = (tmp_path / "frame-000003.npz").read_bytes()

    def write(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", write)
    for frame in (3, 4):
        with pytest.raises(OptionError, match=f"cannot write .*frame-00000{frame}.npz: No space"):
            folder.save(replace(answer({"y": np.ones(3)}), frame=frame))
    assert names(tmp_path) == ["frame-000003.npz"]
    assert (tmp_path / "frame-000003.npz").read_bytes() == before


def test_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"cannot make --outputs .*file: File exists"):
        OutputFolder(tmp_path / "file")
