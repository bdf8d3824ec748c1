"""What to do where an optional package is missing: one hint for all commands. Light."""

from __future__ import annotations

__all__ = ["install_hint"]


def install_hint(extra: str) -> str:
    """Return how to install what an extra brings; there is no headtail in a package index yet."""
    return f"run pip install '.[{extra}]' in the folder of headtail"
