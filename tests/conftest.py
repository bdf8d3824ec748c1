"""Fixtures that every test may use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

# A shell starts background jobs with Ctrl-C ignored, and their children inherit it: tests that
# interrupt a process of ours would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real networks and data beside the checkout; a user's clone has none."""
    if not (SHARED / "models" / "manifest.json").is_file():
        pytest.skip("needs ../shared (real networks), which this checkout does not have")
    return SHARED
