"""How much of each kind of work a network takes on a processor or a GPU. Light.

Work is counted in columns; a fit gives each column a cost in ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.fitting.layers import Network

__all__ = ["COLUMNS", "ITEM_BYTES", "Amounts", "Gpu", "amounts", "gpu_amounts"]

# Millions of multiply-accumulates by operator class; then 10^6 bytes moved by layers with
# arithmetic and by others, and layers.
COLUMNS = (
    "conv1x1",
    "conv3x3",
    "conv",
    "depthwise",
    "matmul",
    "megabyte",
    "elementwise",
    "layer",
)
Amounts = NDArray[np.float64]
ITEM_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2, "int8": 1}
# At batch 1 a larger chip is filled less: arithmetic speeds up with this power of the peak. Chosen
# among 0.25, 0.5, 0.75 and 1 by leaving each network out of all GPUs with TensorRT rows.
_PEAK_POWER = 0.75
_BITS_16 = 2


@dataclass(frozen=True)
class Gpu:
    """What a data sheet says of a GPU.

    Attributes:
        peak_gmacs_s: 10^9 multiply-accumulates a second by precision; the tensor cores' for
            ``float16`` and, twice as many, ``int8``.
        bandwidth_gb_s: 10^9 bytes a second.
    """

    peak_gmacs_s: Mapping[str, float]
    bandwidth_gb_s: float

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Gpu:
        """Read an entry of ``gpus`` in devices.yaml: TFLOP/s, and GB/s or a list of them."""
        bandwidth = data["bw_gbs"]
        peaks = {
            "float32": data["fp32"] * 500.0,
            "float16": data["fp16_tensor"] * 500.0,
            "int8": data["fp16_tensor"] * 1000.0,
        }
        return Gpu(peaks, float(max(bandwidth) if isinstance(bandwidth, list) else bandwidth))

    def speed(self, precision: str) -> float:
        """Arithmetic speed relative to a chip with a peak of 1 TMAC/s."""
        return float((self.peak_gmacs_s[precision] / 1e3) ** _PEAK_POWER)


def amounts(network: Network, precision: str) -> Amounts:
    """Count a network's work on a processor."""
    item = ITEM_BYTES[precision]
    counts = dict.fromkeys(COLUMNS, 0.0)
    for layer in network:
        # ncnn keeps the weights of dense layers in 16 bits, whatever it computes in.
        weight_bytes = layer.weights * (_BITS_16 if layer.kind == "dense" else item)
        megabytes = (layer.activations * item + weight_bytes) / 1e6
        if layer.kind == "elementwise":
            counts["elementwise"] += megabytes
        else:
            counts["megabyte"] += megabytes
        # Reading the weights bounds a dense layer: its arithmetic is free.
        if layer.kind in counts and layer.macs:
            counts[layer.kind] += layer.macs / 1e6
        counts["layer"] += 1
    return np.array(list(counts.values()))


def gpu_amounts(network: Network, gpu: Gpu, precision: str) -> Amounts:
    """Count a network's work under TensorRT, in units of what the chip can do.

    TensorRT merges layers without arithmetic into others. All arithmetic is in the column ``conv``,
    since a GPU has two to nine rows.
    """
    layers = [layer for layer in network if layer.kind != "elementwise"]
    moved = sum(layer.activations + layer.weights for layer in layers) * ITEM_BYTES[precision]
    counts = dict.fromkeys(COLUMNS, 0.0)
    counts["conv"] = sum(layer.macs for layer in layers) / 1e6 / gpu.speed(precision)
    counts["megabyte"] = moved / 1e6 / gpu.bandwidth_gb_s
    counts["layer"] = len(layers)
    return np.array(list(counts.values()))
