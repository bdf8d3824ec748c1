"""Quantised tensors, and products of them."""

from __future__ import annotations

from typing import Any

import torch

from profiler.torch_engine.dtypes import torch_dtype
from profiler.torch_engine.operators import Call, Operation, operator


def _along(scale: torch.Tensor, x: torch.Tensor, axis: int, block: int) -> torch.Tensor:
    """Shape a scale or zero point so that it goes with the tensor.

    One for all, one for each index of an axis, or one for each block of indices of an axis.
    """
    if block:
        return scale.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    if scale.dim() == 0 or scale.numel() == 1:
        return scale.reshape(())
    shape = [1] * x.dim()
    shape[axis] = -1
    return scale.reshape(shape)


def quantise(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """``saturate(round(x / scale) + zero_point)`` where halves are rounded to even."""
    bounds = torch.iinfo(zero.dtype)
    steps = torch.round(x.to(torch.float32) / scale.to(torch.float32)) + zero
    return torch.clamp(steps, bounds.min, bounds.max).to(zero.dtype)


@operator("QuantizeLinear", 10, 28)
def _quantize_linear(call: Call) -> Operation:
    """``saturate`` is for eight-bit floats, which are refused with their tensors."""
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    wanted = torch_dtype(call.integer("output_dtype", 0) or 2)
    call.require("precision", call.integer("precision", 0) and 1, 0)
    call.forget("saturate")

    def quantize_linear(inputs: Any) -> torch.Tensor:
        x, scale = inputs[:2]
        zero = inputs[2] if len(inputs) > 2 else None
        if zero is None:
            zero = torch.zeros_like(scale, dtype=wanted)
        return quantise(x, _along(scale, x, axis, block), _along(zero, x, axis, block))

    return quantize_linear


@operator("DequantizeLinear", 10, 28)
def _dequantize_linear(call: Call) -> Operation:
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    call.require("output_dtype", 0, 0)

    def dequantize_linear(inputs: Any) -> torch.Tensor:
        x, scale = inputs[:2]
        steps = x.to(torch.int32)
        if len(inputs) > 2 and inputs[2] is not None:
            steps = steps - _along(inputs[2], x, axis, block).to(torch.int32)
        return steps.to(scale.dtype) * _along(scale, x, axis, block)

    return dequantize_linear


@operator("DynamicQuantizeLinear", 11, 11, outputs=3)
def _dynamic_quantize_linear(_call: Call) -> Operation:
    """To eight bits without sign; the range always holds zero."""

    def dynamic_quantize_linear(inputs: Any) -> Any:
        x = inputs[0]
        low, high = torch.clamp(x.min(), max=0.0), torch.clamp(x.max(), min=0.0)
        scale = (high - low) / 255.0
        scale = torch.where(scale == 0, 1.0, scale)
        zero = torch.clamp(torch.round(-low / scale), 0, 255).to(torch.uint8)
        return quantise(x, scale, zero), scale, zero

    return dynamic_quantize_linear


def _less_zero(x: torch.Tensor, zero: torch.Tensor | None, *, rows: bool) -> torch.Tensor:
    """In double precision, in which sums of products of eight-bit numbers are exact."""
    if zero is None:
        return x.to(torch.float64)
    zero = zero.reshape(-1, 1) if rows and zero.dim() == 1 and zero.numel() > 1 else zero
    return x.to(torch.float64) - zero.to(torch.float64)


@operator("MatMulInteger", 10, 10)
def _mat_mul_integer(_call: Call) -> Operation:
    """Zero points are for all, for each row of the first, or for each column of the second."""

    def mat_mul_integer(inputs: Any) -> torch.Tensor:
        a, b, zero_a, zero_b = (*inputs, None, None)[:4]
        left, right = _less_zero(a, zero_a, rows=True), _less_zero(b, zero_b, rows=False)
        return torch.matmul(left, right).to(torch.int32)

    return mat_mul_integer
