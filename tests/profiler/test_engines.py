"""Engines by their names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from profiler.engine import OnnxRuntimeEngine
from profiler.engines import make_engine
from profiler.errors import EngineError


def test_onnx_runtime_is_made_with_its_provider() -> None:
    engine = make_engine("onnxruntime", 2, "cpu", arena=False)
    assert isinstance(engine, OnnxRuntimeEngine)
    assert (engine.options.threads, engine.options.arena) == (2, False)
    assert engine.options.provider == "CPUExecutionProvider"


def test_an_unknown_engine() -> None:
    with pytest.raises(EngineError, match=r"no engine 'torhc' \(did you mean 'torch'\?\)"):
        make_engine("torhc", 1)


NO_TORCH = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Absent())
from profiler.engines import make_engine
from profiler.errors import EngineError
from profiler.graph.model import load_model
from profiler.graph.weights import store_model
try:
    make_engine("torch", 1, "cpu")
except EngineError as error:
    print(error)
"""


def test_without_torch_the_engine_says_what_to_install() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH], capture_output=True, text=True, cwd=root, check=True
    )
    assert done.stdout == (
        "the torch engine needs PyTorch, which is not installed: "
        "run pip install '.[torch]' in the folder of headtail\n"
    )
