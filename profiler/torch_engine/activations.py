"""Activations with parameters; those without are in :mod:`profiler.torch_engine.elementwise`."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from profiler.torch_engine.operators import Call, Operation, operator


@operator("PRelu", 7, 16)
def _prelu(_call: Call) -> Operation:
    def prelu(inputs: Any) -> torch.Tensor:
        x, slope = inputs
        return torch.where(x < 0, x * slope, x)

    return prelu


@operator("LeakyRelu", 6, 16)
def _leaky_relu(call: Call) -> Operation:
    alpha = call.number("alpha", 0.01)
    return lambda inputs: functional.leaky_relu(inputs[0], alpha)


@operator("ThresholdedRelu", 10, 22)
def _thresholded_relu(call: Call) -> Operation:
    alpha = call.number("alpha", 1.0)
    return lambda inputs: torch.where(inputs[0] > alpha, inputs[0], 0.0)


@operator("Elu", 6, 22)
def _elu(call: Call) -> Operation:
    alpha = call.number("alpha", 1.0)
    return lambda inputs: functional.elu(inputs[0], alpha)


@operator("Celu", 12, 28)
def _celu(call: Call) -> Operation:
    alpha = call.number("alpha", 1.0)
    return lambda inputs: functional.celu(inputs[0], alpha)


@operator("Selu", 6, 22)
def _selu(call: Call) -> Operation:
    alpha = call.number("alpha", 1.67326319217681884765625)
    gamma = call.number("gamma", 1.05070102214813232421875)
    return lambda inputs: gamma * functional.elu(inputs[0], alpha)


@operator("HardSigmoid", 6, 22)
def _hard_sigmoid(call: Call) -> Operation:
    alpha, beta = call.number("alpha", 0.2), call.number("beta", 0.5)
    return lambda inputs: torch.clamp(inputs[0] * alpha + beta, 0.0, 1.0)


@operator("Gelu", 20, 20)
def _gelu(call: Call) -> Operation:
    approximate = call.choice("approximate", "none", ("none", "tanh"))
    return lambda inputs: functional.gelu(inputs[0], approximate=approximate)


@operator("Swish", 24, 24)
def _swish(call: Call) -> Operation:
    alpha = call.number("alpha", 1.0)
    return lambda inputs: inputs[0] * torch.sigmoid(alpha * inputs[0])


@operator("Shrink", 9, 9)
def _shrink(call: Call) -> Operation:
    bias, limit = call.number("bias", 0.0), call.number("lambd", 0.5)

    def shrink(inputs: Any) -> torch.Tensor:
        x = inputs[0]
        return torch.where(x < -limit, x + bias, torch.where(x > limit, x - bias, 0)).to(x.dtype)

    return shrink
