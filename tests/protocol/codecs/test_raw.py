from __future__ import annotations

import numpy as np
import pytest

from protocol.codecs import RawCodec
from protocol.codecs._zstd import EMPTY_FRAME
from protocol.codecs._zstd import compress as zstd_compress
from protocol.errors import CodecError
from protocol.tensors import TensorSpec
from tests.protocol.codecs.conformance import CodecConformance


class TestRaw(CodecConformance):
    codec = RawCodec()


def test_special_floats_travel_bit_for_bit():
    for dtype in ("float16", "float32", "float64"):
        info = np.finfo(dtype)
        array = np.array(
            [np.nan, -np.nan, np.inf, -np.inf, -0.0, info.smallest_subnormal, info.max], dtype
        )
        decoded = RawCodec().decode(RawCodec().encode(array), TensorSpec.of("x", array))
        assert decoded.tobytes() == array.tobytes()


def test_a_bool_of_another_byte_than_0_and_1_is_refused():
    payload = zstd_compress(bytes([0, 1, 2]))
    with pytest.raises(CodecError, match="other than 0 and 1"):
        RawCodec().decode(payload, TensorSpec("mask", "bool", (3,)))


def test_incompressible_elements_stay_within_the_bound():
    random = np.random.default_rng(3)
    for elements in (0, 1, 100, 131_071, 131_072, 131_073, 3_000_000):
        array = random.integers(0, 256, elements).astype(np.uint8)
        payload = RawCodec().encode(array)
        assert elements <= len(payload)
        assert len(payload) <= RawCodec().max_encoded_bytes(TensorSpec.of("x", array))


def test_an_empty_tensor_is_one_fixed_frame():
    # zstandard answers frames of declared size 0 without looking at checksum or rest.
    array = np.empty((2, 0), np.float32)
    assert RawCodec().encode(array) == EMPTY_FRAME
    damaged = EMPTY_FRAME[:-1] + b"\0"
    for payload in (b"", damaged, EMPTY_FRAME + EMPTY_FRAME, b"\x50\x2a\x4d\x18" + bytes(4)):
        with pytest.raises(CodecError, match="empty"):
            RawCodec().decode(payload, TensorSpec.of("x", array))


def test_text_is_refused():
    with pytest.raises(CodecError, match="str"):
        RawCodec().encode(np.array(["a"]))
