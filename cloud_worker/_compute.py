"""From an accepted request to its answer: decode, run, encode. Runs on the inference thread."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from cloud_worker._work import EXPIRED, Computed, Failed
from profiler.errors import FeedError, RejectedError
from protocol import (
    CodecError,
    FailureCode,
    JpegCodec,
    ProtocolError,
    RawCodec,
    Timings,
    decode_tensor,
    encode_tensor,
    one_line,
    parse_codec,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloud_worker._work import Answer, Job
    from profiler.values import TensorSlot
    from protocol import Array, Clock, EncodedTensor, ImagePreprocess, Limits, TensorSpec

_RAW = RawCodec()
_LONGEST_TEXT = 500


class _BadTensorError(Exception):
    """The frontier that arrived is not the one that the tail takes."""


def compute(job: Job, clock: Clock, limits: Limits) -> Answer:
    """Compute one request. Whatever goes wrong fails this request only.

    Args:
        job: The request.
        clock: Tells how long the parts took, and when nobody waits any more.
        limits: What a decoded tensor may hold.
    """
    try:
        return _compute(job, clock, limits)
    except (_BadTensorError, FeedError) as error:
        return _failed(FailureCode.BAD_TENSOR, error)
    except RejectedError as error:
        return _failed(FailureCode.REJECTED, error)
    except Exception as error:  # noqa: BLE001 (whatever a runtime raises, the others go on)
        return _failed(FailureCode.INFERENCE_FAILED, error)


def _compute(job: Job, clock: Clock, limits: Limits) -> Answer:
    begun = clock.monotonic()
    if job.expired(begun):
        return EXPIRED
    try:
        feeds = _feeds(job, limits)
    except ProtocolError as error:
        raise _BadTensorError(str(error)) from error
    decoded = clock.monotonic()
    if job.expired(decoded):
        return EXPIRED
    outputs = job.tail.session.run(feeds, job.stop)
    ran = clock.monotonic()
    if job.expired(ran):
        return EXPIRED
    size = sum(outputs[name].nbytes for name in job.results)
    if size > job.max_result_bytes:
        text = f"the result takes {size} bytes; the agent takes {job.max_result_bytes}"
        return Failed(FailureCode.TOO_LARGE, text)
    tensors = tuple(encode_tensor(name, outputs[name], _RAW) for name in job.results)
    encoded = clock.monotonic()
    timings = Timings(
        queue_ms=(begun - job.accepted_at) * 1000,
        decode_ms=(decoded - begun) * 1000,
        inference_ms=(ran - decoded) * 1000,
        encode_ms=(encoded - ran) * 1000,
    )
    return Computed(timings, tensors)


def can_decode(codec: str) -> bool:
    """Whether this worker can decode what a codec of this name makes."""
    try:
        parsed = parse_codec(codec)
    except CodecError:
        return False
    return not isinstance(parsed, JpegCodec) or importlib.util.find_spec("PIL") is not None


def _feeds(job: Job, limits: Limits) -> Mapping[str, Array]:
    slots = job.tail.inputs
    arrived = [tensor.spec.name for tensor in job.tensors]
    if len(arrived) != len(slots) or set(arrived) != slots.keys():
        raise _BadTensorError(f"tensors {arrived} came; the tail takes {list(slots)}")
    # All are checked before the first is decoded: decoding takes time and memory.
    for tensor in job.tensors:
        _check(tensor.spec, slots[tensor.spec.name], job.preprocess)
    return {tensor.spec.name: _feed(tensor, job, limits) for tensor in job.tensors}


def _feed(tensor: EncodedTensor, job: Job, limits: Limits) -> Array:
    array = decode_tensor(tensor, limits)
    if job.preprocess is None or not _are_pixels(tensor.spec, job.tail.inputs[tensor.spec.name]):
        return array
    return job.preprocess.normalise(array)


def _are_pixels(spec: TensorSpec, slot: TensorSlot) -> bool:
    """Whether a picture came where the model wants it normalised."""
    return spec.dtype == "uint8" and len(spec.shape) == 3 and slot.dtype != "uint8"


def _check(spec: TensorSpec, slot: TensorSlot, preprocess: ImagePreprocess | None) -> None:
    """Refuse a tensor that the tail does not take.

    Raises:
        _BadTensorError: Naming the tensor, what came and what is wanted.
    """
    if preprocess is not None and _are_pixels(spec, slot):
        wanted = f"uint8[{preprocess.height}, {preprocess.width}, 3]"
        # The picture must fit what the agent declared, and what it declared must fit the model:
        # a picture of some kilobytes can be declared to have a gigabyte of pixels.
        fits = spec.shape == (preprocess.height, preprocess.width, 3) and slot.accepts(
            "float32", preprocess.output_shape
        )
    else:
        axes = ", ".join("any" if axis is None else str(axis) for axis in slot.shape)
        wanted = f"{slot.dtype}[{axes}]"
        # The runtime reports a scalar and a shape that was never declared alike.
        fits = slot.accepts(spec.dtype, spec.shape if slot.shape else ())
    if not fits:
        raise _BadTensorError(f"tensor {spec} came; the tail takes {wanted}")


def _failed(code: FailureCode, error: Exception) -> Failed:
    return Failed(code, one_line(str(error) or type(error).__name__, _LONGEST_TEXT))
