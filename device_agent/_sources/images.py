"""Frames from pictures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from device_agent._sources.frames import Frame
from device_agent.errors import SourceError
from protocol import PICTURE_KINDS, ImageError, require_pillow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from profiler.values import TensorSlot
    from protocol import Clock, ImagePreprocess

PICTURE_SUFFIXES = tuple(suffix for kind in PICTURE_KINDS.values() for suffix in kind)


class ImageSource:
    """Frames from a picture, or from those of a folder in the order of their names.

    A picture that cannot be read is named once and skipped.

    Args:
        path: The picture, or the folder; folders inside it are not looked at.
        slot: The model's one input.
        preprocess: How it is made from a picture.
        count: How many frames to give, from the start again if need be; None for each once.
        clock: Times the preprocessing.
        notice: Told, in a line, about each picture that is skipped.

    Attributes:
        skipped: Pictures that could not be read so far.

    Raises:
        SourceError: Pillow is missing, the folder cannot be read, or has no pictures; while
            iterating: none of them can be read.
    """

    def __init__(
        self,
        path: Path,
        slot: TensorSlot,
        preprocess: ImagePreprocess,
        count: int | None,
        clock: Clock,
        notice: Callable[[str], None],
    ) -> None:
        require_pillow(SourceError)  # once, not for each picture
        self._paths = _pictures(path) if path.is_dir() else [path]
        self._path = path
        self._slot = slot
        self._preprocess = preprocess
        self._clock = clock
        self._notice = notice
        self.length = len(self._paths) if count is None else count
        self._rounds = count is not None
        self.skipped = 0

    def __iter__(self) -> Iterator[Frame]:
        """Give the frames in order."""
        paths = list(self._paths)
        given = 0
        while paths:
            readable = []
            for path in paths:
                if given == self.length:
                    return
                frame = self._frame(path)
                if frame is not None:
                    readable.append(path)
                    given += 1
                    yield frame
            if not readable:
                raise SourceError(
                    f"source {self._path}: none of its pictures can be read ({len(paths)} tried)"
                )
            if not self._rounds:
                return
            paths = readable

    def _frame(self, path: Path) -> Frame | None:
        started_s = self._clock.monotonic()
        try:
            pixels = self._preprocess.pixels(path)
        except ImageError as error:
            self.skipped += 1
            self._notice(f"{error}; skipped")
            return None
        feeds = {self._slot.name: self._preprocess.normalise(pixels)}
        spent_ms = (self._clock.monotonic() - started_s) * 1000
        return Frame(feeds, path.name, pixels, spent_ms)


def _pictures(folder: Path) -> list[Path]:
    try:
        pictures = sorted(
            path
            for path in folder.iterdir()
            if path.suffix.lower() in PICTURE_SUFFIXES and not path.is_dir()
        )
    except OSError as error:
        raise SourceError(
            f"cannot read the folder {folder}: {os.strerror(error.errno or 0)}"
        ) from error
    if not pictures:
        raise SourceError(
            f"no pictures in {folder}; wanted files that end in {', '.join(PICTURE_SUFFIXES)}"
        )
    return pictures
