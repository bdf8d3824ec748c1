"""A plan as one HTML page that needs nothing else: no network, no scripts, no fonts, no images."""

from __future__ import annotations

from splitter.page.page import plan_page

__all__ = ["plan_page"]
