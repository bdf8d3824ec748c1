"""How windows lie on the spatial axes of convolutions and poolings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from profiler.torch_engine.operators import Call

Pads = list[tuple[int, int]]

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True)
class Window:
    """Attributes that convolutions and poolings share; lists that are not given are None.

    Attributes:
        auto_pad: How pads follow from the shape.
        kernel: Lengths of the window.
        strides: Steps between windows.
        dilations: Steps inside a window.
        pads: Begin of each axis, then end of each axis.
    """

    auto_pad: str
    kernel: list[int] | None
    strides: list[int] | None
    dilations: list[int] | None
    pads: list[int] | None

    @classmethod
    def of(cls, call: Call) -> Window:
        """Read the attributes of a node."""
        return cls(
            call.choice("auto_pad", "NOTSET", _AUTO_PADS),
            call.integers("kernel_shape"),
            call.integers("strides"),
            call.integers("dilations"),
            call.integers("pads"),
        )

    def steps(self, rank: int) -> list[int]:
        """Steps between windows on each axis."""
        return self.strides or [1] * rank

    def gaps(self, rank: int) -> list[int]:
        """Steps inside a window on each axis."""
        return self.dilations or [1] * rank

    def reach(self, kernel: Sequence[int]) -> list[int]:
        """How many elements a window spans on each axis."""
        gaps = self.gaps(len(kernel))
        return [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]

    def padding(self, lengths: Sequence[int], kernel: Sequence[int]) -> Pads:
        """Pads of each axis. SAME makes as many windows as steps fit; an odd pad goes UPPER or not.

        Args:
            lengths: Of the input's spatial axes.
            kernel: Of the window.
        """
        rank = len(lengths)
        if self.auto_pad == "VALID" or (self.auto_pad == "NOTSET" and not self.pads):
            return [(0, 0)] * rank
        if self.auto_pad == "NOTSET":
            assert self.pads is not None  # noqa: S101 (for mypy)
            return list(zip(self.pads[:rank], self.pads[rank:], strict=True))
        totals = self._same_totals(lengths, kernel)
        return [halves(max(total, 0), self.auto_pad == "SAME_UPPER") for total in totals]

    def check_reach(self, lengths: Sequence[int], kernel: Sequence[int]) -> None:
        """Refuse SAME where strides leave input behind the last window.

        Raises:
            ValueError: They do. Then ONNX Runtime shifts AveragePool, does not run MaxPool, and
                computes Conv as if nothing were to be padded.
        """
        if self.auto_pad.startswith("SAME") and min(self._same_totals(lengths, kernel)) < 0:
            raise ValueError(f"auto_pad={self.auto_pad} with strides longer than the window")

    def _same_totals(self, lengths: Sequence[int], kernel: Sequence[int]) -> list[int]:
        spans = zip(lengths, self.reach(kernel), self.steps(len(kernel)), strict=True)
        return [
            (math.ceil(length / step) - 1) * step + reach - length for length, reach, step in spans
        ]


def halves(total: int, upper: bool) -> tuple[int, int]:
    """Split a pad into begin and end; the end of an odd one is longer if ``upper``."""
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def symmetric(pads: Pads) -> bool:
    """Whether torch's own padding can do it."""
    return all(begin == end and begin >= 0 for begin, end in pads)


def pad_spatial(x: torch.Tensor, pads: Pads, value: float) -> torch.Tensor:
    """Pad the last axes; negative pads cut off."""
    flat = [side for begin, end in reversed(pads) for side in (begin, end)]
    return functional.pad(x, flat, value=value) if any(flat) else x
