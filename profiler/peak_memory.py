"""What loading and running a model adds to a process: ``python -m profiler.peak_memory``.

Measured in a process of its own, since memory that a process once held may never leave it. Light:
standard library, numpy and :mod:`profiler.engine` only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from profiler.child import end_with
from profiler.engine import EngineOptions, OnnxRuntimeEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["measure_peak_memory"]

_RUNS = 3
_ROOT = Path(__file__).resolve().parents[1]
_STATUS = Path("/proc/self/status")
_CLEAR_REFERENCES = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): resets the peak resident set size


def measure_peak_memory(
    model: Path, feeds: Mapping[str, NDArray[Any]], options: EngineOptions
) -> int | None:
    """Return the bytes that loading a model and running it a few times adds to a process at most.

    Returns:
        None where the system does not tell (it has no ``/proc``) or the process did not survive.
    """
    if not _STATUS.exists():
        return None
    with tempfile.TemporaryDirectory(prefix="headtail-") as folder:
        path = Path(folder) / "feeds.npz"
        # By position: a tensor's name may hold what a zip entry may not.
        np.savez(path, *feeds.values())
        command = [sys.executable, "-m", "profiler.peak_memory", str(model.resolve()), str(path)]
        command += [options.provider, str(options.threads), str(int(options.arena)), *feeds]
        process = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    return int(process.stdout) if process.returncode == 0 else None


def main(model: Path, feeds_file: Path, options: EngineOptions, names: list[str]) -> int:
    """Load and run the model; return the peak resident size minus that before, in bytes."""
    with np.load(feeds_file, allow_pickle=False) as archive:
        feeds = {name: archive[f"arr_{index}"] for index, name in enumerate(names)}
    with contextlib.suppress(OSError):  # a hardened kernel; the peak of start-up then counts
        _CLEAR_REFERENCES.write_text(_RESET_PEAK)
    before = _status_bytes("VmRSS")
    session = OnnxRuntimeEngine(options).load(model)
    for _ in range(_RUNS):
        session.run(feeds)
    return max(0, _status_bytes("VmHWM") - before)


def _status_bytes(key: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {key} in {_STATUS}")


if __name__ == "__main__":
    end_with(os.getppid())
    _, _model, _feeds, _provider, _threads, _arena, *_names = sys.argv
    _options = EngineOptions(int(_threads), _provider, arena=_arena == "1")
    sys.stdout.write(str(main(Path(_model), Path(_feeds), _options, _names)))
