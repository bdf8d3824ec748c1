"""The package's public names are a promise: complete, sorted, and light."""

from __future__ import annotations

import subprocess
import sys

import device_agent
import device_agent.testing


def test_exports_are_sorted_and_load() -> None:
    for module in (device_agent, device_agent.testing):
        assert list(module.__all__) == sorted(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_importing_it_needs_no_heavy_package_and_no_pillow() -> None:
    script = (
        "import sys\n"
        "for heavy in ('onnx', 'scipy', 'torch', 'yaml', 'PIL'): sys.modules[heavy] = None\n"
        "import device_agent, device_agent.cli, device_agent.testing\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
