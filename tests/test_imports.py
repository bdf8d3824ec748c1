"""Rules that hold for the whole repository: who imports whom, and what is never used."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Each package may import those before it, and itself.
BELOW = {
    "protocol": (),
    "profiler": ("protocol",),
    "splitter": ("protocol", "profiler"),
    "device_agent": ("protocol", "profiler", "splitter"),
    "cloud_worker": ("protocol", "profiler", "splitter"),
}
OURS = {*BELOW, "demos", "tests"}

# A board has none of these.
HEAVY = ("onnx", "scipy", "torch", "yaml", "PIL")
LIGHT = (
    "protocol/**/*.py",
    "profiler/arena.py",
    "profiler/arrays.py",
    "profiler/child.py",
    "profiler/chrome_trace.py",
    "profiler/energy.py",
    "profiler/engine.py",
    "profiler/engines.py",
    "profiler/errors.py",
    "profiler/configs.py",
    "profiler/links/__init__.py",
    "profiler/links/estimate.py",
    "profiler/links/link.py",
    "profiler/links/probe.py",
    "profiler/links/traced.py",
    "profiler/links/transfer_times.py",
    "profiler/graph/runtime.py",
    "profiler/liveness.py",
    "profiler/machine.py",
    "profiler/memory.py",
    "profiler/power_measurement.py",
    "profiler/power_meters.py",
    "profiler/providers.py",
    "profiler/values.py",
    "splitter/errors.py",
    "splitter/bundle.py",
    "device_agent/**/*.py",
)

IMPORT_ALL = """
import importlib, importlib.abc, json, sys, warnings

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy}:
            raise ModuleNotFoundError("a board has no " + name, name=name)

warnings.simplefilter("error")
sys.meta_path.insert(0, Absent())
failures = {{}}
for name in {names}:
    try:
        importlib.import_module(name)
    except Exception as error:
        failures[name] = repr(error)
print(json.dumps(failures))
"""


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files_of(*patterns):
    return sorted(
        path for pattern in patterns for path in ROOT.glob(pattern) if path.name != "__main__.py"
    )


LIGHT_MODULES = [module_name(path) for path in files_of(*LIGHT)]
SOURCES = sorted(path for package in OURS for path in (ROOT / package).rglob("*.py"))


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported_packages(path):
    """The packages at the top of everything a file imports, wherever in the file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield path.relative_to(ROOT).parts[0] if node.level else node.module.partition(".")[0]


@pytest.mark.parametrize("package", BELOW)
def test_imports_point_down_only(package):
    allowed = {package, *BELOW[package]}
    wrong = {
        (path.relative_to(ROOT).as_posix(), imported)
        for path in (ROOT / package).rglob("*.py")
        for imported in imported_packages(path)
        if imported in OURS - allowed
    }
    assert not wrong


def test_nothing_imports_tests_except_tests():
    wrong = [
        path for path in (ROOT / "demos").rglob("*.py") if "tests" in set(imported_packages(path))
    ]
    assert not wrong


@pytest.fixture(scope="module")
def failures_on_a_board():
    code = IMPORT_ALL.format(heavy=HEAVY, names=LIGHT_MODULES)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return json.loads(done.stdout)


def test_all_light_modules_exist():
    assert {name.partition(".")[0] for name in LIGHT_MODULES} == {
        "protocol",
        "profiler",
        "splitter",
        "device_agent",
    }
    for pattern in LIGHT:
        assert files_of(pattern), pattern


@pytest.mark.parametrize("name", LIGHT_MODULES)
def test_light_modules_import_where_heavy_packages_are_absent(name, failures_on_a_board):
    assert name not in failures_on_a_board, failures_on_a_board[name]


def test_the_board_is_really_without_heavy_packages():
    """The test above would pass for nothing if the packages were not blocked."""
    code = IMPORT_ALL.format(heavy=HEAVY, names=[*HEAVY, "PIL.Image", "numpy"])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert set(json.loads(done.stdout)) == {*HEAVY, "PIL.Image"}


PICKLERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
PICKLING_CALLS = {"recv_pyobj", "send_pyobj", "recv_serialized", "send_serialized"}


def pickling(path):
    """Where a file would load objects that can run code."""
    yield from PICKLERS & set(imported_packages(path))
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute):
            if node.attr in PICKLING_CALLS:
                yield node.attr
            if ast.unparse(node) == "torch.load":
                yield "torch.load"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield from [] if ast.unparse(node.value) == "False" else ["allow_pickle"]


@pytest.mark.parametrize("package", [*BELOW, "demos"])
def test_nothing_is_pickled(package):
    """Tests may pickle: to make the hostile file that the product must refuse."""
    wrong = {
        path.relative_to(ROOT).as_posix(): found
        for path in (ROOT / package).rglob("*.py")
        if (found := sorted(set(pickling(path))))
    }
    assert not wrong


TORCH_FOLDER = ROOT / "profiler" / "torch_engine"
TORCH_EXPORT = ROOT / "splitter" / "torch_export.py"  # once there is a module to be exported


def test_only_the_torch_engine_imports_torch():
    """An extra: all else must run where it is not installed."""
    wrong = [
        path.relative_to(ROOT).as_posix()
        for package in BELOW
        for path in (ROOT / package).rglob("*.py")
        if "torch" in set(imported_packages(path)) and TORCH_FOLDER not in path.parents
    ]
    assert wrong == [TORCH_EXPORT.relative_to(ROOT).as_posix()]
    at_the_top = [node for node in tree_of(TORCH_EXPORT).body if isinstance(node, ast.Import)]
    assert "torch" not in {alias.name for node in at_the_top for alias in node.names}


def test_every_module_defers_annotations():
    """Python 3.10 reads them all the same way then."""
    without = [
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] in BELOW
        and len(tree_of(path).body) > 1
        and "from __future__ import annotations" not in path.read_text(encoding="utf-8")
    ]
    assert not without
