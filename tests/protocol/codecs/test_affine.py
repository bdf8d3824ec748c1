from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from protocol.codecs import AffineCodec, RawCodec
from protocol.codecs._zstd import compress as zstd_compress
from protocol.errors import CodecError, UnencodableValuesError
from protocol.tensors import TensorSpec
from tests.protocol.codecs.conformance import CodecConformance

FLOAT32_MAX = float(np.finfo(np.float32).max)


class AffineConformance(CodecConformance):
    dtypes = ("float32", "float16", "float64")

    def tolerance(self, array):
        """The bound that the codec's docstring states."""
        if array.size == 0:
            return np.zeros(array.shape)
        low, high = float(np.float32(array.min())), float(np.float32(array.max()))
        largest = max(abs(low), abs(high))
        bound = (high - low) / (2 * (2**self.codec.bits - 1)) + largest * 2.0**-20
        if array.dtype == np.float16:
            bound += largest * 2.0**-11 + 2.0**-25
        # float32 itself resolves no finer than its smallest subnormal.
        return np.full(array.shape, bound + 2.0**-149)

    def arrays(self):
        wide = st.sampled_from((16, 32)).flatmap(
            lambda width: hypothesis_numpy.arrays(
                f"float{width}",
                self.strategy_shapes(),
                elements=st.floats(allow_nan=False, allow_infinity=False, width=width),
            )
        )
        double = hypothesis_numpy.arrays(
            "float64", self.strategy_shapes(), elements=st.floats(-FLOAT32_MAX, FLOAT32_MAX)
        )
        # Far from zero and close together: where a careless formula cancels.
        narrow = st.floats(-1e6, 1e6, width=32).flatmap(
            lambda centre: hypothesis_numpy.arrays(
                "float32", self.strategy_shapes(), elements=st.floats(0, 1, width=32)
            ).map(lambda array: array + np.float32(centre))
        )
        return wide | double | narrow

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_it_cannot_carry_are_refused(self, value):
        array = np.zeros(100_000, np.float32)
        array[70_000] = value
        with pytest.raises(UnencodableValuesError):
            self.codec.encode(array)

    def test_magnitudes_beyond_float32_are_refused(self):
        with pytest.raises(UnencodableValuesError):
            self.codec.encode(np.array([0.0, 1e39]))

    def test_extremes_of_float32_come_back(self):
        tiny = 2.0**-149
        for values in (
            [FLOAT32_MAX, -FLOAT32_MAX, 0.0],
            [FLOAT32_MAX, FLOAT32_MAX, 0.0],
            [tiny, -tiny, 0.0, 3 * tiny],
            [1e-38, 0.0, 5e-39],
            [5.0, 5.0],
            [-0.0],
        ):
            for dtype in ("float32", "float64"):
                self.check(np.array(values, dtype))

    def test_lowest_and_highest_element_are_kept_closely(self):
        array = self.example(shape=(100, 100))
        decoded = self.round_trip(array)
        assert decoded.min() == pytest.approx(array.min(), rel=1e-6)
        assert decoded.max() == pytest.approx(array.max(), rel=1e-6)

    def test_zero_stays_zero_after_a_relu(self):
        array = np.maximum(self.example(shape=(100, 100)), 0)
        decoded = self.round_trip(array)
        assert not decoded[array == 0].any()

    def test_everything_but_floats_travels_raw(self):
        for dtype in ("int8", "int64", "bool", "uint8"):
            spec = TensorSpec("x", dtype, (4,))
            assert self.codec.resolve(spec) == RawCodec()
            assert self.codec.max_encoded_bytes(spec) == RawCodec().max_encoded_bytes(spec)
            with pytest.raises(CodecError, match="cannot carry"):
                self.codec.encode(np.zeros(4, dtype))
            with pytest.raises(CodecError, match="cannot carry"):
                self.codec.decode(b"", spec)

    @pytest.mark.parametrize(
        "extremes", [(np.nan, 1.0), (0.0, np.nan), (-np.inf, 0.0), (0.0, np.inf), (1.0, 0.0)]
    )
    def test_a_range_that_is_none_is_refused(self, extremes):
        payload = zstd_compress(struct.pack("<2f", *extremes) + bytes(self.codec.bits // 4))
        with pytest.raises(CodecError, match="range"):
            self.codec.decode(payload, TensorSpec("x", "float32", (2,)))

    def test_blocks_leave_no_seam(self):
        # Odd sizes around the block length, so that 4-bit pairs meet every border.
        for elements in (65_535, 65_536, 65_537, 131_071, 131_073, 200_001):
            self.check(self.example(shape=(elements,), seed=elements))


class TestAffine8(AffineConformance):
    codec = AffineCodec(8)


class TestAffine4(AffineConformance):
    codec = AffineCodec(4)


def test_the_content_of_the_frame_is_as_documented():
    import zstandard

    array = np.array([0.0, 15.0, 1.0, 2.0, 14.0], np.float32)
    four = zstandard.decompress(AffineCodec(4).encode(array))
    assert four == struct.pack("<2f", 0.0, 15.0) + bytes([0xF0, 0x21, 0x0E])
    eight = zstandard.decompress(AffineCodec(8).encode(array * 17))
    assert eight == struct.pack("<2f", 0.0, 255.0) + bytes([0, 255, 17, 34, 238])


def test_other_numbers_of_bits_are_refused():
    with pytest.raises(CodecError, match="8 or 4 bits"):
        AffineCodec(5)
