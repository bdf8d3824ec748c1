"""The work of each layer of the networks that published tables time.

Some come as lists of layers in a table, others are built here from the papers that define them:
MobileNet v1 (arXiv:1704.04861, table 1), v2 (arXiv:1801.04381, table 2), and EfficientNet-Lite
(the stages of arXiv:1905.11946, table 1, with stem and head that do not grow).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from profiler.costs import OperatorClass, Work

__all__ = ["Network", "built_networks", "read_networks"]

Network = tuple[Work, ...]

_FLOAT_BYTES = 4
# They move nothing, or run only after the network proper.
_FREE_LAYERS = frozenset(
    {
        "DetectionOutput",
        "Flatten",
        "Input",
        "MemoryData",
        "Noop",
        "PriorBox",
        "Reshape",
        "Slice",
        "Split",
        "Yolov3DetectionOutput",
        "YoloDetectionOutput",
    }
)


def read_networks(path: Path) -> dict[str, Network]:
    """Read a table with one layer a row: model, type, shapes, kernel, groups, macs, elements."""
    layers: dict[str, list[Work]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            layers.setdefault(row["model"], [])
            if row["type"] not in _FREE_LAYERS:
                layers[row["model"]].append(_work(row))
    return {model: tuple(works) for model, works in layers.items()}


def _work(row: Mapping[str, str]) -> Work:
    kind = _kind(row)
    macs = int(row["macs"] or 0)
    weight_bytes = int(row["weight_elems"] or 0) * _FLOAT_BYTES
    if kind == "dense":
        weight_bytes //= 2  # ncnn keeps weights of fully connected layers in 16 bits
    elements = int(row["in_elems"] or 0) + int(row["out_elems"] or 0)
    moved = elements * _FLOAT_BYTES + weight_bytes
    return Work({kind: macs} if macs else {}, moved, kind)


def _kind(row: Mapping[str, str]) -> OperatorClass:
    layer = row["type"]
    if layer in {"ConvolutionDepthWise", "DeconvolutionDepthWise"}:
        channels = row["in_shapes"].rpartition("x")[2]
        return "depthwise" if row["groups"] == channels else "conv"
    if layer in {"Convolution", "Deconvolution"}:
        kernels: dict[str, OperatorClass] = {"1x1": "conv1x1", "3x3": "conv3x3"}
        return kernels.get(row["kernel"], "conv")
    if layer == "InnerProduct":
        return "dense"
    return "matmul" if layer in {"Gemm", "MultiHeadAttention"} else "elementwise"


def built_networks() -> dict[str, Callable[[int], Network]]:
    """Return a builder for each name; it takes the side of the square input in pixels."""
    return {
        **{f"mobilenet_v1_{width:g}": _mobilenet_v1(width) for width in (0.25, 0.5, 0.75)},
        "mobilenet_v1": _mobilenet_v1(1.0),
        **{
            f"mobilenet_v2_{width:g}": _mobilenet_v2(width) for width in (0.35, 0.5, 0.75, 1.3, 1.4)
        },
        "mobilenet_v2": _mobilenet_v2(1.0),
        "efficientnet_lite0": _efficientnet_lite(1.0, 1.0),
        "efficientnet_lite1": _efficientnet_lite(1.0, 1.1),
        "efficientnet_lite2": _efficientnet_lite(1.1, 1.2),
        "efficientnet_lite3": _efficientnet_lite(1.2, 1.4),
        "efficientnet_lite4": _efficientnet_lite(1.4, 1.8),
    }


@dataclass
class _Builder:
    """Appends layers; knows the side and channels of the current feature map."""

    side: int
    channels: int
    works: list[Work]

    def convolution(self, channels: int, kernel: int, stride: int = 1) -> None:
        kinds: dict[int, OperatorClass] = {1: "conv1x1", 3: "conv3x3"}
        self._layer(kinds.get(kernel, "conv"), channels, kernel, stride, self.channels)

    def depthwise(self, kernel: int, stride: int) -> None:
        self._layer("depthwise", self.channels, kernel, stride, 1)

    def _layer(
        self, kind: OperatorClass, channels: int, kernel: int, stride: int, group: int
    ) -> None:
        side = math.ceil(self.side / stride)
        weights = channels * group * kernel * kernel
        elements = self.side**2 * self.channels + side**2 * channels
        macs = side**2 * weights
        self.works.append(Work({kind: macs}, (elements + weights) * _FLOAT_BYTES, kind))
        self.side, self.channels = side, channels

    def inverted_residual(self, channels: int, expansion: int, kernel: int, stride: int) -> None:
        before, joined = self.channels, stride == 1 and channels == self.channels
        if expansion > 1:
            self.convolution(before * expansion, 1)
        self.depthwise(kernel, stride)
        self.convolution(channels, 1)
        if joined:
            size = self.side**2 * channels * _FLOAT_BYTES
            self.works.append(Work({}, 3 * size, "elementwise"))

    def classifier(self, classes: int = 1000) -> Network:
        pooled = (self.side**2 + 1) * self.channels * _FLOAT_BYTES
        self.works.append(Work({}, pooled, "elementwise"))
        weights = self.channels * classes
        self.works.append(Work({"dense": weights}, weights * _FLOAT_BYTES, "dense"))
        return tuple(self.works)


def _mobilenet_v1(width: float) -> Callable[[int], Network]:
    stages: tuple[tuple[int, int], ...] = (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
    )
    stages += ((512, 1),) * 5 + ((1024, 2), (1024, 1))

    def build(side: int) -> Network:
        builder = _Builder(side, 3, [])
        builder.convolution(_divisible(32 * width), 3, 2)
        for channels, stride in stages:
            builder.depthwise(3, stride)
            builder.convolution(_divisible(channels * width), 1)
        return builder.classifier()

    return build


# Expansion, kernel, channels, repeats, stride of each stage.
Stages = tuple[tuple[int, int, int, int, int], ...]
_MOBILENET_V2: Stages = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 3, 32, 3, 2),
    (6, 3, 64, 4, 2),
    (6, 3, 96, 3, 1),
    (6, 3, 160, 3, 2),
    (6, 3, 320, 1, 1),
)
_EFFICIENTNET: Stages = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)


def _mobilenet_v2(width: float) -> Callable[[int], Network]:
    def build(side: int) -> Network:
        builder = _Builder(side, 3, [])
        builder.convolution(_divisible(32 * width), 3, 2)
        for expansion, kernel, channels, repeats, stride in _MOBILENET_V2:
            for index in range(repeats):
                step = stride if index == 0 else 1
                builder.inverted_residual(_divisible(channels * width), expansion, kernel, step)
        builder.convolution(_divisible(1280 * max(1.0, width)), 1)
        return builder.classifier()

    return build


def _efficientnet_lite(width: float, depth: float) -> Callable[[int], Network]:
    """Neither stem and head nor the repeats of the first and last stage grow."""

    def build(side: int) -> Network:
        builder = _Builder(side, 3, [])
        builder.convolution(32, 3, 2)
        last = len(_EFFICIENTNET) - 1
        for number, (expansion, kernel, channels, repeats, stride) in enumerate(_EFFICIENTNET):
            count = repeats if number in {0, last} else math.ceil(repeats * depth)
            for index in range(count):
                step = stride if index == 0 else 1
                builder.inverted_residual(_divisible(channels * width), expansion, kernel, step)
        builder.convolution(1280, 1)
        return builder.classifier()

    return build


def _divisible(channels: float, divisor: int = 8) -> int:
    """Round to a multiple of 8, losing a tenth at most, as these networks do."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded
