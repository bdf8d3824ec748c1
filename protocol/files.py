"""Files that users name: read those that have an end, up to a size, and write them whole.

A pipe, a socket or a device such as /dev/zero would keep a command waiting or filling memory for
ever. What is wrong comes as an OSError whose ``strerror`` says it, as all other troubles of files.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

__all__ = ["open_file", "read_file", "replace_file"]

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    # Looked at before it is opened: opening a named pipe waits for a writer.
    kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    if kind is not None:
        number = errno.EISDIR if kind == "a folder" else errno.EINVAL
        raise OSError(number, f"it is {kind}, not a file", os.fspath(path))
    return path.open("rb")


def read_file(path: Path, limit_bytes: int) -> bytes:
    """Return what is in a regular file.

    Raises:
        OSError: It cannot be read, is no regular file, or holds more than the limit.
    """
    with open_file(path) as stream:
        # Memory is taken for as much as is asked for, so ask for what is there; but files of /proc
        # say that they are empty.
        size_bytes = os.fstat(stream.fileno()).st_size or limit_bytes
        data = b"" if size_bytes > limit_bytes else stream.read(size_bytes + 1)
    if max(size_bytes, len(data)) > limit_bytes:
        text = f"it holds more than {limit_bytes:,} bytes, the limit"
        raise OSError(errno.EINVAL, text, os.fspath(path))
    return data


def replace_file(path: Path, text: str) -> None:
    """Write a file, replacing the one that is there only once the new one is complete.

    Raises:
        OSError: It cannot be written; nothing of it is left then.
    """
    draft = path.with_name(f".headtail-{os.getpid()}")  # a long name would have no room for more
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
