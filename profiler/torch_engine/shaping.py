"""Operators that move elements and compute shapes, without arithmetic on the elements."""

from __future__ import annotations

import math
from typing import Any

import torch

from profiler.torch_engine.dtypes import torch_dtype
from profiler.torch_engine.operators import Call, Operation, integers_of, operator


@operator("Identity", 1, 25)
def _identity(_call: Call) -> Operation:
    return lambda inputs: inputs[0]


@operator("Constant", 1, 25)
def _constant(call: Call) -> Operation:
    """One of the numeric forms; strings and sparse tensors are refused as unread attributes."""
    integer, integers = call.integer("value_int", 0), call.integers("value_ints")
    number, numbers = call.number("value_float", 0.0), call.numbers("value_floats")
    value = call.tensor("value")
    if value is None and integers is not None:
        value = torch.tensor(integers, dtype=torch.int64)
    elif value is None and numbers is not None:
        value = torch.tensor(numbers, dtype=torch.float32)
    elif value is None and call.present("value_float"):
        value = torch.tensor(number, dtype=torch.float32)
    elif value is None:
        value = torch.tensor(integer, dtype=torch.int64)
    return lambda _inputs: value


@operator("ConstantOfShape", 9, 25, host=(0,))
def _constant_of_shape(call: Call) -> Operation:
    value = call.tensor("value")
    value = torch.zeros(1) if value is None else value
    return lambda inputs: value.reshape(()).expand(integers_of(inputs[0])).clone()


@operator("Shape", 1, 25, shape_only=True)
def _shape(call: Call) -> Operation:
    start = call.integer("start", 0)
    last = call.integer("end") if call.present("end") else None

    def shape(inputs: Any) -> torch.Tensor:
        return torch.tensor(tuple(inputs[0].shape)[start:last], dtype=torch.int64)

    return shape


@operator("Size", 1, 25, shape_only=True)
def _size(_call: Call) -> Operation:
    return lambda inputs: torch.tensor(inputs[0].numel(), dtype=torch.int64)


@operator("Range", 11, 27, host=(0, 1, 2))
def _range(call: Call) -> Operation:
    """``start + index * delta``; torch.arange would round in another order."""
    call.forget("stash_type")

    def make_range(inputs: Any) -> torch.Tensor:
        start, limit, delta = (value.reshape(()).item() for value in inputs)
        count = max(math.ceil((limit - start) / delta), 0)
        dtype = inputs[0].dtype
        return (torch.arange(count).to(dtype) * delta + start).to(dtype)

    return make_range


@operator("Reshape", 5, 25, host=(1,))
def _reshape(call: Call) -> Operation:
    """0 keeps the axis of the input unless ``allowzero``; -1 is what is left."""
    allow_zero = call.flag("allowzero")

    def reshape(inputs: Any) -> torch.Tensor:
        x, wanted = inputs[0], integers_of(inputs[1])
        if not allow_zero:
            wanted = [x.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
        if -1 in wanted:
            others = math.prod(size for size in wanted if size != -1)
            wanted[wanted.index(-1)] = x.numel() // others if others else 0
        return x.reshape(wanted)

    return reshape


@operator("Flatten", 1, 25)
def _flatten(call: Call) -> Operation:
    axis = call.integer("axis", 1)

    def flatten(inputs: Any) -> torch.Tensor:
        shape = tuple(inputs[0].shape)
        split = axis + len(shape) if axis < 0 else axis
        return inputs[0].reshape(math.prod(shape[:split]), math.prod(shape[split:]))

    return flatten


@operator("Transpose", 1, 25)
def _transpose(call: Call) -> Operation:
    order = call.integers("perm")
    return lambda inputs: inputs[0].permute(order or tuple(reversed(range(inputs[0].dim()))))


@operator("Squeeze", 1, 25, host=(1,))
def _squeeze(call: Call) -> Operation:
    """Axes are an attribute before version 13, then an input; none means all of length 1."""
    fixed = call.integers("axes") if call.version < 13 else None

    def squeeze(inputs: Any) -> torch.Tensor:
        x = inputs[0]
        axes = integers_of(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else fixed
        if axes is None:
            return x.squeeze()
        for axis in axes:
            if x.shape[axis] != 1:
                raise ValueError(f"axis {axis} has length {x.shape[axis]}, not 1")
        return x.squeeze(tuple(axes))

    return squeeze


@operator("Unsqueeze", 1, 25, host=(1,))
def _unsqueeze(call: Call) -> Operation:
    """Axes count in the result."""
    fixed = call.integers("axes") if call.version < 13 else None

    def unsqueeze(inputs: Any) -> torch.Tensor:
        x = inputs[0]
        axes = integers_of(inputs[1]) if fixed is None else fixed
        rank = x.dim() + len(axes)
        for axis in sorted(axis + rank if axis < 0 else axis for axis in axes):
            x = x.unsqueeze(axis)
        return x

    return unsqueeze


@operator("Concat", 4, 13)
def _concat(call: Call) -> Operation:
    axis = call.integer("axis")
    return lambda inputs: torch.cat(list(inputs), axis)


@operator("Split", 2, 18, outputs=1 << 16, host=(1,))
def _split(call: Call) -> Operation:
    """Lengths are an attribute before version 13, then an input; otherwise parts are alike.

    With ``num_outputs`` (version 18) the last part may be shorter.
    """
    axis, fixed = call.integer("axis", 0), call.integers("split") if call.version < 13 else None
    count = call.integer("num_outputs", call.declared_outputs)

    def split(inputs: Any) -> tuple[torch.Tensor, ...]:
        x = inputs[0]
        given = integers_of(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else fixed
        if given is None:
            length = x.shape[axis]
            part = -(-length // count)
            if call.version < 18 and part * count != length:
                raise ValueError(f"{length} does not split into {count} like parts")
            given = [max(min(part, length - index * part), 0) for index in range(count)]
        return tuple(torch.split(x, given, axis))

    return split


@operator("Expand", 8, 13, host=(1,))
def _expand(_call: Call) -> Operation:
    """Both ways: axes of the input stay where the shape says 1."""

    def expand(inputs: Any) -> torch.Tensor:
        return inputs[0].expand(torch.broadcast_shapes(inputs[0].shape, integers_of(inputs[1])))

    return expand


@operator("Tile", 6, 13, host=(1,))
def _tile(_call: Call) -> Operation:
    return lambda inputs: inputs[0].repeat(integers_of(inputs[1]))


def _depth_order(call: Call) -> bool:
    return call.choice("mode", "DCR", ("DCR", "CRD")) == "DCR"


@operator("DepthToSpace", 1, 28)
def _depth_to_space(call: Call) -> Operation:
    block, depth_first = call.integer("blocksize"), _depth_order(call)

    def depth_to_space(inputs: Any) -> torch.Tensor:
        batch, channels, height, width = inputs[0].shape
        rest = channels // (block * block)
        if depth_first:
            parts = inputs[0].reshape(batch, block, block, rest, height, width)
            parts = parts.permute(0, 3, 4, 1, 5, 2)
        else:
            parts = inputs[0].reshape(batch, rest, block, block, height, width)
            parts = parts.permute(0, 1, 4, 2, 5, 3)
        return parts.reshape(batch, rest, height * block, width * block)

    return depth_to_space


@operator("SpaceToDepth", 1, 28)
def _space_to_depth(call: Call) -> Operation:
    block, depth_first = call.integer("blocksize"), _depth_order(call)

    def space_to_depth(inputs: Any) -> torch.Tensor:
        batch, channels, height, width = inputs[0].shape
        tall, wide = height // block, width // block
        parts = inputs[0].reshape(batch, channels, tall, block, wide, block)
        order = (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4)
        return parts.permute(order).reshape(batch, channels * block * block, tall, wide)

    return space_to_depth


@operator("Trilu", 14, 14, host=(1,))
def _trilu(call: Call) -> Operation:
    upper = call.flag("upper", True)

    def trilu(inputs: Any) -> torch.Tensor:
        diagonal = integers_of(inputs[1])[0] if len(inputs) > 1 and inputs[1] is not None else 0
        return torch.triu(inputs[0], diagonal) if upper else torch.tril(inputs[0], diagonal)

    return trilu


@operator("EyeLike", 9, 22)
def _eye_like(call: Call) -> Operation:
    dtype = torch_dtype(call.integer("dtype")) if call.present("dtype") else None
    diagonal = call.integer("k", 0)

    def eye_like(inputs: Any) -> torch.Tensor:
        ones = torch.ones_like(inputs[0], dtype=dtype)
        return torch.triu(torch.tril(ones, diagonal), diagonal)

    return eye_like
