"""Seeded frames for measuring: ``--source bench``."""

from __future__ import annotations

import math
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from device_agent._sources.frames import Frame
from device_agent.errors import SourceError
from protocol.tensors import ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from profiler.values import TensorSlot
    from protocol import ImagePreprocess

DEFAULT_COUNT = 50
_SEED = 20_240
_MOST_ELEMENTS = 1 << 27
_COARSE = 14  # pixels between the points that a synthetic picture is interpolated from


class SyntheticSource:
    """The same seeded frame again and again.

    A model of one input with a ``preprocess`` block gets a smooth random picture, so that its JPEG
    and its activations compress somewhat like those of a photo; any other gets random numbers:
    normal ones for floats, 0 or 1 for whole numbers, which are valid indices almost everywhere.

    Args:
        inputs: The inputs to make, as the plan saw them; axes that are free all the same are 1.
        preprocess: How the model's one input is made from a picture, if it is.
        count: How many frames to give; None for 50.

    Raises:
        SourceError: An input is of a dtype that random numbers cannot fill, or too large.
    """

    skipped = 0

    def __init__(
        self,
        inputs: tuple[TensorSlot, ...],
        preprocess: ImagePreprocess | None,
        count: int | None,
    ) -> None:
        generator = np.random.default_rng(_SEED)
        if preprocess is None or len(inputs) != 1:
            self._frame = Frame({slot.name: _array(slot, generator) for slot in inputs})
        else:
            pixels = _picture(preprocess.height, preprocess.width, generator)
            self._frame = Frame({inputs[0].name: preprocess.normalise(pixels)}, pixels=pixels)
        self.length = DEFAULT_COUNT if count is None else count

    def __iter__(self) -> Iterator[Frame]:
        """Give the frames in order."""
        return repeat(self._frame, self.length)


def _array(slot: TensorSlot, generator: np.random.Generator) -> NDArray[Any]:
    shape = tuple(1 if axis is None else axis for axis in slot.shape)
    if slot.dtype not in ITEM_BYTES:
        raise SourceError(
            f"input {slot.name!r} is {slot.dtype}, which bench cannot make; give a .npz file"
        )
    if math.prod(shape) > _MOST_ELEMENTS:
        raise SourceError(
            f"input {slot.name!r} has {math.prod(shape)} elements; bench makes up to"
            f" {_MOST_ELEMENTS}"
        )
    dtype = np.dtype(slot.dtype)
    if dtype.kind == "f":
        return np.asarray(generator.standard_normal(shape), dtype)
    return np.asarray(generator.integers(0, 2, shape), dtype)


def _picture(height: int, width: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """A picture without hard edges: bilinear between coarse random points, and a little noise."""
    rows = np.linspace(0, max(1, height // _COARSE), height)
    columns = np.linspace(0, max(1, width // _COARSE), width)
    coarse = generator.uniform(0, 255, (int(rows[-1]) + 2, int(columns[-1]) + 2, 3))
    top, left = rows.astype(int), columns.astype(int)
    down = (rows - top)[:, None, None]
    right = (columns - left)[None, :, None]
    upper = coarse[top][:, left] * (1 - right) + coarse[top][:, left + 1] * right
    lower = coarse[top + 1][:, left] * (1 - right) + coarse[top + 1][:, left + 1] * right
    noise = generator.normal(0, 4, (height, width, 3))
    picture = upper * (1 - down) + lower * down + noise
    return np.asarray(picture.clip(0, 255), np.uint8)
