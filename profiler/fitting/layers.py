"""What fitting knows of a network: a list of layers, and a builder of such lists. Light."""

from __future__ import annotations

import math
from dataclasses import dataclass

from profiler.costs import OperatorClass

__all__ = ["IN_PLACE", "Layer", "Network", "Stack", "convolution_kind", "winograd_macs"]

# Share of its bytes that an activation or addition counts for: it works in place, on what the layer
# before has left in the caches. Chosen by cross-validation over all devices of the table.
IN_PLACE = 0.3
_TILE = 4
_LEAST_CHANNELS = 16
_KERNELS: dict[int, OperatorClass] = {1: "conv1x1", 3: "conv3x3"}


@dataclass(frozen=True)
class Layer:
    """One layer of a network, with batch 1.

    Attributes:
        kind: Its class. ``conv3x3`` is only what engines transform by Winograd's method (stride 1,
            16 input channels or more); other 3x3 convolutions are ``conv``.
        macs: Multiply-accumulates; for ``conv3x3`` those of whole 4x4 tiles.
        activations: Elements read and written.
        weights: Elements of weights read.
    """

    kind: OperatorClass
    macs: int
    activations: int
    weights: int


Network = tuple[Layer, ...]


def convolution_kind(kernel: int, stride: int, channels: int) -> OperatorClass:
    """Return the class of an ungrouped convolution with a square kernel."""
    kind = _KERNELS.get(kernel, "conv")
    transformed = stride == 1 and channels >= _LEAST_CHANNELS
    return "conv" if kind == "conv3x3" and not transformed else kind


def winograd_macs(macs: int, height: int, width: int) -> int:
    """Count the multiply-accumulates of whole tiles: 7x7 outputs take as long as 8x8."""
    whole = math.ceil(height / _TILE) * math.ceil(width / _TILE) * _TILE**2
    return macs * whole // (height * width)


class Stack:
    """Appends layers to a square feature map; knows its side and channels."""

    def __init__(self, side: int, channels: int = 3) -> None:
        self.side = side
        self.channels = channels
        self._layers: list[Layer] = []

    @property
    def elements(self) -> int:
        """Elements of the current feature map."""
        return self.side**2 * self.channels

    @property
    def network(self) -> Network:
        """The layers so far."""
        return tuple(self._layers)

    def convolution(self, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        """Add a convolution that keeps the side, but for its stride."""
        before, inputs = self.elements, self.channels // groups
        kind = convolution_kind(kernel, stride, self.channels) if groups == 1 else "conv"
        if groups == self.channels == channels and groups > 1:
            kind = "depthwise"
        self.side, self.channels = math.ceil(self.side / stride), channels
        weights = channels * inputs * kernel**2
        macs = self.side**2 * weights
        if kind == "conv3x3":
            macs = winograd_macs(macs, self.side, self.side)
        self._layers.append(Layer(kind, macs, before + self.elements, weights))

    def depthwise(self, kernel: int, stride: int = 1) -> None:
        """Add a depthwise convolution."""
        self.convolution(self.channels, kernel, stride, groups=self.channels)

    def activation(self) -> None:
        """Add an activation that is a layer of its own."""
        self.elementwise(int(2 * self.elements * IN_PLACE))

    def addition(self) -> None:
        """Add the sum of two feature maps."""
        self.elementwise(int(3 * self.elements * IN_PLACE))

    def elementwise(self, activations: int) -> None:
        """Add a layer that only moves elements."""
        self._layers.append(Layer("elementwise", 0, activations, 0))

    def pool(self, stride: int) -> None:
        """Add a pooling that divides the side."""
        before = self.elements
        self.side = math.ceil(self.side / stride)
        self.elementwise(before + self.elements)

    def dense(self, inputs: int, outputs: int) -> None:
        """Add a product of one row with a matrix of weights."""
        self._layers.append(Layer("dense", inputs * outputs, inputs + outputs, inputs * outputs))

    def product(self, rows: int, inner: int, columns: int, weights: bool = True) -> None:
        """Add a matrix product of [rows, inner] with [inner, columns]."""
        second = inner * columns
        moved = rows * (inner + columns) + (0 if weights else second)
        macs = rows * second
        self._layers.append(Layer("matmul", macs, moved, second if weights else 0))

    def classifier(self, classes: int = 1000) -> None:
        """Add the mean over the feature map and a dense layer."""
        self.elementwise(self.elements + self.channels)
        self.dense(self.channels, classes)
