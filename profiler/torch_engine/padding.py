"""The operator Pad."""

from __future__ import annotations

from typing import Any

import torch

from profiler.torch_engine.dtypes import UnsupportedError
from profiler.torch_engine.geometry import Pads, pad_spatial
from profiler.torch_engine.operators import Call, Operation, integers_of, operator


@operator("Pad", 2, 25, host=(1, 2, 3))
def _pad(call: Call) -> Operation:
    """Pads are attributes before version 11, then inputs, which may name axes (version 18)."""
    modes = ["constant", "edge", "reflect"] + ["wrap"] * (call.version >= 19)
    mode = call.choice("mode", "constant", modes)
    fixed: list[int] | None = None
    value = 0.0
    if call.version < 11:
        fixed, value = call.integers("pads"), call.number("value", 0.0)
        if fixed is None:
            raise UnsupportedError("no attribute pads")

    def pad(inputs: Any) -> torch.Tensor:
        x, *given = inputs
        sides, filler, axes = fixed or [], value, None
        if fixed is None:
            sides = integers_of(given[0])
            filler = given[1].item() if len(given) > 1 and given[1] is not None else 0
            axes = integers_of(given[2]) if len(given) > 2 and given[2] is not None else None
        pads = _by_axis(sides, x.dim(), axes)
        return pad_spatial(x, pads, filler) if mode == "constant" else _mirror(x, pads, mode)

    return pad


def _by_axis(sides: list[int], rank: int, axes: list[int] | None) -> Pads:
    axes = list(range(rank)) if axes is None else axes
    pads = [(0, 0)] * rank
    for axis, begin, end in zip(axes, sides[: len(axes)], sides[len(axes) :], strict=True):
        pads[axis] = (begin, end)
    return pads


def _mirror(x: torch.Tensor, pads: Pads, mode: str) -> torch.Tensor:
    """Repeat what is there: the edge, what a mirror at the edge shows, or from the other end."""
    for axis, (begin, end) in enumerate(pads):
        if begin < 0 or end < 0:
            raise ValueError(f"mode={mode} with negative pads")
        if not begin and not end:
            continue
        length = x.shape[axis]
        places = torch.arange(-begin, length + end, device=x.device)
        if mode == "edge":
            places = places.clamp(0, length - 1)
        elif mode == "wrap":
            places = places.remainder(length)
        else:
            period = max(2 * (length - 1), 1)
            places = places.remainder(period)
            places = torch.minimum(places, period - places) if length > 1 else places * 0
        x = x.index_select(axis, places)
    return x
