"""The operators Resize and Upsample, one axis after the other.

Where a sample lies is computed in single precision and in ONNX Runtime's order of operations: next
to a border between two source elements the last bit decides which one is nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from profiler.torch_engine.dtypes import UnsupportedError
from profiler.torch_engine.operators import Call, Operation, integers_of, operator

Floats = NDArray[np.float32]
_ONE, _HALF = np.float32(1), np.float32(0.5)


@dataclass(frozen=True)
class _Axis:
    """One axis that is resized: its lengths before and after, and the scale as it was given."""

    source: int
    target: int
    scale: np.float32


def _half_pixel(x: Floats, axis: _Axis) -> Floats:
    return (x + _HALF) / axis.scale - _HALF


def _symmetric(x: Floats, axis: _Axis) -> Floats:
    """Half pixels around the true middle, where the target's length was rounded."""
    adjustment = np.float32(axis.target) / (axis.scale * np.float32(axis.source))
    middle = np.float32(axis.source) / np.float32(2)
    return middle * (_ONE - adjustment) + _half_pixel(x, axis)


def _align_corners(x: Floats, axis: _Axis) -> Floats:
    """Where the scaled length is no whole number, ONNX Runtime rounds it first, and ONNX does not.

    Raises:
        ValueError: It is none, so nobody knows what is meant.
    """
    if axis.scale * np.float32(axis.source) != axis.target:
        raise ValueError("align_corners with a scale that does not give a whole length")
    if axis.target == 1:
        return np.zeros_like(x)
    return x * np.float32(axis.source - 1) / np.float32(axis.target - 1)


_PLACES: dict[str, Callable[[Floats, _Axis], Floats]] = {
    "align_corners": _align_corners,
    "asymmetric": lambda x, axis: x / axis.scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda x, axis: (
        _half_pixel(x, axis) if axis.target > 1 else np.zeros_like(x)
    ),
    "tf_half_pixel_for_nn": lambda x, axis: (x + _HALF) / axis.scale,
}


def _up_from_half(x: Floats) -> Floats:
    """Halves go up, and what is one but for the last bits, as in ONNX Runtime (here alone)."""
    return np.floor(x.astype(np.float64) * (1 + 1e-6) + 0.5).astype(np.float32)


_NEAREST: dict[str, Callable[[Floats], Floats]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": _up_from_half,
    "round_prefer_floor": lambda x: np.ceil(x - _HALF),
}

# From the places of all targets and the source's length to sources and their weights.
Taps = list[tuple[NDArray[np.int64], Floats | None]]


def _nearest_taps(rounding: str) -> Callable[[Floats, int], Taps]:
    def taps(places: Floats, length: int) -> Taps:
        return [(np.clip(_NEAREST[rounding](places), 0, length - 1).astype(np.int64), None)]

    return taps


def _linear_taps(places: Floats, length: int) -> Taps:
    places = np.clip(places, 0, length - 1).astype(np.float32)
    low = np.floor(places)
    share = places - low
    high = np.minimum(low + 1, length - 1)
    return [(low.astype(np.int64), _ONE - share), (high.astype(np.int64), share)]


def _cubic_taps(a: float, exclude_outside: bool) -> Callable[[Floats, int], Taps]:
    """Keys' kernel: four sources, those outside repeated from the edge or left out."""

    def near(d: Floats) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Floats) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    def taps(places: Floats, length: int) -> Taps:
        low = np.floor(places)
        share = places - low
        weights = [far(share + 1), near(share), near(1 - share), far(2 - share)]
        sources = [low + offset for offset in (-1, 0, 1, 2)]
        if exclude_outside:
            pairs = zip(weights, sources, strict=True)
            weights = [np.where((s < 0) | (s >= length), 0, w) for w, s in pairs]
            total = sum(weights)
            weights = [weight / total for weight in weights]
        return [
            (np.clip(source, 0, length - 1).astype(np.int64), weight.astype(np.float32))
            for source, weight in zip(sources, weights, strict=True)
        ]

    return taps


def _resize_axis(x: torch.Tensor, axis: int, taps: Taps) -> torch.Tensor:
    shape = [1] * x.dim()
    shape[axis] = -1
    parts = []
    for sources, weights in taps:
        part = x.index_select(axis, torch.from_numpy(sources).to(x.device))
        if weights is not None:
            part = part * torch.from_numpy(weights).to(x.device, x.dtype).reshape(shape)
        parts.append(part)
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def _lengths(
    x: torch.Tensor, scales: list[float] | None, sizes: list[int] | None, axes: list[int]
) -> dict[int, _Axis]:
    found = {}
    for index, axis in enumerate(axes):
        length = x.shape[axis]
        if sizes:
            target, scale = sizes[index], np.float32(sizes[index]) / np.float32(length)
        else:
            scale = np.float32((scales or [])[index])
            target = math.floor(np.float32(length) * scale)
        found[axis % x.dim()] = _Axis(length, target, scale)
    return found


def _resized_axes(found: dict[int, _Axis]) -> dict[int, _Axis]:
    """Without the axes that stay as they are."""
    return {n: axis for n, axis in found.items() if axis.scale != 1 or axis.source != axis.target}


@operator("Resize", 10, 19, host=(1, 2, 3))
def _resize(call: Call) -> Operation:
    mode = call.choice("mode", "nearest", ("nearest", "linear", "cubic"))
    if call.version == 10:
        return _resized(call, mode, "asymmetric", _taps(mode, "floor"), 1)
    place = call.choice("coordinate_transformation_mode", "half_pixel", _PLACES)
    rounding = call.choice("nearest_mode", "round_prefer_floor", _NEAREST)
    exclude = call.flag("exclude_outside")
    taps = _taps(mode, rounding, call.number("cubic_coeff_a", -0.75), exclude)
    call.require("antialias", 0, 0)
    call.choice("keep_aspect_ratio_policy", "stretch", ("stretch",))
    call.forget("extrapolation_value")  # of tf_crop_and_resize, which is refused
    if mode == "nearest" and place == "half_pixel_symmetric":
        # Which bits ONNX Runtime drops there is not known, and they decide what is nearest.
        raise UnsupportedError(f"mode=nearest with {place}")
    if exclude and mode != "cubic":
        raise UnsupportedError(f"exclude_outside=1 with mode={mode}")
    return _resized(call, mode, place, taps, 2)


@operator("Upsample", 7, 9, host=(1,))
def _upsample(call: Call) -> Operation:
    mode = call.choice("mode", "nearest", ("nearest", "linear"))
    return _resized(call, mode, "asymmetric", _taps(mode, "floor"), 1)


def _taps(
    mode: str, rounding: str, a: float = 0.0, exclude: bool = False
) -> Callable[[Floats, int], Taps]:
    if mode == "nearest":
        return _nearest_taps(rounding)
    return _linear_taps if mode == "linear" else _cubic_taps(a, exclude)


def _resized(
    call: Call, mode: str, place: str, taps: Callable[[Floats, int], Taps], scales_at: int
) -> Operation:
    axes, fixed = call.integers("axes"), None
    if call.version == 7:
        fixed = call.numbers("scales")
    old_nearest = call.version == 10 and mode == "nearest"

    def resize(inputs: Any) -> torch.Tensor:
        x = inputs[0]
        if mode != "nearest" and not x.is_floating_point():
            raise ValueError(f"mode={mode} of {x.dtype}")  # how sums are rounded is nowhere said
        given = inputs[scales_at] if len(inputs) > scales_at else None
        scales = fixed if given is None or not given.numel() else given.tolist()
        sizes = integers_of(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else None
        picked = list(range(x.dim())) if axes is None else axes
        resized = _resized_axes(_lengths(x, scales, sizes, picked))
        if resized and all(axis.source == axis.target for axis in resized.values()):
            # ONNX Runtime then copies, whatever the scales; ONNX takes samples.
            raise ValueError("scales other than 1 that leave all lengths as they are")
        for number, axis in resized.items():
            if old_nearest and axis.scale < 1:
                raise ValueError("Resize of version 10 makes smaller in a way of its own")
            places = _PLACES[place](np.arange(axis.target, dtype=np.float32), axis)
            x = _resize_axis(x, number, taps(places, axis.source))
        return x

    return resize
