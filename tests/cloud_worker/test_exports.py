"""What the package offers, and what it may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cloud_worker
import cloud_worker.testing
from cloud_worker import WorkerError, WorkerSettings, errors

PACKAGE = Path(cloud_worker.__file__).parent


@pytest.mark.parametrize("module", [cloud_worker, cloud_worker.testing])
def test_exports_are_sorted_and_there(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]
    assert names == sorted(names)
    for name in names:
        assert hasattr(module, name)


def test_imports_point_down() -> None:
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] not in {"device_agent", "demos", "tests"}, path


def test_package_imports_without_heavy_libraries() -> None:
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('onnx', 'scipy', 'torch', 'yaml', 'PIL')))\n"
        "import cloud_worker, cloud_worker.cli, cloud_worker.testing\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent, timeout=60)


def test_every_error_is_a_worker_error() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    own = [kind for kind in kinds if kind.__module__ == errors.__name__]
    assert own
    assert all(issubclass(kind, WorkerError) for kind in own)
    for kind in own:
        assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize(
    "settings",
    [
        {"credit_bytes": 0},
        {"queue_requests": -1},
        {"sessions": 1 << 40},
        {"name": ""},
        {"name": "x" * 65},
    ],
)
def test_settings_are_validated(settings: dict[str, object]) -> None:
    [key] = settings
    with pytest.raises(WorkerError, match="name" if key == "name" else key):
        WorkerSettings(**settings)  # type: ignore[arg-type]
