"""Poolings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch.nn import functional

from profiler.torch_engine.geometry import Pads, Window, pad_spatial
from profiler.torch_engine.operators import Call, Operation, operator

_MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_MEAN = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def _counts(
    window: Window, kernel: Sequence[int], lengths: Sequence[int], pads: Pads, ceil: bool
) -> list[int]:
    """How many windows lie on each axis.

    With ``ceil_mode`` the last one may hang over the end, but may not begin behind the input
    (MaxPool and AveragePool since version 22 say so; ONNX Runtime does it for all versions).
    """
    counts = []
    axes = zip(lengths, pads, window.reach(kernel), window.steps(len(kernel)), strict=True)
    for length, (begin, end), reach, step in axes:
        room = length + begin + end - reach
        if room < 0:
            raise ValueError(f"a window of {reach} does not fit {length + begin + end} elements")
        count = (math.ceil(room / step) if ceil else room // step) + 1
        if ceil and (count - 1) * step >= length + begin:
            count -= 1
        counts.append(count)
    return counts


def _fitted(
    window: Window, kernel: Sequence[int], lengths: Sequence[int], pads: Pads, counts: Sequence[int]
) -> Pads:
    """Pads that end where the last window ends, so that windows need no rounding."""
    axes = zip(lengths, pads, counts, window.reach(kernel), window.steps(len(kernel)), strict=True)
    return [
        (begin, (count - 1) * step + reach - length - begin)
        for length, (begin, _), count, reach, step in axes
    ]


@operator("MaxPool", 1, 22)
def _max_pool(call: Call) -> Operation:
    window, ceil = Window.of(call), call.flag("ceil_mode")
    kernel = window.kernel or []
    call.forget("storage_order")  # of the indices, which are refused

    def max_pool(inputs: Any) -> torch.Tensor:
        x = inputs[0]
        rank = len(kernel)
        lengths = x.shape[2:]
        window.check_reach(lengths, kernel)
        pads = window.padding(lengths, kernel)
        counts = _counts(window, kernel, lengths, pads, ceil)
        whole = x.is_floating_point()
        # torch has no kernels for whole numbers; eight bits are exact in float32.
        floating = x if whole else x.to(torch.float32)
        padded = pad_spatial(floating, _fitted(window, kernel, lengths, pads, counts), -math.inf)
        steps, gaps = window.steps(rank), window.gaps(rank)
        y = _MAX[rank](padded, kernel, steps, 0, gaps)
        return y if whole else y.to(x.dtype)

    return max_pool


@operator("AveragePool", 1, 22)
def _average_pool(call: Call) -> Operation:
    """Divides by the elements that a window covers, with ``count_include_pad`` pads included."""
    window, ceil = Window.of(call), call.flag("ceil_mode")
    kernel, with_pads = window.kernel or [], call.flag("count_include_pad")

    def average_pool(inputs: Any) -> torch.Tensor:
        x = inputs[0]
        lengths = x.shape[2:]
        window.check_reach(lengths, kernel)
        pads = window.padding(lengths, kernel)
        counts = _counts(window, kernel, lengths, pads, ceil)
        fitted = _fitted(window, kernel, lengths, pads, counts)
        mean = _mean(pad_spatial(x, fitted, 0), kernel, window)
        size = math.prod(kernel)
        covered = _covered(window, kernel, lengths, counts, pads, with_pads)
        if all(set(row) == {part} for row, part in zip(covered, kernel, strict=True)):
            return mean
        rows = [torch.tensor(row, dtype=x.dtype, device=x.device) for row in covered]
        return mean * (size / reduce(lambda grid, row: grid.unsqueeze(-1) * row, rows))

    return average_pool


def _mean(padded: torch.Tensor, kernel: list[int], window: Window) -> torch.Tensor:
    """The mean over whole windows."""
    rank = len(kernel)
    steps, gaps = window.steps(rank), window.gaps(rank)
    if gaps == [1] * rank:
        return _MEAN[rank](padded, kernel, steps, 0)
    # torch has no gaps here: one axis after the other, they are windows of a sliding view.
    for axis, (size, step, gap) in enumerate(zip(kernel, steps, gaps, strict=True), start=2):
        view = padded.unfold(axis, (size - 1) * gap + 1, step)
        padded = view[..., ::gap].mean(-1)
    return padded


def _covered(
    window: Window,
    kernel: Sequence[int],
    lengths: Sequence[int],
    counts: Sequence[int],
    pads: Pads,
    with_pads: bool,
) -> list[list[int]]:
    """For each axis and window: how many of its elements count."""
    rank = len(kernel)
    rows = []
    axes = zip(lengths, kernel, counts, pads, window.steps(rank), window.gaps(rank), strict=True)
    for length, size, count, (begin, end), step, gap in axes:
        low, high = (-begin, length + end) if with_pads else (0, length)
        starts = range(-begin, -begin + count * step, step)
        rows.append(
            [sum(low <= start + tap * gap < high for tap in range(size)) for start in starts]
        )
    return rows


@operator("GlobalAveragePool", 1, 22)
def _global_average_pool(_call: Call) -> Operation:
    return lambda inputs: torch.mean(inputs[0], tuple(range(2, inputs[0].dim())), keepdim=True)


@operator("GlobalMaxPool", 1, 22)
def _global_max_pool(_call: Call) -> Operation:
    return lambda inputs: torch.amax(inputs[0], tuple(range(2, inputs[0].dim())), keepdim=True)
