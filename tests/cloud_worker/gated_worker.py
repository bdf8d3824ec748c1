"""A worker process whose models wait for a line on standard input before they run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import cloud_worker.cli
import profiler.engines
from profiler.engine import OnnxRuntimeEngine, OnnxRuntimeSession

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from profiler.engine import RunStop


class GatedSession(OnnxRuntimeSession):
    """Says ``running``, then waits for a line."""

    def run(self, feeds: Mapping[str, Any], stop: RunStop | None = None) -> dict[str, Any]:
        print("running", flush=True)
        sys.stdin.readline()
        return super().run(feeds, stop)


class GatedEngine(OnnxRuntimeEngine):
    """Loads gated sessions."""

    def load(self, path: Path) -> OnnxRuntimeSession:
        session = super().load(path)
        session.__class__ = GatedSession
        return session


if __name__ == "__main__":
    profiler.engines.OnnxRuntimeEngine = GatedEngine  # type: ignore[misc]
    sys.exit(cloud_worker.cli.main())
