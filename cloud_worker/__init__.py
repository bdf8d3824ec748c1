"""Runs tails: serves any cut of any model in a folder to device agents.

Light, as long as only bundles are served; bare models and cuts of them need onnx.
"""

from __future__ import annotations

import protocol._start  # noqa: F401 (before all else)
from cloud_worker._repository import (
    FolderContent,
    ModelEntry,
    ModelIndex,
    ModelRepository,
    read_folder,
)
from cloud_worker._server import Worker
from cloud_worker._settings import WorkerSettings
from cloud_worker._tails import TailLoader, TailSource
from cloud_worker._work import TailKey
from cloud_worker.errors import IllegalCutError, LoadError, RepositoryError, WorkerError

__all__ = [
    "FolderContent",
    "IllegalCutError",
    "LoadError",
    "ModelEntry",
    "ModelIndex",
    "ModelRepository",
    "RepositoryError",
    "TailKey",
    "TailLoader",
    "TailSource",
    "Worker",
    "WorkerError",
    "WorkerSettings",
    "read_folder",
]
