"""What this machine is and how much of it this process may use.

Light: standard library and onnxruntime only. Every function takes the root of the file tree that
it reads, so that tests can lay out cgroups and boards they do not run on.
"""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol.command import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["available_threads", "cpu_quota", "describe_machine", "machine_notes", "thread_count"]

_ROOT = Path("/")
_STEADY_GOVERNOR = "performance"
_HOT_C = 75  # boards begin to lower their clock at about 80


def available_threads(root: Path = _ROOT) -> int:
    """Threads that can run at once: the affinity mask, cut down by a cgroup's processor quota.

    A quota of 1.5 processors gives 2 threads: a fraction of a processor still runs a thread.
    """
    allowed = _allowed_cores()
    quota = cpu_quota(root)
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def thread_count(text: str) -> int:
    """Read how many threads an argument asks for; a ``type=`` for argparse.

    More than there are cores make a run slower, and thousands end the process.
    """
    return whole_number(1, os.cpu_count() or 1, ", the cores of this machine")(text)


def cpu_quota(root: Path = _ROOT) -> float | None:
    """The smallest processor quota of this process's cgroup and its parents, in processors.

    Reads version 2 (``cpu.max``) and version 1 (``cpu.cfs_quota_us``); None where neither limits.
    """
    quotas = [quota for quota in _quotas(root) if quota is not None]
    return min(quotas, default=None)


def describe_machine(root: Path = _ROOT) -> dict[str, Any]:
    """Describe the machine for a profile; what cannot be read is None. No host name.

    Returns:
        ``cpu`` and ``board`` (model names), ``architecture``, ``cores`` (logical),
        ``available_threads``, ``memory_bytes``, ``governor`` (those of all cores, each once) and
        ``temperature_c``.
    """
    return {
        "cpu": _cpu_model(root),
        "board": _text(root / "proc/device-tree/model"),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "available_threads": available_threads(root),
        "memory_bytes": _memory_bytes(root),
        "governor": _governor(root),
        "temperature_c": _temperature_c(root),
    }


def machine_notes(machine: Mapping[str, Any]) -> tuple[str, ...]:
    """What in the state of a machine makes times measured on it doubtful, one sentence each.

    Args:
        machine: What :func:`describe_machine` said.
    """
    notes = []
    governor, temperature_c = machine["governor"], machine["temperature_c"]
    if governor not in (None, _STEADY_GOVERNOR):
        notes.append(
            f"The frequency governor is {governor}, not {_STEADY_GOVERNOR}: the clock follows the "
            "load, so that times vary and single frames are slower than these runs."
        )
    if temperature_c is not None and temperature_c >= _HOT_C:
        notes.append(
            f"The processor was at {temperature_c:.0f} degrees C after the runs ({_HOT_C} or more "
            "is hot): boards slow themselves down then; cool it and profile again."
        )
    return tuple(notes)


def _allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float | None]:
    control = root / "sys/fs/cgroup"
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            for mount in (control, control / "unified"):
                for folder in _with_parents(mount, group):
                    yield _quota_of_version_2(folder)
        elif "cpu" in controllers.split(","):
            for mount in {control / "cpu", control / controllers}:
                for folder in _with_parents(mount, group):
                    yield _quota_of_version_1(folder)


def _with_parents(mount: Path, group: str) -> Iterator[Path]:
    # Inside a container the group's path may be the host's and not exist below the mount, while
    # the mount itself is the container's group: so the mount always counts.
    folder = mount / group.lstrip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount


def _quota_of_version_2(folder: Path) -> float | None:
    fields = (_text(folder / "cpu.max") or "").split()
    if len(fields) != 2 or fields[0] == "max":
        return None
    return int(fields[0]) / int(fields[1])


def _quota_of_version_1(folder: Path) -> float | None:
    quota = _text(folder / "cpu.cfs_quota_us")
    period = _text(folder / "cpu.cfs_period_us")
    if quota is None or period is None or int(quota) <= 0:
        return None
    return int(quota) / int(period)


def _cpu_model(root: Path) -> str | None:
    fields = {}
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    return fields.get("model name") or fields.get("Hardware")


def _memory_bytes(root: Path) -> int | None:
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def _governor(root: Path) -> str | None:
    """The governors of all cores: those of a board with large and small ones may differ."""
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return ", ".join(sorted({text for text in map(_text, files) if text})) or None


def _temperature_c(root: Path) -> float | None:
    """The hottest thermal zone; a sensor that is switched off says nothing, or below zero."""
    texts = (_text(zone) for zone in (root / "sys/class/thermal").glob("thermal_zone*/temp"))
    return max((int(text) / 1000 for text in texts if text and text.isdecimal()), default=None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return None  # absent or not ours to read: the value is then unknown, never an error
