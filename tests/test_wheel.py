"""The wheel, installed into an empty environment: first what a board has, then the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from splitter.bundle import open_bundle
from tests.splitter.test_bundle import make_bundle

ROOT = Path(__file__).resolve().parents[1]
DEVICE_PACKAGES = {"msgpack", "numpy", "onnxruntime", "pyzmq", "zstandard"}


class Environment:
    """A virtual environment of its own, run from a folder that is not the checkout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cwd = folder / "elsewhere"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        self._cwd.mkdir()

    def run(self, command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run(
            [self._folder / "venv" / "bin" / command, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._cwd,
            env=variables,
        )

    def pip(self, *arguments: object) -> str:
        process = self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments)
        assert process.returncode == 0, process.stderr
        return process.stdout

    def packages(self) -> set[str]:
        return {item["name"].lower() for item in json.loads(self.pip("list", "--format=json"))}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT],
        check=True,
    )
    (path,) = folder.glob("headtail-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("empty"))


@pytest.mark.timeout(600)
def test_the_wheel_in_an_empty_environment(
    wheel: Path, environment: Environment, tmp_path: Path
) -> None:
    make_bundle(tmp_path / "bundle", tmp_path)
    environment.pip("install", "--quiet", wheel)
    installed = environment.packages()
    assert installed >= DEVICE_PACKAGES
    assert not installed & {"onnx", "scipy", "torch", "pillow", "pyyaml"}

    agent = environment.run(
        "device-agent", tmp_path / "bundle", "--cut", "device", "--source", "bench",
        "--count", 3, "--jsonl", "-",
    )  # fmt: skip
    assert agent.returncode == 0, agent.stderr
    lines = [json.loads(line) for line in agent.stdout.splitlines()]
    assert [line["computed_on"] for line in lines] == ["device"] * 3

    process = environment.run("split-plan", "m.onnx", "--device", "pi4", "--link", "20mbps")
    assert process.returncode == 2
    assert "run pip install '.[plan]' in the folder of headtail" in process.stderr
    assert process.stderr.count("\n") == 1

    environment.pip("install", "--quiet", f"{wheel}[plan,worker]")
    assert "torch" not in environment.packages()
    plan = environment.run(
        "split-plan", tmp_path / "chain.onnx", "--device", "pi4", "--link", "20mbps",
        "-o", tmp_path / "planned", "--json",
    )  # fmt: skip
    assert plan.returncode == 0, plan.stderr
    assert open_bundle(tmp_path / "planned").plan == json.loads(plan.stdout)
    for command in ("split-profile", "cloud-worker"):
        assert environment.run(command, "--help").returncode == 0
    profile = environment.run("split-profile", tmp_path / "chain.onnx", "--runs", 3, "--json")
    assert json.loads(profile.stdout)["kind"] == "measured"
