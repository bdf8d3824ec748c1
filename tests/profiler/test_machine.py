"""How much of the machine this process may use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

import pytest

from profiler.machine import (
    available_threads,
    cpu_quota,
    describe_machine,
    machine_notes,
    thread_count,
)

if TYPE_CHECKING:
    from pathlib import Path

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_threads_are_bounded_by_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert [thread_count(text) for text in ("1", "8")] == [1, 8]
    for text in ("0", "9", "3000", "-1", "two"):
        with pytest.raises(ArgumentTypeError, match="from 1 to 8, the cores of this machine"):
            thread_count(text)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/app\n", "sys/fs/cgroup/app/cpu.max": "50000 100000\n"}, 0.5),
        # The parent's limit holds for the child.
        (
            {
                "proc/self/cgroup": "0::/pod/app\n",
                "sys/fs/cgroup/pod/cpu.max": "100000 100000\n",
                "sys/fs/cgroup/pod/app/cpu.max": "300000 100000\n",
            },
            1.0,
        ),
        # In a container the group's path may be the host's, and the mount is the group.
        (
            {
                "proc/self/cgroup": "0::/docker/4f2a\n",
                "sys/fs/cgroup/cpu.max": "200000 100000\n",
            },
            2.0,
        ),
        # Both versions mounted, the processors under version 1.
        (
            {
                "proc/self/cgroup": "9:cpu,cpuacct:/board\n0::/\n",
                "sys/fs/cgroup/cpu,cpuacct/board/cpu.cfs_quota_us": "25000\n",
                "sys/fs/cgroup/cpu,cpuacct/board/cpu.cfs_period_us": "100000\n",
            },
            0.25,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        (
            {
                "proc/self/cgroup": "5:cpuset:/\n0::/app\n",
                "sys/fs/cgroup/unified/app/cpu.max": "100000 50000\n",
            },
            2.0,
        ),
    ],
)
def test_quota(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    assert cpu_quota(lay_out(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("quota_us", "threads"),
    [(1_000, 1), (100_000, 1), (150_000, min(2, CORES)), (100_000_000, CORES)],
)
def test_threads_are_the_quota_rounded_up_within_the_affinity(
    tmp_path: Path, quota_us: int, threads: int
) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota_us} 100000\n"}
    assert available_threads(lay_out(tmp_path, files)) == threads


@pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset")
def test_threads_follow_taskset() -> None:
    """The runtime's own default would count the host's cores (onnxruntime#8313)."""
    core = str(min(os.sched_getaffinity(0)))
    script = "from profiler.machine import available_threads; print(available_threads())"
    command = ["taskset", "--cpu-list", core, sys.executable, "-c", script]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output.strip() == "1"


def test_describes_a_board(tmp_path: Path) -> None:
    root = lay_out(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 108.00\nHardware\t: BCM2835\n",
            "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
            "proc/meminfo": "MemTotal:        3884420 kB\nMemFree: 1 kB\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
            "sys/class/thermal/thermal_zone0/temp": "48312\n",
            "sys/class/thermal/thermal_zone1/temp": "51000\n",
        },
    )
    machine = describe_machine(root)
    assert machine["cpu"] == "BCM2835"
    assert machine["board"] == "Raspberry Pi 4 Model B Rev 1.4"
    assert machine["memory_bytes"] == 3884420 * 1024
    assert machine["governor"] == "ondemand"
    assert machine["temperature_c"] == 51.0
    assert machine["available_threads"] == CORES


def test_governors_of_all_cores_are_listed_once(tmp_path: Path) -> None:
    names = {0: "schedutil", 1: "schedutil", 10: "performance"}
    files = {
        f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor": f"{name}\n"
        for core, name in names.items()
    }
    assert describe_machine(lay_out(tmp_path, files))["governor"] == "performance, schedutil"


def test_sensors_that_are_off_say_nothing(tmp_path: Path) -> None:
    texts = {0: "-274000\n", 1: "\n", 2: "N/A\n"}
    files = {f"sys/class/thermal/thermal_zone{zone}/temp": text for zone, text in texts.items()}
    root = lay_out(tmp_path, files)
    assert describe_machine(root)["temperature_c"] is None
    lay_out(root, {"sys/class/thermal/thermal_zone3/temp": "40500\n"})
    assert describe_machine(root)["temperature_c"] == 40.5


@pytest.mark.parametrize(
    ("governor", "temperature_c", "words"),
    [
        (None, None, []),
        ("performance", 74.9, []),
        ("ondemand", None, ["governor is ondemand, not performance"]),
        ("performance, powersave", 20.0, ["governor is performance, powersave"]),
        ("performance", 75.0, ["75 degrees C"]),
        ("schedutil", 91.2, ["schedutil", "91 degrees C"]),
    ],
)
def test_a_machine_in_a_doubtful_state_is_noted(
    governor: str | None, temperature_c: float | None, words: list[str]
) -> None:
    notes = machine_notes({"governor": governor, "temperature_c": temperature_c})
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True))


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    machine = describe_machine(tmp_path)
    unknown = ("cpu", "board", "memory_bytes", "governor", "temperature_c")
    assert [machine[key] for key in unknown] == [None] * 5


def test_no_host_name_in_the_description() -> None:
    assert os.uname().nodename not in describe_machine().values()
