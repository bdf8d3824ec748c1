"""Entry point of ``python -m protocol.emulator``."""

from __future__ import annotations

import sys

from protocol.emulator.cli import main

sys.exit(main())
