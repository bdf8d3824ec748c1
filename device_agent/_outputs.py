"""Saves the outputs of frames, for ``--outputs``: one ``.npz`` file a frame.

Light: standard library and numpy only.
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import numpy as np

from device_agent.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from device_agent.answers import Answer

SLASH = "__slash__"  # a slash would be a folder inside the file


class OutputFolder:
    """A folder with one file a frame, ``frame-000000.npz`` and so on.

    Each holds the outputs under their names, ``__slash__`` standing for a slash, as a source's
    ``.npz`` does. Whoever finds a file finds all of it.

    Args:
        folder: Made if it is not there; files of earlier runs are replaced one by one.

    Raises:
        OptionError: The folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"cannot make --outputs {folder}: {error.strerror}") from error

    def save(self, answer: Answer) -> None:
        """Save a frame's outputs.

        Raises:
            OptionError: The file cannot be written.
        """
        path = self._folder / f"frame-{answer.frame:06d}.npz"
        unfinished = path.with_suffix(".part")
        try:
            _write(unfinished, answer)
            unfinished.replace(path)
        except OSError as error:
            raise OptionError(f"cannot write {path}: {error.strerror}") from error
        finally:
            unfinished.unlink(missing_ok=True)


def _write(path: Path, answer: Answer) -> None:
    # numpy.savez would take outputs named "file" or "allow_pickle" for its own arguments.
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in answer.outputs.items():
            # The runtime gives texts as objects, which only pickle could store.
            plain = array.astype(np.str_) if array.dtype.kind == "O" else array
            member = zipfile.ZipInfo(f"{name.replace('/', SLASH)}.npy")
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, plain, allow_pickle=False)
