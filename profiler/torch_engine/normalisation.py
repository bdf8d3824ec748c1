"""Normalisations in inference."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from profiler.torch_engine.dtypes import UnsupportedError
from profiler.torch_engine.operators import Call, Operation, operator


@operator("BatchNormalization", 7, 15)
def _batch_normalization(call: Call) -> Operation:
    """With the statistics given; ``momentum`` is for training."""
    epsilon = call.number("epsilon", 1e-5)
    call.forget("momentum")
    call.require("spatial", 1, 1)
    call.require("training_mode", 0, 0)

    def batch_normalization(inputs: Any) -> torch.Tensor:
        x, scale, bias, mean, variance = inputs
        return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)

    return batch_normalization


@operator("InstanceNormalization", 6, 22)
def _instance_normalization(call: Call) -> Operation:
    epsilon = call.number("epsilon", 1e-5)
    return lambda inputs: torch.group_norm(
        inputs[0], inputs[0].shape[1], inputs[1], inputs[2], epsilon
    )


@operator("GroupNormalization", 18, 21)
def _group_normalization(call: Call) -> Operation:
    """Scale and bias are for each group in version 18, for each channel in version 21."""
    epsilon, groups = call.number("epsilon", 1e-5), call.integer("num_groups")
    call.require("stash_type", 1, 1)

    def group_normalization(inputs: Any) -> torch.Tensor:
        x, scale, bias = inputs
        if call.version < 21:
            members = x.shape[1] // groups
            scale, bias = scale.repeat_interleave(members), bias.repeat_interleave(members)
        return torch.group_norm(x, groups, scale, bias, epsilon)

    return group_normalization


@operator("LayerNormalization", 17, 17, outputs=3)
def _layer_normalization(call: Call) -> Operation:
    axis, epsilon = call.integer("axis", -1), call.number("epsilon", 1e-5)
    call.require("stash_type", 1, 1)

    def layer_normalization(inputs: Any) -> Any:
        x, scale = inputs[:2]
        bias = inputs[2] if len(inputs) > 2 else None
        shape = x.shape[axis:]
        if scale.shape == shape and (bias is None or bias.shape == shape):
            return torch.native_layer_norm(x, shape, scale, bias, epsilon)
        # Both may also be smaller and are then broadcast.
        y, mean, deviation = torch.native_layer_norm(x, shape, None, None, epsilon)
        return (y * scale if bias is None else y * scale + bias), mean, deviation

    return layer_normalization


@operator("RMSNormalization", 23, 23)
def _rms_normalization(call: Call) -> Operation:
    axis, epsilon = call.integer("axis", -1), call.number("epsilon", 1e-5)
    call.require("stash_type", 1, 1)

    def rms_normalization(inputs: Any) -> torch.Tensor:
        x, scale = inputs
        single = x.to(torch.float32) if x.dtype is torch.float16 else x
        axes = list(range(axis % x.dim(), x.dim()))
        square = torch.mean(single * single, axes, keepdim=True)
        return (single * torch.rsqrt(square + epsilon)).to(x.dtype) * scale

    return rms_normalization


@operator("LRN", 1, 13)
def _lrn(call: Call) -> Operation:
    """A window of channels; of an even one, the longer half lies behind the channel."""
    size, bias = call.integer("size"), call.number("bias", 1.0)
    alpha, beta = call.number("alpha", 0.0001), call.number("beta", 0.75)
    before, behind = (size - 1) // 2, math.ceil((size - 1) / 2)

    def lrn(inputs: Any) -> torch.Tensor:
        x = inputs[0]
        square = x * x
        padded = functional.pad(square, [0, 0] * (x.dim() - 2) + [before, behind])
        total = sum(padded.narrow(1, start, x.shape[1]) for start in range(size))
        return x / torch.pow(bias + alpha / size * total, beta)

    return lrn


@operator("LpNormalization", 1, 22)
def _lp_normalization(call: Call) -> Operation:
    axis, order = call.integer("axis", -1), call.integer("p", 2)
    if order not in (1, 2):
        raise UnsupportedError(f"p={order}")

    def lp_normalization(inputs: Any) -> torch.Tensor:
        norm = torch.linalg.vector_norm(inputs[0], order, axis, keepdim=True)
        return torch.where(norm == 0, 0.0, inputs[0] / norm)

    return lp_normalization
