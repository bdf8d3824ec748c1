from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from protocol.codecs import Float16Codec, RawCodec
from protocol.errors import CodecError, UnencodableValuesError
from protocol.tensors import TensorSpec
from tests.protocol.codecs.conformance import CodecConformance


class TestFloat16(CodecConformance):
    codec = Float16Codec()
    dtypes = ("float32", "float64")

    def tolerance(self, array):
        return np.maximum(np.abs(array.astype(np.float64)) * 2.0**-11, 2.0**-25)

    def arrays(self):
        return st.sampled_from((32, 64)).flatmap(
            lambda width: hypothesis_numpy.arrays(
                f"float{width}",
                self.strategy_shapes(),
                elements=st.floats(-65_504.0, 65_504.0, width=width),
            )
        )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 65_520.0, -65_520.0, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_it_cannot_carry_are_refused(value, dtype):
    array = np.zeros(1_000, dtype)
    array[500] = value
    with pytest.raises(UnencodableValuesError):
        Float16Codec().encode(array)


def test_the_largest_magnitude_that_does_not_overflow_is_carried():
    array = np.nextafter(np.float32(65_520.0), np.float32(0.0)) * np.array([1, -1], np.float32)
    decoded = Float16Codec().decode(Float16Codec().encode(array), TensorSpec.of("x", array))
    assert decoded.tolist() == [65_504.0, -65_504.0]


def test_everything_but_wider_floats_travels_raw():
    for dtype in ("float16", "int64", "bool", "uint8"):
        spec = TensorSpec("x", dtype, (4,))
        assert Float16Codec().resolve(spec) == RawCodec()
        assert Float16Codec().max_encoded_bytes(spec) == RawCodec().max_encoded_bytes(spec)
        with pytest.raises(CodecError, match="float16 cannot carry"):
            Float16Codec().encode(np.zeros(4, dtype))
        with pytest.raises(CodecError, match="float16 cannot carry"):
            Float16Codec().decode(b"", spec)
