"""Operators that pick elements, or put them, by position."""

from __future__ import annotations

from typing import Any

import torch

from profiler.torch_engine.operators import Call, Operation, integers_of, operator


def in_range(indices: torch.Tensor, size: int) -> torch.Tensor:
    """Return indices counted from the start, where negative ones count from the end.

    Raises:
        IndexError: One is outside. On an accelerator this waits for the indices, but there torch
            would end the whole process's use of the device instead.
    """
    if indices.is_cuda and bool(((indices < -size) | (indices >= size)).any()):
        raise IndexError(f"an index lies outside -{size} to {size - 1}")
    return torch.where(indices < 0, indices + size, indices).to(torch.int64)


@operator("Gather", 1, 13)
def _gather(call: Call) -> Operation:
    axis = call.integer("axis", 0)

    def gather(inputs: Any) -> torch.Tensor:
        x, indices = inputs
        place = axis + x.dim() if axis < 0 else axis
        picked = x.index_select(place, in_range(indices.reshape(-1), x.shape[place]))
        return picked.reshape(x.shape[:place] + indices.shape + x.shape[place + 1 :])

    return gather


@operator("GatherElements", 11, 13)
def _gather_elements(call: Call) -> Operation:
    axis = call.integer("axis", 0)
    return lambda inputs: torch.gather(inputs[0], axis, in_range(inputs[1], inputs[0].shape[axis]))


def _positions(indices: torch.Tensor, shape: torch.Size) -> tuple[torch.Tensor, ...]:
    """The last axis of indices, split into one tensor for each axis of the data."""
    return tuple(in_range(indices[..., axis], shape[axis]) for axis in range(indices.shape[-1]))


@operator("GatherND", 11, 13)
def _gather_nd(call: Call) -> Operation:
    batch = call.integer("batch_dims", 0)

    def gather_nd(inputs: Any) -> torch.Tensor:
        x, indices = inputs
        if not batch:
            return x[_positions(indices, x.shape)]
        flat = x.reshape(-1, *x.shape[batch:])
        rows = indices.reshape(-1, *indices.shape[batch:])
        picked = torch.stack(
            [part[_positions(row, part.shape)] for part, row in zip(flat, rows, strict=True)]
        )
        return picked.reshape(x.shape[:batch] + picked.shape[1:])

    return gather_nd


_REDUCTIONS = {"none": "", "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", 11, 18)
def _scatter_elements(call: Call) -> Operation:
    axis = call.integer("axis", 0)
    reduction = _REDUCTIONS[call.choice("reduction", "none", _REDUCTIONS)]

    def scatter_elements(inputs: Any) -> torch.Tensor:
        x, indices, updates = inputs
        indices = in_range(indices, x.shape[axis])
        if not reduction:
            return x.scatter(axis, indices, updates)
        return x.scatter_reduce(axis, indices, updates, reduction)

    return scatter_elements


@operator("ScatterND", 11, 18)
def _scatter_nd(call: Call) -> Operation:
    reduction = _REDUCTIONS[call.choice("reduction", "none", _REDUCTIONS)]

    def scatter_nd(inputs: Any) -> torch.Tensor:
        x, indices, updates = inputs
        depth = indices.shape[-1]
        if not reduction:
            return x.index_put(_positions(indices, x.shape), updates)
        # Rows of what one index names, so that a place that is named twice is reduced twice.
        flat = x.reshape(-1, *x.shape[depth:])
        row = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=x.device)
        for axis, position in enumerate(_positions(indices, x.shape)):
            row = row * x.shape[axis] + position
        source = updates.reshape(-1, *x.shape[depth:])
        target = row.reshape(-1, *[1] * (source.dim() - 1)).expand_as(source)
        return flat.scatter_reduce(0, target, source, reduction).reshape(x.shape)

    return scatter_nd


_LARGEST = 2**31 - 1  # and more: what stands for "to the end"


@operator("Slice", 1, 13, host=(1, 2, 3, 4))
def _slice(call: Call) -> Operation:
    """Bounds are attributes before version 10, then inputs; steps may run backwards."""
    fixed: list[Any] = []
    if call.version < 10:
        fixed = [call.integers("starts"), call.integers("ends"), call.integers("axes")]

    def cut(inputs: Any) -> torch.Tensor:
        x, *given = inputs
        lists: list[Any] = fixed or [None if part is None else integers_of(part) for part in given]
        starts, ends, axes, steps = (*lists, None, None)[:4]
        axes = range(len(starts)) if axes is None else axes
        steps = [1] * len(starts) if steps is None else steps
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            x = _slice_axis(x, axis, start, end, step)
        return x

    return cut


def _slice_axis(x: torch.Tensor, axis: int, start: int, end: int, step: int) -> torch.Tensor:
    """One axis. Unlike Python, ONNX lets a walk backwards that starts before 0 start at 0.

    Raises:
        ValueError: ONNX Runtime has a rule of its own.
    """
    length = x.shape[axis]
    start, end = (bound + length if bound < 0 else bound for bound in (start, end))
    if step > 0:
        picked = range(min(max(start, 0), length), min(max(end, 0), length), step)
    elif end >= _LARGEST:
        raise ValueError(f"a slice backwards that ends at {end}")
    else:
        picked = range(min(max(start, 0), length - 1), min(max(end, -1), length - 1), step)
    index: list[slice] = [slice(None)] * x.dim()
    if not picked:
        index[axis] = slice(0, 0)
        return x[tuple(index)]
    low, high = min(picked[0], picked[-1]), max(picked[0], picked[-1])
    index[axis] = slice(low, high + 1, abs(step))
    part = x[tuple(index)]
    return part.flip(axis) if step < 0 else part


@operator("OneHot", 9, 28, host=(1,))
def _one_hot(call: Call) -> Operation:
    """Indices outside the depth give rows that are off everywhere."""
    axis = call.integer("axis", -1)

    def one_hot(inputs: Any) -> torch.Tensor:
        indices, depth, values = inputs
        size = integers_of(depth)[0]
        place = axis + indices.dim() + 1 if axis < 0 else axis
        counted = torch.where(indices < 0, indices + size, indices).unsqueeze(place)
        shape = [1] * counted.dim()
        shape[place] = size
        hot = counted == torch.arange(size, device=indices.device).reshape(shape)
        return torch.where(hot, values[1], values[0])

    return one_hot


@operator("NonZero", 9, 13)
def _non_zero(_call: Call) -> Operation:
    return lambda inputs: torch.nonzero(inputs[0]).t()


@operator("Compress", 9, 28)
def _compress(call: Call) -> Operation:
    axis = call.integer("axis") if call.present("axis") else None

    def compress(inputs: Any) -> torch.Tensor:
        x, condition = inputs
        kept = torch.nonzero(condition).reshape(-1)
        return x.reshape(-1).index_select(0, kept) if axis is None else x.index_select(axis, kept)

    return compress
