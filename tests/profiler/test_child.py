"""A child process ends with its parent and in its time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import os, signal, sys
from profiler.child import end_with
end_with(os.getppid())
print(os.getpid(), flush=True)
signal.pause()
"""
PARENT = f"""
import signal, subprocess, sys
subprocess.Popen([sys.executable, "-c", {CHILD!r}])
signal.pause()
"""


def test_a_child_goes_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) != parent.pid
        parent.kill()
        # The pipe ends when the last process that writes into it is gone.
        assert parent.stdout.read() == ""


def test_a_child_whose_parent_has_gone_already_ends() -> None:
    code = "from profiler.child import end_with; end_with(1 << 30); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_a_block_that_takes_too_long_ends_the_process() -> None:
    code = (
        "import threading; from profiler.child import ending_after\n"
        "with ending_after(0.01, 'too slow'): threading.Event().wait()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "too slow\n")


def test_a_block_in_time_goes_on() -> None:
    code = (
        "from profiler.child import ending_after\n"
        "with ending_after(60, 'too slow'): pass\n"
        "print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
