"""Where a bundle is built: a folder beside its target, removed unless it was moved into place."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from splitter.bundle import MANIFEST_FILE, is_bundle
from splitter.errors import BundleError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextlib.contextmanager
def bundle_workspace(target: Path) -> Iterator[Path]:
    """Give a folder beside the target to build in.

    Nothing is left of it, or of the parents that were made for it, unless the bundle was moved into
    its place.

    Raises:
        BundleError: The target cannot be the name of a bundle, is something else than a bundle, or
            cannot be written beside.
    """
    try:
        place = _place(target)
        missing = [folder for folder in place.parents if not folder.exists()]  # deepest first
    except OSError as error:
        raise BundleError(f"cannot write {_shown(target)}: {error.strerror}") from None
    folder = None
    try:
        folder = _new_folder(place, target)
        yield folder
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise BundleError(f"cannot write {_shown(target)}: {error.strerror}") from None
        raise
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        for parent in missing:
            with contextlib.suppress(OSError):  # it was not made, or the bundle is in it
                parent.rmdir()


def _place(target: Path) -> Path:
    """Where the bundle will lie: the target with links followed, checked."""
    if os.fspath(target).encode(errors="replace") != os.fsencode(target):
        raise BundleError(
            f"the name {_shown(target)} is no UTF-8 text, and ONNX Runtime opens no other files"
        )
    try:
        place = target.resolve()
    except RuntimeError:  # Python before 3.13
        raise BundleError(f"{_shown(target)} is a link that leads to itself") from None
    here = Path.cwd()
    # It would be exchanged for another folder under the feet of whoever works in it.
    if place == here or place in here.parents:
        raise BundleError(f"{_shown(target)} holds the working folder; name a new folder")
    try:
        place.lstat()
    except FileNotFoundError:
        return place
    if not (place.is_dir() and (is_bundle(place) or _is_empty(place))):
        raise BundleError(f"{_shown(target)} exists and is no bundle; name another folder")
    if foreign := _foreign_files(place):
        raise BundleError(
            f"{_shown(target)} holds {foreign[0]!r}, which is no part of a bundle; move it"
        )
    return place


def _new_folder(place: Path, target: Path) -> Path:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # A prefix of its own: a long name of the target would leave no room for more.
        folder = Path(tempfile.mkdtemp(prefix=".headtail-", dir=place.parent))
        folder.chmod(0o755)
    except OSError as error:
        raise BundleError(f"cannot write beside {_shown(target)}: {error.strerror}") from None
    return folder


def _shown(target: Path) -> str:
    """A name that fits into a message."""
    text = os.fsencode(target).decode(errors="backslashreplace")
    return text if len(text) <= 200 else f"{text[:200]}..."


def _foreign_files(place: Path) -> list[str]:
    """What lies in an old bundle's folder without being part of it, and would be lost with it."""
    if not is_bundle(place):
        return []
    try:
        known = {MANIFEST_FILE, *json.loads((place / MANIFEST_FILE).read_bytes())["files"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise BundleError(f"{_shown(place)} is a damaged bundle; remove it first") from None
    return sorted(path.name for path in place.iterdir() if path.name not in known)


def _is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


def sync(folder: Path) -> None:
    """A rename may reach the disk before what was written into the files: force them first."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def move_into_place(folder: Path, target: Path) -> None:
    """Rename, or exchange with the old bundle, which the workspace then removes."""
    target = target.resolve()  # a link such as "current" keeps pointing where it points
    try:
        if target.exists():
            _replace(folder, target)
        else:
            folder.rename(target)
    except OSError as error:
        raise BundleError(f"cannot put the bundle at {target}: {error.strerror}") from None


def _replace(folder: Path, target: Path) -> None:
    try:
        _exchange(folder, target)
    except (AttributeError, OSError):  # an old C library, or a file system that cannot exchange
        old = folder.with_name(f"{folder.name}-old")
        target.rename(old)
        folder.rename(target)
        shutil.rmtree(old)


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def _exchange(first: Path, second: Path) -> None:
    """Swap two folders in one step, so that whoever opens the target finds the old or the new."""
    rename = ctypes.CDLL(
        None, use_errno=True
    ).renameat2  # in glibc from 2.28 on, in musl from 1.2.4
    code = rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
