"""How a picture travels when the whole model runs in the cloud. Needs onnx (through the graph)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profiler.graph.feeds import Feeds
from profiler.values import TensorSlot
from protocol.codecs import JpegCodec
from protocol.preprocess import ImagePreprocess
from splitter.errors import PlanError
from splitter.plans import Candidate
from splitter.situation import InputEncoding

# JPEG at quality 90 of 96 natural-photo crops of 224x224 pixels: 17,992 bytes on average, which is
# 2.87 bits a pixel (measured with Pillow on EfficientNet-Lite0's calibration crops).
_JPEG90_BITS_PER_PIXEL = 2.87
# A fed tensor is a normalised picture if it comes back from 8 bits almost unchanged.
_LARGEST_ROUNDING = 0.51


def picture_encoding(
    preprocess: ImagePreprocess, inputs: Sequence[TensorSlot], feeds: Feeds, *, real: bool
) -> tuple[InputEncoding, str | None]:
    """Return how cloud-only sends a picture, and a note where its size is an estimate.

    Args:
        preprocess: The declared way from picture to input.
        inputs: Inputs of the model.
        feeds: What they were fed.
        real: Whether the feeds came from the user, not from a random generator.

    Raises:
        PlanError: No input, or more than one, fits the declared preprocessing.
    """
    slot = picture_input(preprocess, inputs)
    if feeds[slot.name].shape[0] != 1:
        raise PlanError(
            f"input {slot.name!r} is fed {feeds[slot.name].shape[0]} pictures at once; "
            "with preprocess declared, plan for one"
        )
    shape = (preprocess.height, preprocess.width, 3)
    codec = JpegCodec(90)
    if real:
        feed = feeds[slot.name].astype(np.float32, copy=False)
        pixels = preprocess.denormalise(feed)
        gap = np.abs(preprocess.normalise(pixels) - feed).max()
        if gap * min(preprocess.std) * 255 <= _LARGEST_ROUNDING:
            return InputEncoding(slot.name, codec.name, len(codec.encode(pixels)), shape), None
    estimate = round(preprocess.height * preprocess.width * _JPEG90_BITS_PER_PIXEL / 8)
    note = "Cloud only: a JPEG's size is estimated for photos; give a picture's tensor with --feed."
    return InputEncoding(slot.name, codec.name, estimate, shape), note


def sends_picture(candidate: Candidate, picture: InputEncoding | None) -> bool:
    """Whether a candidate sends the picture itself; its tensor may be the cheaper one."""
    return picture is not None and any(
        (tensor.name, tensor.codec) == (picture.tensor, picture.codec)
        for tensor in candidate.tensors
    )


def picture_input(preprocess: ImagePreprocess, inputs: Sequence[TensorSlot]) -> TensorSlot:
    """Return the input that takes the picture.

    Raises:
        PlanError: No input, or more than one, fits the declared preprocessing.
    """
    shape = preprocess.output_shape
    fitting = [slot for slot in inputs if slot.accepts("float32", shape)]
    if len(fitting) != 1:
        raise PlanError(
            f"preprocess makes float32 {list(shape)}, which fits "
            f"{len(fitting) or 'none'} of the model's {len(inputs)} inputs; mend the model config"
        )
    return fitting[0]
