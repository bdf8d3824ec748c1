"""The command split-profile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from profiler.command import main
from profiler.profile_file import read_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def model(save_model: Callable[..., Path]) -> Path:
    nodes = [
        helper.make_node("Exp", ["in/put"], ["a"], name="exp"),
        helper.make_node("Softmax", ["a"], ["y"], name="softmax"),
    ]
    return save_model(nodes, {"in/put": ["n", 64]}, {"y": ["n", 64]})


def test_writes_a_profile_and_shows_a_table(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "profile.json"
    arguments = [str(model), "--runs", "3", "--threads", "1", "--input", "in/put:2x64"]
    assert main([*arguments, "-o", str(path)]) == 0
    profile = read_profile(path)
    assert profile.inputs[0].shape == (2, 64)
    assert profile.engine.threads == 1
    output = capsys.readouterr().out
    for words in ("whole run", "exp", "softmax", "codec", "affine8", "Inputs were made up"):
        assert words in output
    assert f"written to {path}" in output


def test_json_is_one_object_and_nothing_else(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = tmp_path / "feed.npz"
    np.savez(feed, in__slash__put=np.ones((3, 64), np.float32))
    assert main([str(model), "--feed", str(feed), "--runs", "2", "--json"]) == 0
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert data["schema"] == 1
    assert data["inputs"] == [{"name": "in/put", "dtype": "float32", "shape": [3, 64]}]
    assert captured.err == ""


def test_another_provider_is_named_with_what_it_left_to_the_processor(model: Path) -> None:
    """Azure's is in every build, and runs no local operator itself."""
    if "AzureExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this build of onnxruntime has no second provider")
    path = model.with_name("p.json")
    arguments = ["--provider", "azure", "--runs", "2", "--input", "in/put:1x64", "-o", str(path)]
    assert main([str(model), *arguments]) == 0
    profile = read_profile(path)
    assert profile.engine.provider == "AzureExecutionProvider"
    assert any("100% of their time) ran on CPUExecution" in note for note in profile.notes)


@pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset")
def test_threads_follow_taskset(model: Path) -> None:
    core = str(min(os.sched_getaffinity(0)))
    command = ["taskset", "-c", core, sys.executable, "-m", "profiler.cli", str(model)]
    command += ["--input", "in/put:1x64", "--runs", "2", "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(output)["engine"]["threads"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.onnx"], "missing.onnx"),
        (["MODEL"], "free axes in input 'in/put' ["),
        (["MODEL", "--input", "in/put:64"], "in/put"),
        (["MODEL", "--input", "image:1x64"], "image"),
        (["MODEL", "--input", "in/put"], "NAME:1x3x224x224"),
        (["MODEL", "--feed", "missing.npz"], "missing.npz"),
        (["MODEL", "--threads", "0"], "'0' is not a whole number from 1 to"),
        (["MODEL", "--threads", "3000000"], "the cores of this machine"),
        (["MODEL", "--runs", "99999999999999999999"], "from 1 to 10000"),
        (["MODEL", "--input", "in/put:99999999999999999999999x64"], "an axis that is too long"),
        (["MODEL", "--feed", "/dev/zero"], "it is a device, not a file"),
        (["MODEL", "-o", "n" * 300], "File name too long"),
        (["MODEL", "-o", ""], "it is there and is no file"),
        (["MODEL", "-o", "/dev/null"], "it is there and is no file"),
        (["/dev/zero"], "it is a device, not a file"),
        (["MODEL", "--provider", "cpuu"], "did you mean 'cpu'"),
        (["MODEL", "--provider", "qnn"], "QNNExecutionProvider is not in this build"),
        (["MODEL", "--chrome-trace", "none/t.json"], "none/t.json"),
        (["MODEL", "--chrome-trace", "/dev/null"], "it is there and is no file"),
        (["MODEL", "--runs", "many"], "'many' is not a whole number"),
        (["MODEL", "--colour"], "--colour"),
        ([], "MODEL"),
        (["BROKEN"], "is not an ONNX model"),
        (["MODEL", "--input", "in/put:1x64", "-o", "none/p.json", "--runs", "1"], "none/p.json"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_exit_code_2(
    model: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"hello")
    names = {"MODEL": str(model), "BROKEN": str(broken)}
    assert main([names.get(argument, argument) for argument in arguments]) == 2
    error = capfd.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
