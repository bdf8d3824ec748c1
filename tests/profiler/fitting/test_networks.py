"""Networks have the size that their papers, or the tables, say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from profiler.fitting.layers import Network, winograd_macs
from profiler.fitting.networks import BUILT_NETWORKS, read_networks

if TYPE_CHECKING:
    from pathlib import Path


def gmacs(network: Network) -> float:
    return sum(layer.macs for layer in network) / 1e9


def mega_weights(network: Network) -> float:
    return sum(layer.weights for layer in network) / 1e6


@pytest.mark.parametrize(
    ("name", "size", "expected_gmacs"),
    [
        # From the papers that define them: arXiv:1704.04861 and 1801.04381; EfficientNet-Lite0 is
        # counted from the network itself; ViT and YOLOv8 as published by timm and Ultralytics.
        ("mobilenet_v1", 224, 0.569),
        ("mobilenet_v1_0.5", 224, 0.149),
        ("mobilenet_v2", 224, 0.300),
        ("mobilenet_v2_1.4", 224, 0.582),
        ("efficientnet_lite0", 224, 0.38519),
        ("efficientnet_b0", 224, 0.3858),
        ("vit_s16", 224, 4.61),
        ("vit_b16", 224, 17.58),
        ("yolov8n", 640, 4.35),
        ("yolov8s", 640, 14.3),
        ("yolov8m", 640, 39.45),
    ],
)
def test_built_networks_have_the_published_arithmetic(
    name: str, size: int, expected_gmacs: float
) -> None:
    assert gmacs(BUILT_NETWORKS[name](size)) == pytest.approx(expected_gmacs, rel=0.006)


@pytest.mark.parametrize(
    ("name", "size", "millions"),
    [
        ("resnet18", 224, 11.69),
        ("resnet50", 224, 25.56),
        ("efficientnet_b0", 224, 5.29),
        ("bert_base", 128, 85.05),  # without the embeddings
        ("vit_b16", 224, 86.57),
        ("yolov8n", 640, 3.2),
        ("yolov8s", 640, 11.2),
        ("yolov8m", 640, 25.9),
    ],
)
def test_built_networks_have_the_published_weights(name: str, size: int, millions: float) -> None:
    assert mega_weights(BUILT_NETWORKS[name](size)) == pytest.approx(millions, rel=0.02)


def test_detectors_have_about_the_arithmetic_of_the_benchmark() -> None:
    # MLPerf inference states 433 GFLOP for SSD ResNet-34 at 1200x1200; whole tiles add 3 %.
    assert gmacs(BUILT_NETWORKS["ssd_resnet34"](1200)) == pytest.approx(433 / 2, rel=0.05)


def test_winograd_counts_whole_tiles() -> None:
    assert winograd_macs(49, 7, 7) == 64
    assert winograd_macs(100, 8, 4) == 100


def test_layers_are_read_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text(
        "model,type,in_shapes,out_shapes,kernel,stride,groups,macs,weight_elems,in_elems,out_elems\n"
        "net,Input,,,,,,0,0,0,300\n"
        "net,Convolution,10x10x3,10x10x1,3x3,1,1,2700,27,300,100\n"
        "net,Convolution,8x8x16,8x8x1,3x3,1,1,9216,144,1024,64\n"
        "net,Convolution,8x8x16,4x4x1,3x3,2,1,2304,144,1024,16\n"
        "net,ConvolutionDepthWise,10x10x8,10x10x8,3x3,1,8,7200,72,800,800\n"
        "net,ConvolutionDepthWise,10x10x8,10x10x8,3x3,1,2,9,9,9,9\n"
        "net,InnerProduct,800,10,,,,8000,8000,800,10\n"
        "net,ReLU,10,10,,,,,0,10,10\n"
    )
    network = read_networks(path)["net"]
    assert [layer.kind for layer in network] == [
        "conv",
        "conv3x3",
        "conv",
        "depthwise",
        "conv",
        "dense",
        "elementwise",
    ]
    assert (network[0].activations, network[0].weights) == (400, 27)
    assert network[-1].activations == 6  # works in place: 0.3 of 20
