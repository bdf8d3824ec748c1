"""Errors of the worker.

HeadtailError (protocol)
└── WorkerError
    ├── RepositoryError (LookupError)    a folder of models that cannot be served
    ├── IllegalCutError (ValueError)     a frontier at which this model cannot be cut
    └── LoadError (RuntimeError)         a tail that cannot be made or loaded
"""

from __future__ import annotations

from protocol.errors import HeadtailError


class WorkerError(HeadtailError):
    """Base of this package's errors."""


class RepositoryError(WorkerError, LookupError):
    """The folder of models is missing, or holds nothing that can be served."""


class IllegalCutError(WorkerError, ValueError):
    """A model cannot be cut at these tensors."""


class LoadError(WorkerError, RuntimeError):
    """A tail cannot be made or loaded, though its cut may be legal."""
