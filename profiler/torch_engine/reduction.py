"""Operators that reduce axes, and those that order or accumulate along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from profiler.torch_engine.dtypes import UnsupportedError
from profiler.torch_engine.operators import Call, Operation, integers_of, operator, register

Reduce = Callable[[torch.Tensor, list[int], bool], torch.Tensor]


def _sum(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    return torch.sum(x, axes, keep, dtype=x.dtype)


def _prod(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = torch.prod(x, axis, keep, dtype=x.dtype)
    return x


def _max(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """Of nothing, the maximum is the least value of the type."""
    return _filled(x, axes, keep, lowest=True) if not x.numel() else torch.amax(x, axes, keep)


def _min(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    return _filled(x, axes, keep, lowest=False) if not x.numel() else torch.amin(x, axes, keep)


def _filled(x: torch.Tensor, axes: list[int], keep: bool, *, lowest: bool) -> torch.Tensor:
    if x.dtype is torch.bool:
        value: Any = not lowest
    elif x.is_floating_point():
        value = float("-inf") if lowest else float("inf")
    else:
        value = torch.iinfo(x.dtype).min if lowest else torch.iinfo(x.dtype).max
    return torch.full_like(_sum(x.to(torch.float32), axes, keep), value, dtype=x.dtype)


# What each computes of an array, the version in which axes became an input, and the last version.
_REDUCTIONS: dict[str, tuple[Reduce, int, int]] = {
    "ReduceL1": (lambda x, axes, keep: _sum(x.abs(), axes, keep), 18, 18),
    "ReduceL2": (lambda x, axes, keep: _root(_sum(x * x, axes, keep)), 18, 18),
    "ReduceLogSum": (lambda x, axes, keep: torch.log(_sum(x, axes, keep)), 18, 28),
    "ReduceLogSumExp": (torch.logsumexp, 18, 28),
    "ReduceMax": (_max, 18, 20),
    "ReduceMean": (torch.mean, 18, 18),
    "ReduceMin": (_min, 18, 20),
    "ReduceProd": (_prod, 18, 18),
    "ReduceSum": (_sum, 13, 13),
    "ReduceSumSquare": (lambda x, axes, keep: _sum(x * x, axes, keep), 18, 18),
}
# Without axes, and asked to do nothing then, only of these is it clear that nothing is done.
_PLAIN = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})


def _root(x: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(x.to(torch.float64)).to(x.dtype) if not x.is_floating_point() else x.sqrt()


def _reducing(name: str, reduce: Reduce, axes_as_input: int) -> Callable[[Call], Operation]:
    def build(call: Call) -> Operation:
        keep, fixed = call.flag("keepdims", True), None
        if call.version < axes_as_input:
            fixed = call.integers("axes")
        keeps_all = call.flag("noop_with_empty_axes")
        if keeps_all and name not in _PLAIN and not call.has(1):
            raise UnsupportedError("noop_with_empty_axes=1")

        def run(inputs: Any) -> torch.Tensor:
            x, axes = inputs[0], fixed
            if len(inputs) > 1 and inputs[1] is not None:
                axes = integers_of(inputs[1])
            if not axes:
                if keeps_all and name not in _PLAIN:
                    raise ValueError("noop_with_empty_axes=1 without axes")
                if keeps_all:
                    return x
                axes = list(range(x.dim()))
            return reduce(x, axes, keep)

        return run

    return build


for _name, (_reduce, _axes_as_input, _last) in _REDUCTIONS.items():
    register(_name, _reducing(_name, _reduce, _axes_as_input), 1, _last, host=(1,))


def _extreme(function: Callable[..., torch.Tensor]) -> Callable[[Call], Operation]:
    """ArgMax and ArgMin; of equal values the first counts, or the last where it is asked for."""

    def build(call: Call) -> Operation:
        axis, keep = call.integer("axis", 0), call.flag("keepdims", True)
        last = call.flag("select_last_index")

        def run(inputs: Any) -> torch.Tensor:
            x = inputs[0]
            if not last:
                return function(x, axis, keep)
            return x.shape[axis] - 1 - function(x.flip(axis), axis, keep)

        return run

    return build


register("ArgMax", _extreme(torch.argmax), 1, 13)
register("ArgMin", _extreme(torch.argmin), 1, 13)


@operator("TopK", 1, 24, outputs=2, host=(1,))
def _top_k(call: Call) -> Operation:
    """Of equal values the one of the lower index comes first, so the order must be stable."""
    axis, largest = call.integer("axis", -1), call.flag("largest", True)
    fixed = call.integer("k") if call.version < 10 else 0
    call.forget("sorted")

    def top_k(inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        count = fixed or integers_of(inputs[1])[0]
        values, indices = torch.sort(inputs[0], dim=axis, descending=largest, stable=True)
        return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)

    return top_k


@operator("CumSum", 11, 14, host=(1,))
def _cum_sum(call: Call) -> Operation:
    exclusive, reverse = call.flag("exclusive"), call.flag("reverse")

    def cum_sum(inputs: Any) -> torch.Tensor:
        x, axis = inputs[0], integers_of(inputs[1])[0]
        x = x.flip(axis) if reverse else x
        total = torch.cumsum(x, axis, dtype=x.dtype)
        if exclusive:
            total = total - x
        return total.flip(axis) if reverse else total

    return cum_sum


def _along_one_axis(function: Callable[..., torch.Tensor]) -> Callable[[Call], Operation]:
    """Softmax and its kin: before version 13 over all axes from one on, then over that one."""

    def build(call: Call) -> Operation:
        flattens = call.version < 13
        axis = call.integer("axis", 1 if flattens else -1)

        def run(inputs: Any) -> torch.Tensor:
            x = inputs[0]
            if not flattens:
                return function(x, axis)
            return function(x.flatten(axis) if x.dim() else x, -1).reshape(x.shape)

        return run

    return build


def _hardmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    first = torch.argmax(x, axis, keepdim=True)
    return torch.zeros_like(x).scatter(axis, first, torch.ones_like(x))


register("Softmax", _along_one_axis(torch.softmax), 1, 13)
register("LogSoftmax", _along_one_axis(torch.log_softmax), 1, 13)
register("Hardmax", _along_one_axis(_hardmax), 1, 13)
