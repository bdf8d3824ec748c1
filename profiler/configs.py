"""Where the project's ``configs/`` lie: a wheel carries them inside this package. Light."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CONFIGS"]

_PACKAGE = Path(__file__).resolve().parent
CONFIGS = next(
    folder for folder in (_PACKAGE / "_configs", _PACKAGE.parent / "configs") if folder.is_dir()
)
