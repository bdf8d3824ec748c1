"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real networks and data beside the checkout; a user's clone has none."""
    if not (SHARED / "models" / "manifest.json").is_file():
        pytest.skip("needs ../shared (real networks), which this checkout does not have")
    return SHARED
