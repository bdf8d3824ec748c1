"""``python -m profiler.fitting``."""

from __future__ import annotations

from profiler.fitting.cli import main

raise SystemExit(main())
