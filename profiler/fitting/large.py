"""Larger networks: residual networks, detectors, transformers. Light.

Built from what defines them: ResNet (arXiv:1512.03385, table 1; stride in the 3x3 convolution), SSD
with ResNet-34 (MLPerf inference, 1200x1200, 81 classes), RetinaNet with ResNeXt-50 32x4d (MLPerf
inference, 800x800, 264 classes; arXiv:1708.02002), YOLOv8 (ultralytics yolov8.yaml), ViT
(arXiv:2010.11929, table 1) and BERT (arXiv:1810.04805, section 3).
"""

from __future__ import annotations

from profiler.fitting.layers import Network, Stack

__all__ = ["bert", "resnet", "retinanet_resnext50", "ssd_resnet34", "vit", "yolov8"]


def resnet(side: int, repeats: tuple[int, ...], bottleneck: bool) -> Network:
    """Build a residual network with its classifier."""
    stack = _residual_stem(side)
    for stage, count in enumerate(repeats):
        _residual_stage(stack, 64 << stage, count, bottleneck, 1 if stage == 0 else 2)
    stack.classifier()
    return stack.network


def ssd_resnet34(side: int) -> Network:
    """Build SSD on the first three stages of ResNet-34; the third keeps its side."""
    stack = _residual_stem(side)
    for stage, (count, stride) in enumerate(((3, 1), (4, 2), (6, 1))):
        _residual_stage(stack, 64 << stage, count, False, stride)
    classes, anchors = 81, (4, 6, 6, 6, 4, 4)
    extras = ((256, 512, 2), (256, 512, 2), (128, 256, 2), (128, 256, 2), (128, 256, 1))
    for index, per_place in enumerate(anchors):
        # The first head looks at every third place, the others likewise coarsely.
        _head(stack, per_place * (classes + 4), 3, 3 if index == 0 else 2 if index < 4 else 1)
        if index < len(extras):
            inner, channels, stride = extras[index]
            stack.convolution(inner, 1)
            stack.convolution(channels, 3, stride)
    return stack.network


def retinanet_resnext50(side: int) -> Network:
    """Build RetinaNet: ResNeXt-50 32x4d, a feature pyramid, and two heads at five levels."""
    stack = _residual_stem(side)
    levels = []
    for stage, count in enumerate((3, 4, 6, 3)):
        _residual_stage(stack, 64 << stage, count, True, 1 if stage == 0 else 2, groups=32)
        levels.append((stack.side, stack.channels))
    pyramid = levels[1:]
    for level_side, channels in pyramid:
        stack.side, stack.channels = level_side, channels
        stack.convolution(256, 1)
        stack.convolution(256, 3)
    stack.convolution(256, 3, 2)
    stack.convolution(256, 3, 2)
    anchors, classes = 9, 264
    for power in range(5):
        level_side = -(-pyramid[0][0] // 2**power)
        for outputs in (anchors * classes, anchors * 4):
            stack.side, stack.channels = level_side, 256
            for _ in range(4):
                stack.convolution(256, 3)
            stack.convolution(outputs, 3)
    return stack.network


def yolov8(side: int, width: float, depth: float, most_channels: int) -> Network:
    """Build YOLOv8 as ONNX Runtime runs it: each convolution is followed by its activation."""

    def channels(count: int) -> int:
        return -(-int(min(count, most_channels) * width) // 8) * 8

    def repeats(count: int) -> int:
        return max(round(count * depth), 1)

    stack = Stack(side)
    outputs: dict[int, tuple[int, int]] = {}
    _active(stack, channels(64), 3, 2)
    for level, (wide, count) in enumerate(((128, 3), (256, 6), (512, 6), (1024, 3))):
        _active(stack, channels(wide), 3, 2)
        _split_block(stack, channels(wide), repeats(count), joined=True)
        outputs[level] = stack.side, stack.channels
    _pyramid_pool(stack)
    deep = outputs[3]
    up: dict[int, tuple[int, int]] = {3: deep}
    for level, wide in ((2, 512), (1, 256)):
        stack.side = outputs[level][0]
        stack.channels += outputs[level][1]
        stack.elementwise(2 * stack.elements)
        _split_block(stack, channels(wide), repeats(3), joined=False)
        up[level] = stack.side, stack.channels
    scales = [up[1]]
    for level, wide in ((2, 512), (3, 1024)):
        _active(stack, stack.channels, 3, 2)
        stack.channels += up[level][1]
        stack.elementwise(2 * stack.elements)
        _split_block(stack, channels(wide), repeats(3), joined=False)
        scales.append((stack.side, stack.channels))
    _yolo_heads(stack, scales)
    return stack.network


def vit(side: int, patch: int, width: int, blocks: int = 12) -> Network:
    """Build a vision transformer with its classifier."""
    stack = Stack(side)
    stack.convolution(width, patch, patch)
    _transformer(stack, stack.side**2 + 1, width, blocks)
    stack.dense(width, 1000)
    return stack.network


def bert(length: int) -> Network:
    """Build BERT-base for one sequence, with the two outputs of question answering."""
    stack = Stack(1)
    _transformer(stack, length, 768, 12)
    stack.product(length, 768, 2)
    return stack.network


def _transformer(stack: Stack, rows: int, width: int, blocks: int) -> None:
    heads = width // 64
    for _ in range(blocks):
        stack.elementwise(2 * rows * width)
        stack.product(rows, width, 3 * width)
        stack.product(rows, width, rows, weights=False)
        stack.elementwise(2 * heads * rows * rows)
        stack.product(rows, rows, width, weights=False)
        stack.product(rows, width, width)
        stack.elementwise(4 * rows * width)
        stack.product(rows, width, 4 * width)
        stack.elementwise(8 * rows * width)
        stack.product(rows, 4 * width, width)
        stack.elementwise(2 * rows * width)


def _residual_stem(side: int) -> Stack:
    stack = Stack(side)
    stack.convolution(64, 7, 2)
    stack.pool(2)
    return stack


def _residual_stage(
    stack: Stack, width: int, count: int, bottleneck: bool, stride: int, groups: int = 1
) -> None:
    channels = 4 * width if bottleneck else width
    inner = width if groups == 1 else 2 * width
    for index in range(count):
        step = stride if index == 0 else 1
        if step > 1 or stack.channels != channels:
            _head(stack, channels, 1, step)
        if bottleneck:
            stack.convolution(inner, 1)
            stack.convolution(inner, 3, step, groups)
            stack.convolution(channels, 1)
        else:
            stack.convolution(channels, 3, step)
            stack.convolution(channels, 3)
        stack.addition()


def _head(stack: Stack, channels: int, kernel: int, stride: int) -> None:
    """Add a convolution beside the main path, which goes on from where it was."""
    kept = stack.side, stack.channels
    stack.convolution(channels, kernel, stride)
    stack.side, stack.channels = kept


def _active(stack: Stack, channels: int, kernel: int, stride: int = 1) -> None:
    stack.convolution(channels, kernel, stride)
    stack.activation()


def _split_block(stack: Stack, channels: int, count: int, joined: bool) -> None:
    """Split the map in two halves, refine one, and join all halves (C2f)."""
    half = channels // 2
    _active(stack, channels, 1)
    for _ in range(count):
        stack.channels = half
        _active(stack, half, 3)
        _active(stack, half, 3)
        if joined:
            stack.addition()
    stack.channels = (2 + count) * half
    stack.elementwise(2 * stack.elements)
    _active(stack, channels, 1)


def _pyramid_pool(stack: Stack) -> None:
    channels = stack.channels
    _active(stack, channels // 2, 1)
    for _ in range(3):
        stack.pool(1)
    stack.channels = 2 * channels
    stack.elementwise(2 * stack.elements)
    _active(stack, channels, 1)


def _yolo_heads(stack: Stack, scales: list[tuple[int, int]]) -> None:
    classes, bins = 80, 16
    narrowest = scales[0][1]
    box, label = max(16, narrowest // 4, 4 * bins), max(narrowest, min(classes, 100))
    for side, channels in scales:
        for inner, outputs in ((box, 4 * bins), (label, classes)):
            stack.side, stack.channels = side, channels
            _active(stack, inner, 3)
            _active(stack, inner, 3)
            stack.convolution(outputs, 1)
