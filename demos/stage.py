"""The processes of the demo: plan, worker and device."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from protocol.text import one_line

ROOT = Path(__file__).parents[1]
# One thread each: device, link and worker share two cores. And a pool that has slept may wake up
# with both its threads on one core, so that the time of a run changes by a factor of two.
THREADS = 1
_STOP_S = 10


class DemoError(RuntimeError):
    """A process of the demo did not do its part; what it printed says why."""


def make_plan(
    model: Path, feed: Path, device: Path, cloud: Path, link: str, bundle: Path
) -> dict[str, Any]:
    """Plan and write a bundle with ``split-plan``; returns the plan's JSON."""
    sides = ["--device", str(device), "--cloud", str(cloud), "--link", link]
    files = ["--feed", str(feed), "-o", str(bundle)]
    plan: dict[str, Any] = json.loads(
        _run("splitter.command", [str(model), *sides, *files, "--json"])
    )
    return plan


@contextmanager
def running_worker(models: Path) -> Iterator[str]:
    """Start ``cloud-worker`` on a free port and give its address; its log is kept out of sight."""
    arguments = ["--models", str(models), "--bind", "tcp://127.0.0.1:0", "--threads", str(THREADS)]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            _command("cloud_worker.cli", arguments),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None  # noqa: S101 - for the type checker
            ready = process.stdout.readline()
            if not ready:
                log.seek(0)
                raise DemoError(f"the cloud worker did not start: {one_line(log.read(), 500)}")
            yield ready.split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def run_device(
    bundle: Path, cut: str, factor: float, photos: Path, count: int, worker: str
) -> Iterator[dict[str, Any]]:
    """Run the emulated device on photos and yield its answers as they come."""
    arguments = [str(bundle), "--cut", cut, "--factor", str(factor), "--photos", str(photos)]
    arguments += ["--threads", str(THREADS), "--count", str(count), "--worker", worker]
    with subprocess.Popen(
        _command("demos.device", arguments), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        yield from map(json.loads, process.stdout)
    if process.returncode != 0:
        raise DemoError(f"the device's process ended with exit code {process.returncode}")


def _run(module: str, arguments: Sequence[str]) -> str:
    done = subprocess.run(
        _command(module, arguments), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise DemoError(f"{module} ended with exit code {done.returncode}")
    return done.stdout


def _command(module: str, arguments: Sequence[str]) -> list[str]:
    """The command of a package as the interpreter starts it, installed or not."""
    return [
        sys.executable,
        "-c",
        f"from {module} import main; raise SystemExit(main())",
        *arguments,
    ]
