"""How fast this machine encodes and decodes tensors.

Needs onnx (through the probes); the JPEG codec is measured where Pillow is there.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from profiler.probes import cache_evictor
from profiler.profile import CodecSpeed
from protocol.codecs import CODEC_NAMES, EncodedTensor, decode_tensor, encode_tensor, parse_codec
from protocol.errors import CodecError
from protocol.limits import Limits
from protocol.preprocess import ImagePreprocess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from profiler.timing import FineClock
    from protocol.codecs import Codec

__all__ = ["measure_codecs"]

_ROUNDS = 9
_SMALL_ELEMENTS = 256
_PICTURE_SIDE = 224
_HALF = (0.5, 0.5, 0.5)
_UNLIMITED = Limits(tensor_bytes=1 << 40, message_bytes=1 << 40)


def measure_codecs(tensors: Sequence[NDArray[Any]], clock: FineClock) -> dict[str, CodecSpeed]:
    """Time each codec on tensors like those that will be sent.

    The values matter: an activation with many zeros packs faster than noise. Decoding a picture
    includes normalising it, since whoever receives one does both.

    Args:
        tensors: Float tensors; noise where there are none.
        clock: What to time with.

    Returns:
        Speeds by codec name; without the JPEG codecs where Pillow is missing.
    """
    large = [array for array in tensors if array.size > 4 * _SMALL_ELEMENTS] or [_noise()]
    speeds = {}
    for name in CODEC_NAMES:
        codec = parse_codec(name)
        try:
            if name.startswith("jpeg"):
                picture = _picture()
                speeds[name] = _speed(codec, picture[:16, :16], [picture], clock)
            else:
                speeds[name] = _speed(codec, large[0].ravel()[:_SMALL_ELEMENTS], large, clock)
        except CodecError:
            continue  # Pillow is missing, so no picture will be sent either
    return speeds


def _speed(
    codec: Codec, small: NDArray[Any], large: Sequence[NDArray[Any]], clock: FineClock
) -> CodecSpeed:
    """Fit a straight line through the times of a small and of large tensors."""
    small = np.ascontiguousarray(small)
    small_encode_ms, small_decode_ms = _times_ms(codec, small, clock)
    times = [_times_ms(codec, array, clock) for array in large]
    megabytes = sum(array.nbytes - small.nbytes for array in large) / 1e6

    def mb_s(small_ms: float, large_ms: float) -> float:
        # Below a microsecond a megabyte the timer, not the codec, would be measured.
        return megabytes / max(1e-3 * megabytes, large_ms - small_ms * len(large)) * 1e3

    return CodecSpeed(
        encode_mb_s=mb_s(small_encode_ms, sum(encode for encode, _ in times)),
        decode_mb_s=mb_s(small_decode_ms, sum(decode for _, decode in times)),
        fixed_ms=(small_encode_ms + small_decode_ms) / 2,
    )


def _times_ms(codec: Codec, array: NDArray[Any], clock: FineClock) -> tuple[float, float]:
    """Median times to encode and to decode."""
    encoded = encode_tensor("tensor", array, codec)
    evict = cache_evictor()

    def timed(work: Callable[[], object]) -> float:
        evict()
        before = clock.monotonic()
        work()
        return (clock.monotonic() - before) * 1e3

    encode = [timed(lambda: encode_tensor("tensor", array, codec)) for _ in range(_ROUNDS)]
    decode = [timed(lambda: _receive(encoded)) for _ in range(_ROUNDS)]
    return statistics.median(encode), statistics.median(decode)


def _receive(encoded: EncodedTensor) -> None:
    array = decode_tensor(encoded, _UNLIMITED)
    if array.dtype == np.uint8:
        ImagePreprocess(array.shape[0], array.shape[1], _HALF, _HALF).normalise(array)


def _noise() -> NDArray[Any]:
    """What a rectified feature map looks like to a codec: half zeros, half noise."""
    values = np.random.default_rng(0).standard_normal(1 << 16).astype(np.float32)
    return np.maximum(values, 0)


def _picture() -> NDArray[Any]:
    """A smooth picture with some grain, as hard to pack as a photo."""
    rows, columns = np.mgrid[0:_PICTURE_SIDE, 0:_PICTURE_SIDE] / _PICTURE_SIDE
    waves = np.stack([np.sin(7 * rows), np.cos(5 * columns), np.sin(9 * rows * columns)], axis=-1)
    grain = np.random.default_rng(0).standard_normal(waves.shape)
    return np.clip(128 + 90 * waves + 6 * grain, 0, 255).astype(np.uint8)
