"""A worker cuts models with what its extra brings: onnx, but no scipy and no yaml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.zoo import resnet_toy

ROOT = Path(__file__).resolve().parents[2]


def test_any_cut_is_served_without_scipy(tmp_path: Path) -> None:
    (tmp_path / "toy.onnx").write_bytes(resnet_toy().proto.SerializeToString())
    script = f"""
import sys
for name in ("scipy", "yaml", "torch"):
    sys.modules[name] = None
from pathlib import Path
from cloud_worker import TailKey, TailLoader, read_folder
from profiler.engine import EngineOptions, OnnxRuntimeEngine
models = read_folder(Path({str(tmp_path)!r})).models
(entry,) = models.entries()
tails = TailLoader(models, OnnxRuntimeEngine(EngineOptions(threads=1)))
session = tails.load(TailKey(entry.sha256, ("e",), ("y",)))
print([slot.name for slot in session.inputs], [slot.name for slot in session.outputs])
tails.close()
"""
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert process.stdout == "['e'] ['y']\n", process.stderr
