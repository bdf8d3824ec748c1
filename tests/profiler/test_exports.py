"""The package's public names are a promise: complete, sorted, and light where it matters."""

from __future__ import annotations

import subprocess
import sys

import pytest

import profiler


def test_exports_are_sorted_and_load() -> None:
    assert list(profiler.__all__) == sorted(profiler.__all__)
    for name in profiler.__all__:
        assert getattr(profiler, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Profit'"):
        profiler.Profit  # noqa: B018


@pytest.mark.parametrize("name", ["ProfilerError", "Engine", "available_threads", "TensorSlot"])
def test_light_names_need_no_heavy_package(name: str) -> None:
    script = (
        "import sys\n"
        "for heavy in ('onnx', 'scipy', 'torch', 'yaml'): sys.modules[heavy] = None\n"
        f"from profiler import {name}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
