"""How fast codecs are, timed with a clock that moves by the bytes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from profiler import codec_speeds
from profiler.codec_speeds import measure_codecs
from profiler.timing import FineClock
from protocol.codecs import CODEC_NAMES
from protocol.testing import FakeClock

if TYPE_CHECKING:
    from protocol.codecs import Codec, EncodedTensor

IMAGES = [name for name in CODEC_NAMES if name.startswith("jpeg")]
TENSORS = [np.linspace(-1, 1, 50_000, dtype=np.float32), np.zeros((3, 40, 40), np.float32)]


def test_every_codec_is_measured() -> None:
    speeds = measure_codecs(TENSORS, FineClock())
    assert list(speeds) == list(CODEC_NAMES)
    for speed in speeds.values():
        assert speed.encode_mb_s > 0
        assert speed.decode_mb_s > 0
        assert speed.fixed_ms > 0


def test_a_model_without_float_tensors_is_measured_on_noise() -> None:
    assert list(measure_codecs([], FineClock())) == list(CODEC_NAMES)


def test_without_pillow_there_are_no_picture_codecs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    speeds = measure_codecs(TENSORS, FineClock())
    assert [name for name in CODEC_NAMES if name not in speeds] == IMAGES


def test_size_and_fixed_cost_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec that takes 1 ms and 10 ms a megabyte, decoding twice as fast."""
    clock = FakeClock()
    encode, decode = codec_speeds.encode_tensor, codec_speeds.decode_tensor

    def slow_encode(name: str, array: np.ndarray, codec: Codec) -> EncodedTensor:
        clock.advance(1e-3 + array.nbytes / 1e6 * 10e-3)
        return encode(name, array, codec)

    def slow_decode(encoded: EncodedTensor, limits: object) -> np.ndarray:
        clock.advance(1e-3 + encoded.spec.raw_bytes / 1e6 * 5e-3)
        return decode(encoded, limits)

    monkeypatch.setattr(codec_speeds, "encode_tensor", slow_encode)
    monkeypatch.setattr(codec_speeds, "decode_tensor", slow_decode)
    speed = measure_codecs(TENSORS, clock)["affine8"]
    assert speed.encode_mb_s == pytest.approx(100)
    assert speed.decode_mb_s == pytest.approx(200)
    assert speed.fixed_ms == pytest.approx(1, rel=0.02)
