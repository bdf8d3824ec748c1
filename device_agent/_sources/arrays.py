"""Frames from a NumPy ``.npz`` file: one array for each input of the model."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from device_agent._sources.frames import Frame
from device_agent.errors import SourceError
from profiler.arrays import read_arrays
from profiler.errors import FeedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from profiler.values import TensorSlot


class ArraySource:
    """Frames from an ``.npz`` file whose keys are the model's input names.

    Where every array has one axis more than its input, the first axis counts frames; otherwise
    the file is one frame.

    Args:
        path: The file.
        inputs: The model's inputs.
        count: How many frames to give, from the start again if need be; None for each once.

    Raises:
        SourceError: The file cannot be read, or its arrays do not fit the inputs.
    """

    skipped = 0

    def __init__(self, path: Path, inputs: tuple[TensorSlot, ...], count: int | None) -> None:
        arrays = _read(path)
        _check_names(path, arrays, inputs)
        stacked = all(arrays[slot.name].ndim == len(slot.shape) + 1 for slot in inputs)
        frames = _unstack(path, arrays) if stacked else [arrays]
        for slot in inputs:
            _check_array(path, slot, frames[0][slot.name])
        self._frames = [Frame(feeds, path.name) for feeds in frames]
        self.length = len(frames) if count is None else count

    def __iter__(self) -> Iterator[Frame]:
        """Give the frames in order."""
        return islice(cycle(self._frames), self.length)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return read_arrays(path)
    except FeedError as error:
        raise SourceError(f"source: {error}") from error


def _check_names(
    path: Path, arrays: Mapping[str, NDArray[Any]], inputs: tuple[TensorSlot, ...]
) -> None:
    wanted = [slot.name for slot in inputs]
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in wanted]
    if missing or unknown:
        wrong = [f"lacks {name!r}" for name in missing]
        wrong += [f"has {name!r}, which is no input" for name in unknown]
        raise SourceError(
            f"{path} {', and '.join(wrong)}; the model's inputs are {', '.join(wanted)}"
        )


def _unstack(path: Path, arrays: Mapping[str, NDArray[Any]]) -> list[dict[str, NDArray[Any]]]:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        found = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise SourceError(
            f"the first axis of each array in {path} counts frames, so all must be equal and"
            f" not 0; they are {found}"
        )
    # Each frame in memory of its own: the runtime wants contiguous arrays, scalars included.
    count = next(iter(lengths.values()))
    return [
        {name: np.array(array[index]) for name, array in arrays.items()} for index in range(count)
    ]


def _check_array(path: Path, slot: TensorSlot, array: NDArray[Any]) -> None:
    # A declared () may also mean that the model declares no shape; then any rank will do.
    if not slot.accepts(array.dtype.name, array.shape if slot.shape else ()):
        axes = ", ".join("any" if axis is None else str(axis) for axis in slot.shape)
        raise SourceError(
            f"{slot.name!r} in {path} is {array.dtype.name} {list(array.shape)};"
            f" the model wants {slot.dtype} [{axes}]: {_remedy(slot, array)}"
        )


def _remedy(slot: TensorSlot, array: NDArray[Any]) -> str:
    if array.dtype.name != slot.dtype:
        return f"the dtype differs; save it as {slot.dtype}, scaled as in training"
    if array.ndim != len(slot.shape):
        return (
            f"it has {array.ndim} axes, not {len(slot.shape)}; several frames go along one extra"
            " first axis, in every array alike"
        )
    wrong = [
        str(axis)
        for axis, (want, got) in enumerate(zip(slot.shape, array.shape, strict=True))
        if want not in (None, got)
    ]
    return (
        f"axis {' and '.join(wrong)} differs; resize the input, or give pictures and declare"
        " preprocess"
    )
