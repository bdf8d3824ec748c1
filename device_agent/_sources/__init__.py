"""Where frames come from: pictures, a ``.npz`` file, or synthetic ones."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from device_agent._sources.arrays import ArraySource
from device_agent._sources.frames import Frame, Source
from device_agent._sources.images import PICTURE_SUFFIXES, ImageSource
from device_agent._sources.synthetic import SyntheticSource
from device_agent.errors import OptionError, SourceError
from protocol import SystemClock, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from profiler.values import TensorSlot
    from protocol import Clock, ImagePreprocess
    from splitter.bundle import Bundle

__all__ = ["ArraySource", "Frame", "ImageSource", "Source", "SyntheticSource", "open_source"]

_BENCH = "bench"
_logger = logging.getLogger("device_agent")


def open_source(
    text: str,
    bundle: Bundle,
    *,
    count: int | None = None,
    clock: Clock | None = None,
    notice: Callable[[str], None] | None = None,
) -> Source:
    """Open what ``--source`` names.

    Args:
        text: A folder of pictures, a picture, a ``.npz`` file, or ``bench``.
        bundle: Says what the model's inputs are, and how they are made from a picture.
        count: How many frames to give; None for each once (``bench``: 50).
        clock: Times the preprocessing.
        notice: Told, in a line, about each frame that is skipped; None logs it as a warning.

    Raises:
        OptionError: ``count`` is below 1.
        SourceError: There is no such source, or it does not fit the model.
    """
    if count is not None and count < 1:
        raise OptionError(f"--count is {count}; give 1 or more")
    inputs, preprocess = bundle.inputs, bundle.preprocess
    if text == _BENCH:
        if preprocess is not None and len(inputs) == 1:
            _check_preprocess(preprocess, inputs)
        return SyntheticSource(bundle.planned_inputs or inputs, preprocess, count)
    path = Path(text)
    # Unlike those of a path, these say no to a name that no file can have.
    is_folder, exists = os.path.isdir(text), os.path.exists(text)  # noqa: PTH110, PTH112
    if is_folder or (exists and path.suffix.lower() in PICTURE_SUFFIXES):
        if preprocess is None:
            raise SourceError(
                f"{text} holds pictures, but the bundle does not say how the model wants"
                " them; plan again with a preprocess block (see split-plan --help)"
            )
        _check_preprocess(preprocess, inputs)
        clock, notice = clock or SystemClock(), notice or _logger.warning
        return ImageSource(path, inputs[0], preprocess, count, clock, notice)
    if path.suffix.lower() == ".npz":
        return ArraySource(path, inputs, count)
    wrong = "is of no kind that is read" if exists else "does not exist"
    raise SourceError(
        f"source {quoted(text)} {wrong}; give a folder of pictures, a picture, a .npz file, or "
        "'bench'"
    )


def _check_preprocess(preprocess: ImagePreprocess, inputs: tuple[TensorSlot, ...]) -> None:
    if len(inputs) != 1:
        names = ", ".join(slot.name for slot in inputs)
        raise SourceError(f"the bundle declares preprocess, but the model has the inputs {names}")
    (slot,) = inputs
    made = preprocess.output_shape
    if not slot.accepts("float32", made):
        axes = ", ".join("any" if axis is None else str(axis) for axis in slot.shape)
        raise SourceError(
            f"the bundle's preprocess makes float32 {list(made)}, but the model's input"
            f" {slot.name!r} is {slot.dtype} [{axes}]; mend height, width or layout in the"
            " preprocess block and plan again"
        )
