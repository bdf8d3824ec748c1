"""Operators that treat every element for itself: arithmetic, comparisons, types."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch.nn import functional

from profiler.torch_engine.dtypes import UnsupportedError, torch_dtype
from profiler.torch_engine.operators import Call, Operation, operator, register

Function = Callable[..., Any]


def _plain(function: Function) -> Callable[[Call], Operation]:
    """A builder for operators without attributes, whose inputs are the function's arguments."""

    def build(_call: Call) -> Operation:
        return lambda inputs: function(*inputs)

    return build


# Versions before these broadcast in another way, or carry attributes without meaning.
for _name, _first, _last, _function in (
    ("Abs", 6, 13, torch.abs),
    ("Acos", 7, 22, torch.acos),
    ("Acosh", 9, 22, torch.acosh),
    ("Asin", 7, 22, torch.asin),
    ("Asinh", 9, 22, torch.asinh),
    ("Atan", 7, 22, torch.atan),
    ("Atanh", 9, 22, torch.atanh),
    ("Ceil", 6, 13, torch.ceil),
    ("Cos", 7, 22, torch.cos),
    ("Cosh", 9, 22, torch.cosh),
    ("Erf", 9, 13, torch.erf),
    ("Exp", 6, 13, torch.exp),
    ("Floor", 6, 13, torch.floor),
    ("HardSwish", 14, 22, functional.hardswish),
    ("IsNaN", 9, 20, torch.isnan),
    ("Log", 6, 13, torch.log),
    ("Mish", 18, 22, functional.mish),
    ("Neg", 6, 13, torch.neg),
    ("Not", 1, 1, torch.logical_not),
    ("Reciprocal", 6, 13, torch.reciprocal),
    ("Relu", 6, 14, torch.relu),
    ("Round", 11, 22, torch.round),  # both round halves to even
    ("Sigmoid", 6, 13, torch.sigmoid),
    ("Sign", 9, 13, torch.sign),
    ("Sin", 7, 22, torch.sin),
    ("Sinh", 9, 22, torch.sinh),
    ("Softplus", 1, 22, functional.softplus),
    ("Softsign", 1, 22, functional.softsign),
    ("Sqrt", 6, 13, torch.sqrt),
    ("Tan", 7, 22, torch.tan),
    ("Tanh", 6, 13, torch.tanh),
    ("Add", 7, 14, torch.add),
    ("And", 7, 7, torch.logical_and),
    ("BitwiseAnd", 18, 18, torch.bitwise_and),
    ("BitwiseNot", 18, 18, torch.bitwise_not),
    ("BitwiseOr", 18, 18, torch.bitwise_or),
    ("BitwiseXor", 18, 18, torch.bitwise_xor),
    ("Equal", 7, 19, torch.eq),
    ("Greater", 7, 13, torch.gt),
    ("GreaterOrEqual", 12, 16, torch.ge),
    ("Less", 7, 13, torch.lt),
    ("LessOrEqual", 12, 16, torch.le),
    ("Mul", 7, 14, torch.mul),
    ("Or", 7, 7, torch.logical_or),
    ("Sub", 7, 14, torch.sub),
    ("Where", 9, 16, torch.where),
    ("Xor", 7, 7, torch.logical_xor),
):
    register(_name, _plain(_function), _first, _last)


def _chained(function: Function) -> Callable[[Call], Operation]:
    """A builder for operators of any number of inputs."""

    def build(_call: Call) -> Operation:
        return lambda inputs: reduce(function, inputs)

    return build


register("Max", _chained(torch.maximum), 6, 13)
register("Min", _chained(torch.minimum), 6, 13)
register("Sum", _chained(torch.add), 6, 13)


@operator("Mean", 6, 13)
def _mean(_call: Call) -> Operation:
    return lambda inputs: reduce(torch.add, inputs) / len(inputs)


@operator("Div", 7, 14)
def _div(_call: Call) -> Operation:
    """Whole numbers are divided towards zero, as ONNX Runtime does."""

    def div(inputs: Any) -> torch.Tensor:
        dividend, divisor = inputs
        if dividend.is_floating_point():
            return torch.div(dividend, divisor)
        return torch.div(dividend, divisor, rounding_mode="trunc")

    return div


@operator("Mod", 10, 28)
def _mod(call: Call) -> Operation:
    """``fmod`` takes the dividend's sign; without, the divisor's, of fractions since version 28."""
    fmod = call.flag("fmod")

    def mod(inputs: Any) -> torch.Tensor:
        dividend, divisor = inputs
        if fmod:
            return torch.fmod(dividend, divisor)
        if call.version < 28 and dividend.is_floating_point():
            raise ValueError("Mod of floating-point numbers needs fmod=1")
        return torch.remainder(dividend, divisor)

    return mod


@operator("Pow", 7, 15)
def _pow(_call: Call) -> Operation:
    """The result has the base's type, whatever the exponent's."""
    return lambda inputs: torch.pow(inputs[0], inputs[1]).to(inputs[0].dtype)


@operator("Clip", 6, 13)
def _clip(call: Call) -> Operation:
    """Bounds are attributes before version 11, then optional inputs; the upper one wins."""
    if call.version < 11:
        lowest, highest = torch.finfo(torch.float32).min, torch.finfo(torch.float32).max
        low, high = call.number("min", lowest), call.number("max", highest)
        return lambda inputs: torch.clamp(inputs[0], low, high)

    def clip(inputs: Any) -> torch.Tensor:
        x, *bounds = inputs
        given = [bound.reshape(()) if bound is not None else None for bound in bounds]
        least, most = (*given, None, None)[:2]
        return x if least is None and most is None else torch.clamp(x, least, most)

    return clip


@operator("IsInf", 10, 20)
def _is_inf(call: Call) -> Operation:
    positive, negative = call.flag("detect_positive", True), call.flag("detect_negative", True)

    def is_inf(inputs: Any) -> torch.Tensor:
        wanted = torch.isposinf(inputs[0]) if positive else torch.zeros_like(inputs[0]).bool()
        return wanted | torch.isneginf(inputs[0]) if negative else wanted

    return is_inf


@operator("Cast", 6, 28)
def _cast(call: Call) -> Operation:
    """Fractions are cut off. ``saturate`` and ``round_mode`` are for types that are refused."""
    dtype = torch_dtype(call.integer("to"))
    call.forget("saturate", "round_mode")
    return lambda inputs: inputs[0].to(dtype)


@operator("CastLike", 15, 25)
def _cast_like(call: Call) -> Operation:
    call.forget("saturate", "round_mode")
    return lambda inputs: inputs[0].to(inputs[1].dtype)


@operator("Dropout", 7, 22, outputs=2)
def _dropout(call: Call) -> Operation:
    """In inference nothing is dropped (versions 7 and 10; from 12 on unless an input asks)."""
    call.forget("ratio", "seed")
    wants_mask = call.outputs > 1

    def dropout(inputs: Any) -> Any:
        if len(inputs) > 2 and inputs[2] is not None and bool(inputs[2]):
            raise ValueError("Dropout in training mode")
        if not wants_mask:
            return inputs[0]
        return inputs[0], torch.ones_like(inputs[0], dtype=torch.bool)

    if call.version < 10 and wants_mask:
        raise UnsupportedError("output mask")
    training = call.constant(2)
    if training is not None and bool(training):
        raise UnsupportedError("training_mode=1")
    return dropout
