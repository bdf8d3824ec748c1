"""Mobile networks: MobileNet, EfficientNet. Light.

Built from the papers that define them: MobileNet v1 (arXiv:1704.04861, table 1), v2
(arXiv:1801.04381, table 2), EfficientNet (arXiv:1905.11946, table 1), and its Lite variants, which
have no squeeze-and-excitation and whose stem and head do not grow.
"""

from __future__ import annotations

import math

from profiler.fitting.layers import Network, Stack

__all__ = ["efficientnet", "mobilenet_v1", "mobilenet_v2"]

# Expansion, kernel, channels, repeats, stride of each stage.
_Stages = tuple[tuple[int, int, int, int, int], ...]
_MOBILENET_V2: _Stages = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 3, 32, 3, 2),
    (6, 3, 64, 4, 2),
    (6, 3, 96, 3, 1),
    (6, 3, 160, 3, 2),
    (6, 3, 320, 1, 1),
)
_EFFICIENTNET: _Stages = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
_MOBILENET_V1 = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)


def mobilenet_v1(side: int, width: float) -> Network:
    """Build MobileNet v1 for square inputs."""
    stack = Stack(side)
    stack.convolution(_divisible(32 * width), 3, 2)
    for channels, stride in _MOBILENET_V1:
        stack.depthwise(3, stride)
        stack.convolution(_divisible(channels * width), 1)
    stack.classifier()
    return stack.network


def mobilenet_v2(side: int, width: float) -> Network:
    """Build MobileNet v2 for square inputs."""
    stack = Stack(side)
    stack.convolution(_divisible(32 * width), 3, 2)
    for expansion, kernel, channels, repeats, stride in _MOBILENET_V2:
        for index in range(repeats):
            step = stride if index == 0 else 1
            _inverted_residual(stack, _divisible(channels * width), expansion, kernel, step)
    stack.convolution(_divisible(1280 * max(1.0, width)), 1)
    stack.classifier()
    return stack.network


def efficientnet(side: int, width: float = 1.0, depth: float = 1.0, lite: bool = True) -> Network:
    """Build an EfficientNet; neither stem and head nor the first and last stage's repeats grow."""
    stack = Stack(side)
    stack.convolution(32, 3, 2)
    last = len(_EFFICIENTNET) - 1
    for number, (expansion, kernel, channels, repeats, stride) in enumerate(_EFFICIENTNET):
        count = repeats if number in {0, last} else math.ceil(repeats * depth)
        for index in range(count):
            step = stride if index == 0 else 1
            squeezed = 0 if lite else stack.channels // 4
            target = _divisible(channels * width)
            _inverted_residual(stack, target, expansion, kernel, step, squeezed)
    stack.convolution(1280, 1)
    stack.classifier()
    return stack.network


def _inverted_residual(
    stack: Stack, channels: int, expansion: int, kernel: int, stride: int, squeezed: int = 0
) -> None:
    joined = stride == 1 and channels == stack.channels
    if expansion > 1:
        stack.convolution(stack.channels * expansion, 1)
        if squeezed:
            stack.activation()
    stack.depthwise(kernel, stride)
    if squeezed:
        stack.activation()
        stack.elementwise(stack.elements + stack.channels)
        stack.dense(stack.channels, squeezed)
        stack.dense(squeezed, stack.channels)
        stack.activation()
    stack.convolution(channels, 1)
    if joined:
        stack.addition()


def _divisible(channels: float, divisor: int = 8) -> int:
    """Round to a multiple of 8, losing a tenth at most, as these networks do."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded
