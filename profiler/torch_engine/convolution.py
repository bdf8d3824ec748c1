"""Convolutions."""

from __future__ import annotations

from typing import Any

import torch

from profiler.torch_engine.geometry import Pads, Window, halves, pad_spatial, symmetric
from profiler.torch_engine.operators import Call, Operation, operator


def _kernel(window: Window, weight: torch.Tensor) -> list[int]:
    kernel = list(weight.shape[2:])
    if window.kernel is not None and window.kernel != kernel:
        raise ValueError(f"kernel_shape {window.kernel} is not that of the weight, {kernel}")
    return kernel


@operator("Conv", 1, 22)
def _conv(call: Call) -> Operation:
    window, group = Window.of(call), call.integer("group", 1)

    def conv(inputs: Any) -> torch.Tensor:
        x, weight = inputs[:2]
        bias = inputs[2] if len(inputs) > 2 else None
        kernel = _kernel(window, weight)
        rank = len(kernel)
        pads = window.padding(x.shape[2:], kernel)
        own = [begin for begin, _ in pads] if symmetric(pads) else [0] * rank
        if not symmetric(pads):
            x = pad_spatial(x, pads, 0)
        steps, gaps = window.steps(rank), window.gaps(rank)
        return torch.convolution(x, weight, bias, steps, own, gaps, False, [0] * rank, group)

    return conv


@operator("ConvTranspose", 1, 22)
def _conv_transpose(call: Call) -> Operation:
    window, group = Window.of(call), call.integer("group", 1)
    wanted, added = call.integers("output_shape"), call.integers("output_padding")

    def conv_transpose(inputs: Any) -> torch.Tensor:
        x, weight = inputs[:2]
        bias = inputs[2] if len(inputs) > 2 else None
        kernel = _kernel(window, weight)
        rank = len(kernel)
        extra = added or [0] * rank
        full = _full_lengths(window, list(x.shape[2:]), kernel)
        pads = _pads(window, full, list(x.shape[2:]), extra, wanted)
        none, steps, gaps = [0] * rank, window.steps(rank), window.gaps(rank)
        if symmetric(pads) and not any(extra):
            own = [begin for begin, _ in pads]
            return torch.convolution(x, weight, bias, steps, own, gaps, True, none, group)
        # torch pads both sides alike and bounds what may be added, so: all of it, then cut or add.
        y = torch.convolution(x, weight, None, steps, none, gaps, True, none, group)
        cuts = [(-begin, more - end) for (begin, end), more in zip(pads, extra, strict=True)]
        y = pad_spatial(y, cuts, 0)
        return y if bias is None else y + bias.reshape(-1, *[1] * rank)

    return conv_transpose


def _full_lengths(window: Window, lengths: list[int], kernel: list[int]) -> list[int]:
    """What comes out where nothing is cut off."""
    spans = zip(lengths, window.steps(len(lengths)), window.reach(kernel), strict=True)
    return [(length - 1) * step + reach for length, step, reach in spans]


def _pads(
    window: Window, full: list[int], lengths: list[int], extra: list[int], wanted: list[int] | None
) -> Pads:
    """What is cut off: as given, or what leads to the wanted length; SAME wants input x stride.

    Raises:
        ValueError: SAME would have to add instead, as ONNX says, which ONNX Runtime does not do.
    """
    rank = len(full)
    if wanted is None and window.auto_pad.startswith("SAME"):
        wanted = [n * step for n, step in zip(lengths, window.steps(rank), strict=True)]
        if any(goal > n + more for goal, n, more in zip(wanted, full, extra, strict=True)):
            raise ValueError(f"auto_pad={window.auto_pad} with strides longer than the kernel")
    if wanted is None:
        return window.padding(lengths, [1] * rank)
    pads = []
    for length, more, goal in zip(full, extra, wanted[-rank:], strict=True):
        total = length + more - goal
        # Where more is wanted than there is, it is added at the end.
        pads.append(halves(total, window.auto_pad == "SAME_UPPER") if total > 0 else (0, total))
    return pads
