"""Nobody is told what our users run: ONNX Runtime's reports are off in every command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_onnx_runtime_leaves_no_reports(tmp_path: Path) -> None:
    script = (
        "from profiler.engine import EngineOptions, OnnxRuntimeEngine\n"
        "import profiler.graph.trial\n"
        "OnnxRuntimeEngine(EngineOptions(threads=1))\n"
    )
    variables = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    variables |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, env=variables)
    assert not list(tmp_path.rglob("*onnxruntime*"))
