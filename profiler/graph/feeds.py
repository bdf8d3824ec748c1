"""Inputs to run a model with: from a file, from shapes, or made up."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from profiler.arrays import read_arrays
from profiler.errors import FeedError
from profiler.values import WHOLE_ONLY, TensorSlot
from protocol.limits import Limits
from protocol.tensors import Dtype
from protocol.text import one_line, quoted

Feeds = dict[str, npt.NDArray[np.generic]]

_SEED = 20170409
_LARGEST_BYTES = Limits().tensor_bytes
_SENDABLE = frozenset(get_args(Dtype))


def parse_input_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Read ``NAME:1x3x224x224`` from each text (``NAME:`` alone is a scalar).

    Raises:
        FeedError: A text of another form, or a shape beyond what a message carries.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, colon, numbers = text.rpartition(":")
        shown = one_line(text, 80)
        if not colon or not name or not re.fullmatch(r"(\d+(x\d+)*)?", numbers, re.ASCII):
            raise FeedError(f"--input {shown!r} is not of the form NAME:1x3x224x224")
        if name in shapes:
            raise FeedError(f"--input gives {one_line(name, 80)!r} twice; give each input once")
        axes = numbers.split("x") if numbers else []
        if len(axes) > Limits().rank:
            raise FeedError(f"--input {shown!r} has {len(axes)} axes; the limit is {Limits().rank}")
        axes = [axis.lstrip("0") or "0" for axis in axes]
        # Python refuses to read thousands of digits, so their number comes first.
        if any(len(axis) > 9 or int(axis) > _LARGEST_BYTES for axis in axes):
            raise FeedError(
                f"--input {shown!r} has an axis that is too long; the limit is {_LARGEST_BYTES}"
            )
        shapes[name] = tuple(map(int, axes))
    return shapes


def read_feeds(path: Path) -> Feeds:
    """Read a ``.npz`` file with one array per model input; see :func:`read_arrays`."""
    return read_arrays(path)


def resolve_feeds(
    slots: Sequence[TensorSlot], given: Feeds, shapes: Mapping[str, tuple[int, ...]]
) -> Feeds:
    """Return one array per model input: the given one, or noise of the given or declared shape.

    Floats are standard normal, whole numbers zero (an index that is valid everywhere). Noise shows
    shapes and speed; the bytes of encoded tensors need a real feed.

    Raises:
        FeedError: Unknown names, a shape that does not fit, or a free axis that nothing fixes.
    """
    known = {slot.name for slot in slots}
    unknown = [name for name in dict.fromkeys((*given, *shapes)) if name not in known]
    if unknown:
        raise FeedError(
            f"the model has no input {', '.join(map(quoted, unknown))}; "
            f"its inputs are {', '.join(sorted(known))}"
        )
    free = [slot for slot in slots if None in slot.shape and slot.name not in {*given, *shapes}]
    if free:
        raise FeedError(_free_axes(free))
    return {slot.name: _feed(slot, given.get(slot.name), shapes.get(slot.name)) for slot in slots}


def _free_axes(slots: Sequence[TensorSlot]) -> str:
    """What to do about all inputs whose axes nothing fixes, ready to be copied."""
    shown = ", ".join(f"{slot.name!r} {_shape_text(slot.shape)}" for slot in slots)
    options, unsure = [], False
    for slot in slots:
        # A first free axis counts pictures; how large the others are, only the user knows.
        sizes = [
            str(axis if axis is not None else "N" if place else 1)
            for place, axis in enumerate(slot.shape)
        ]
        options.append(f"--input {shlex.quote(slot.name + ':' + 'x'.join(sizes))}")
        unsure |= "N" in sizes
    number = ", a number for each N" if unsure else ""
    return (
        f"free axes in input{'s' * (len(slots) > 1)} {shown}; fix them with {' '.join(options)}"
        f"{number}, or give --feed FILE.npz"
    )


def _feed(
    slot: TensorSlot, given: npt.NDArray[np.generic] | None, shape: tuple[int, ...] | None
) -> npt.NDArray[np.generic]:
    if slot.dtype not in _SENDABLE:
        raise FeedError(f"input {slot.name!r} is {slot.dtype}; {WHOLE_ONLY}")
    if given is not None:
        if not slot.accepts(str(given.dtype), given.shape):
            raise FeedError(
                f"input {slot.name!r} was given as {given.dtype} {list(given.shape)}; "
                f"the model wants {slot.dtype} {_shape_text(slot.shape)}"
            )
        return given
    if shape is None:
        shape = tuple(axis or 0 for axis in slot.shape)
    if not slot.accepts(slot.dtype, shape):
        raise FeedError(
            f"input {slot.name!r} was given the shape {list(shape)}; "
            f"the model wants {_shape_text(slot.shape)}"
        )
    # An axis of length 0 makes the tensor empty, but not the others short.
    if math.prod(axis or 1 for axis in shape) * np.dtype(slot.dtype).itemsize > _LARGEST_BYTES:
        raise FeedError(
            f"input {slot.name!r} of shape {list(shape)} takes more than "
            f"{_LARGEST_BYTES >> 20} MiB, which no message carries"
        )
    return _noise(slot, shape)


def _noise(slot: TensorSlot, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    dtype = np.dtype(slot.dtype)
    if dtype.kind == "f":
        return np.random.default_rng(_SEED).standard_normal(shape).astype(dtype)
    return np.zeros(shape, dtype)


def _shape_text(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("?" if axis is None else str(axis) for axis in shape) + "]"
