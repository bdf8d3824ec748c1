"""From the engine that was measured to the one that a preset predicts. Light.

ONNX Runtime lowers 3x3 convolutions to the matrix product behind 1x1 convolutions, without the
Winograd transform that lifts the fitted 3x3 rate above the chip's peak, and computes in float32
where other engines use 16 bits. So there is no one factor between two engines: networks of 3x3
convolutions lose most. What is left is compared with the few rows of ONNX Runtime.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profiler.fitting.amounts import ITEM_BYTES, Gpu
from profiler.fitting.regression import Fit
from profiler.fitting.table import Row

__all__ = [
    "FALLBACKS",
    "EngineFactor",
    "compare",
    "gpu_rates",
    "plain",
    "rates",
    "significant",
]

# ONNX Runtime's LSTM on one EPYC core, 27 GMAC/s, is three quarters as fast as the 1x1 convolutions
# there; smaller caches will do a little worse.
_RECURRENT_SLOWDOWN = 1.5
# Two rows of one machine say little about another. TFLite, which does not transform convolutions
# either, takes 1.05 to 1.8 times what the converted fit says on a Raspberry Pi 4 (14 networks).
_LEAST_SPREAD = 0.3
_ARITHMETIC = ("conv1x1", "conv3x3", "conv", "depthwise", "matmul")
FALLBACKS = {
    "matmul": "it counts as fast as 1x1 convolutions; PyTorch's was 1.1 and 2.5 times as fast.",
    "recurrent": "it counts two thirds as fast as 1x1 convolutions.",
}


@dataclass(frozen=True)
class EngineFactor:
    """How many times as slow ONNX Runtime is as the converted fit of another engine.

    Attributes:
        value: Geometric mean over the rows.
        spread: How far it may be off, relatively: the row that is farthest, and 30 % at least.
    """

    value: float
    spread: float


def plain(fit: Fit, measured: str, predicted: str) -> Fit:
    """Return a fit without the Winograd transform, and in another precision.

    Args:
        fit: Of the engine that was measured.
        measured: Its precision.
        predicted: The precision wanted; twice the bits take twice the time.
    """
    slower = ITEM_BYTES[predicted] / ITEM_BYTES[measured]
    costs = {name: cost * (slower if name in _ARITHMETIC else 1.0) for name, cost in fit.ms.items()}
    return Fit({**costs, "conv3x3": costs["conv1x1"]})


def compare(fit: Fit, rows: Sequence[Row]) -> EngineFactor:
    """Compare a converted fit with rows of ONNX Runtime."""
    logs = [math.log(row.latency_ms / fit.predict_ms(row.amounts)) for row in rows]
    mean = float(np.mean(logs))
    farthest = math.exp(max(abs(log - mean) for log in logs)) - 1
    return EngineFactor(math.exp(mean), max(farthest, _LEAST_SPREAD))


def rates(fit: Fit, factor: float, precision: str) -> dict[str, Any]:
    """Return the rates of a preset for a processor.

    Args:
        fit: Of the engine that the preset predicts.
        factor: How many times as slow that engine is.
        precision: In which it computes; models count bytes of float32.
    """
    slow = {name: cost * factor for name, cost in fit.ms.items()}
    per_second = {name: 1 / cost for name, cost in slow.items()}
    stored = ITEM_BYTES["float32"] / ITEM_BYTES[precision]
    return _rounded(
        {
            **{name: per_second[name] for name in ("conv1x1", "conv3x3", "conv", "depthwise")},
            "matmul": per_second.get("matmul", per_second["conv1x1"]),
            "recurrent": per_second["conv1x1"] / _RECURRENT_SLOWDOWN,
        },
        per_second["megabyte"] * stored,
        per_second["elementwise"] * stored,
        slow["layer"],
    )


def gpu_rates(fit: Fit, gpu: Gpu, precision: str) -> dict[str, Any]:
    """Return the rates of a preset for a GPU under TensorRT, all arithmetic alike."""
    rate = gpu.speed(precision) / fit.ms["conv"]
    stored = ITEM_BYTES["float32"] / ITEM_BYTES[precision]
    bandwidth = gpu.bandwidth_gb_s / fit.ms["megabyte"] * stored
    classes = dict.fromkeys(_ARITHMETIC, rate) | {"recurrent": rate / _RECURRENT_SLOWDOWN}
    return _rounded(classes, bandwidth, bandwidth, fit.ms["layer"])


def _rounded(
    gmacs_s: Mapping[str, float], bandwidth: float, elementwise: float, layer_ms: float
) -> dict[str, Any]:
    return {
        "gmacs_s": {name: significant(rate) for name, rate in gmacs_s.items()},
        "bandwidth_gb_s": significant(bandwidth),
        "elementwise_gb_s": significant(elementwise),
        "layer_us": significant(layer_ms * 1e3),
    }


def significant(value: float) -> float:
    """Round to three significant digits."""
    return float(f"{value:.3g}")
