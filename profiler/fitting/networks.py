"""The layers of each network that published tables time: read from a table, or built. Light."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from profiler.costs import OperatorClass
from profiler.fitting.large import (
    bert,
    resnet,
    retinanet_resnext50,
    ssd_resnet34,
    vit,
    yolov8,
)
from profiler.fitting.layers import IN_PLACE, Layer, Network, convolution_kind, winograd_macs
from profiler.fitting.mobile import efficientnet, mobilenet_v1, mobilenet_v2

__all__ = ["BUILT_NETWORKS", "read_networks"]

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
_IN_PLACE_LAYERS = frozenset(
    {"BinaryOp", "Eltwise", "HardSigmoid", "HardSwish", "PReLU", "ReLU", "Sigmoid", "Swish"}
)

# By name; each takes the input's side in pixels, or its length in tokens.
BUILT_NETWORKS: Mapping[str, Callable[[int], Network]] = {
    "bert_base": bert,
    "efficientnet_b0": lambda side: efficientnet(side, lite=False),
    "efficientnet_lite0": efficientnet,
    "efficientnet_lite1": lambda side: efficientnet(side, 1.0, 1.1),
    "efficientnet_lite2": lambda side: efficientnet(side, 1.1, 1.2),
    "efficientnet_lite3": lambda side: efficientnet(side, 1.2, 1.4),
    "efficientnet_lite4": lambda side: efficientnet(side, 1.4, 1.8),
    "mobilenet_v1": lambda side: mobilenet_v1(side, 1.0),
    "mobilenet_v1_0.25": lambda side: mobilenet_v1(side, 0.25),
    "mobilenet_v1_0.5": lambda side: mobilenet_v1(side, 0.5),
    "mobilenet_v1_0.75": lambda side: mobilenet_v1(side, 0.75),
    "mobilenet_v2": lambda side: mobilenet_v2(side, 1.0),
    "mobilenet_v2_0.35": lambda side: mobilenet_v2(side, 0.35),
    "mobilenet_v2_0.5": lambda side: mobilenet_v2(side, 0.5),
    "mobilenet_v2_0.75": lambda side: mobilenet_v2(side, 0.75),
    "mobilenet_v2_1.3": lambda side: mobilenet_v2(side, 1.3),
    "mobilenet_v2_1.4": lambda side: mobilenet_v2(side, 1.4),
    "resnet18": lambda side: resnet(side, (2, 2, 2, 2), bottleneck=False),
    "resnet50": lambda side: resnet(side, (3, 4, 6, 3), bottleneck=True),
    "retinanet_resnext50": retinanet_resnext50,
    "ssd_resnet34": ssd_resnet34,
    "vit_b16": lambda side: vit(side, 16, 768),
    "vit_s16": lambda side: vit(side, 16, 384),
    "yolov8m": lambda side: yolov8(side, 0.75, 0.67, 768),
    "yolov8n": lambda side: yolov8(side, 0.25, 0.33, 1024),
    "yolov8s": lambda side: yolov8(side, 0.5, 0.33, 1024),
}


def read_networks(path: Path) -> dict[str, Network]:
    """Read a table of layers: model, type, shapes, kernel, stride, groups, macs, elements."""
    layers: dict[str, list[Layer]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            layers.setdefault(row["model"], [])
            if row["type"] not in _FREE_LAYERS:
                layers[row["model"]].append(_layer(row))
    return {model: tuple(found) for model, found in layers.items()}


def _layer(row: Mapping[str, str]) -> Layer:
    kind = _kind(row)
    macs = int(row["macs"] or 0)
    if kind == "conv3x3":
        width, height = (int(side) for side in row["out_shapes"].split("x")[:2])
        macs = winograd_macs(macs, height, width)
    elements = int(row["in_elems"] or 0) + int(row["out_elems"] or 0)
    if row["type"] in _IN_PLACE_LAYERS:
        elements = int(elements * IN_PLACE)
    return Layer(kind, macs, elements, int(row["weight_elems"] or 0))


def _kind(row: Mapping[str, str]) -> OperatorClass:
    layer = row["type"]
    channels = row["in_shapes"].split(" ")[0].rpartition("x")[2]
    if layer in {"ConvolutionDepthWise", "DeconvolutionDepthWise"}:
        return "depthwise" if row["groups"] == channels else "conv"
    if layer in {"Convolution", "Deconvolution"}:
        width, height = row["kernel"].split("x")
        if width != height:
            return "conv"
        return convolution_kind(int(width), int(row["stride"]), int(channels))
    if layer == "InnerProduct":
        return "dense"
    return "matmul" if layer in {"Gemm", "MultiHeadAttention"} else "elementwise"
