"""Errors of cutting, planning and bundles.

HeadtailError (protocol)
└── SplitterError
    ├── CutError (ValueError)         a cut that is not legal in this graph
    ├── ExtractionError (RuntimeError) a part that does not load, run or agree with the whole
    ├── PlanError (ValueError)        a plan that is broken or cannot be made
    └── BundleError (ValueError)      a folder that is no intact bundle
"""

from __future__ import annotations

from protocol.errors import HeadtailError


class SplitterError(HeadtailError):
    """Base of this package's errors."""


class CutError(SplitterError, ValueError):
    """A cut that is not legal in this graph."""


class ExtractionError(SplitterError, RuntimeError):
    """A part that does not load, does not run, or disagrees with the whole model."""


class PlanError(SplitterError, ValueError):
    """A plan that is broken or cannot be made."""


class BundleError(SplitterError, ValueError):
    """A folder that is no intact bundle."""
