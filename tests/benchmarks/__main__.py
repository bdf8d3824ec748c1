"""Run every benchmark, or those named: ``python -m tests.benchmarks [NAME ...]``."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from pathlib import Path

from profiler.machine import available_threads, describe_machine


def main(names: list[str]) -> None:
    known = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    chosen = [f"bench_{name.removeprefix('bench_')}" for name in names] or known
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise SystemExit(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}")
    machine = describe_machine().get("cpu", platform.machine())
    print(f"machine: {machine}, {available_threads()} threads, Python {platform.python_version()}")
    for name in chosen:
        module = import_module(f"tests.benchmarks.{name}")
        print(f"\n== {name}\n{(module.__doc__ or '').strip()}\n", flush=True)
        module.run()


if __name__ == "__main__":
    main(sys.argv[1:])
