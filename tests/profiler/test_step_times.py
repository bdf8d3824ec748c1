"""Profiles of the torch engine: layers from timed steps, scale from plain runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from profiler.cli import run
from profiler.engine import EngineOptions
from profiler.step_times import step_times
from splitter.cli import run as plan
from tests.zoo import chain_cnn

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "chain.onnx"
    path.write_bytes(chain_cnn().proto.SerializeToString())
    return path


def test_kernels_bear_the_names_of_nodes_and_leave_out_the_warm_up(
    model: Path, tmp_path: Path
) -> None:
    runs = step_times("torch", EngineOptions(1)).load(model, tmp_path)
    for _ in range(4):
        runs.run(chain_cnn().feeds)
    kernels = runs.finish(warm_up=1)
    operators = ["Conv", "BatchNormalization", "Relu"] * 2 + [
        "GlobalAveragePool",
        "Flatten",
        "Gemm",
    ]
    assert [kernel.operator for kernel in kernels] == operators
    assert all(kernel.latency_ms > 0 for kernel in kernels)


def test_a_profile_of_torch_plans_a_cloud(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cloud.json"
    assert (
        run([str(model), "--engine", "torch", "--threads", "1", "--runs", "3", "-o", str(path)])
        == 0
    )
    profile = json.loads(path.read_text())
    assert profile["engine"]["name"] == "torch"
    assert profile["engine"]["provider"] == "cpu"
    layers = sum(layer["latency_ms"] + layer.get("layout_ms", 0) for layer in profile["layers"])
    assert layers + profile["overhead_ms"] == pytest.approx(profile["whole_ms"], rel=1e-3)
    assert all(layer["latency_ms"] > 0 for layer in profile["layers"])
    assert profile["peak_memory_bytes"] is None
    assert any("Peak memory is not known" in note for note in profile["notes"])
    capsys.readouterr()
    assert (
        plan([str(model), "--device", "pi4", "--cloud", str(path), "--link", "20mbps", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)
