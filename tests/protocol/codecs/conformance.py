"""What every codec promises; a test class per codec inherits it."""

from __future__ import annotations

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from protocol.codecs import RawCodec, codec_from_dict, parse_codec
from protocol.errors import CodecError
from protocol.tensors import ITEM_BYTES, TensorSpec

SHAPES = ((), (1,), (7,), (0,), (3, 0, 2), (1, 1, 5, 3), (1, 8, 4, 4), (70_001,))


class CodecConformance:
    """Subclasses give the codec, its dtypes, arrays of them, and the error they may come back with.

    ``tolerance`` says how far a decoded element may be from the original.
    """

    codec = RawCodec()
    dtypes = tuple(ITEM_BYTES)
    shapes = SHAPES

    def tolerance(self, array):
        return np.zeros(array.shape)

    def example(self, dtype="float32", shape=(1, 8, 4, 4), seed=0):
        random = np.random.default_rng(seed)
        if dtype == "bool":
            return random.random(shape) > 0.5
        if dtype.startswith("float"):
            return random.normal(size=shape, scale=3.0).astype(dtype)
        return random.integers(0, 100, shape).astype(dtype)

    def arrays(self):
        """A strategy of arrays that the codec must carry."""
        return st.sampled_from(self.dtypes).flatmap(
            lambda dtype: hypothesis_numpy.arrays(dtype, self.strategy_shapes())
        )

    def strategy_shapes(self):
        return hypothesis_numpy.array_shapes(min_dims=0, min_side=0, max_side=6)

    def small_example(self):
        return self.example(self.dtypes[0])

    def spec(self, array):
        return TensorSpec.of("x", array)

    def round_trip(self, array):
        payload = self.codec.encode(array)
        spec = self.spec(array)
        assert len(payload) <= self.codec.max_encoded_bytes(spec)
        decoded = self.codec.decode(payload, spec)
        assert decoded.dtype == np.dtype(spec.dtype)
        assert decoded.shape == array.shape
        return decoded

    def check(self, array):
        decoded = self.round_trip(array)
        tolerance = self.tolerance(array)
        if not tolerance.any():
            assert decoded.tobytes() == np.ascontiguousarray(array, decoded.dtype).tobytes()
            return
        error = np.abs(decoded.astype(np.float64) - array.astype(np.float64))
        assert (error <= tolerance).all(), float((error - tolerance).max())

    def test_it_is_a_value(self):
        assert parse_codec(self.codec.name) == self.codec
        assert codec_from_dict(self.codec.to_dict()) == self.codec
        assert hash(parse_codec(self.codec.name)) == hash(self.codec)

    def test_every_dtype_and_shape_comes_back(self):
        for dtype in self.dtypes:
            for shape in self.shapes:
                array = self.example(dtype, shape)
                assert self.codec.resolve(self.spec(array)) == self.codec
                self.check(array)

    def test_any_array_comes_back(self):
        @given(self.arrays())
        def run(array):
            self.check(array)

        run()

    def test_layout_in_memory_does_not_matter(self):
        array = self.small_example()
        plain = self.codec.encode(array)
        strided = np.repeat(array, 2, axis=-1)[..., ::2]
        assert not strided.flags.c_contiguous
        assert self.codec.encode(strided) == plain
        assert self.codec.encode(np.asfortranarray(array)) == plain
        backwards = np.ascontiguousarray(array[::-1])[::-1]
        assert self.codec.encode(backwards) == plain

    def test_byte_order_of_the_machine_does_not_matter(self):
        array = self.small_example()
        swapped = array.astype(array.dtype.newbyteorder(">"))
        assert self.codec.encode(swapped) == self.codec.encode(array)

    def test_encoding_is_deterministic(self):
        array = self.small_example()
        assert self.codec.encode(array) == self.codec.encode(array.copy())

    def test_threads_do_not_disturb_each_other(self):
        arrays = [self.example(self.dtypes[0], shape) for shape in self.shapes] * 3
        expected = [self.codec.encode(array) for array in arrays]
        start = threading.Barrier(4)

        def work(_):
            start.wait()
            payloads = [self.codec.encode(array) for array in arrays]
            pairs = zip(payloads, arrays, strict=True)
            decoded = [self.codec.decode(payload, self.spec(array)) for payload, array in pairs]
            return payloads, [array.tobytes() for array in decoded]

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(work, range(4)))
        assert all(payloads == expected for payloads, _ in results)
        assert all(values == results[0][1] for _, values in results)

    def test_the_decoded_array_owns_its_memory_and_is_read_only(self):
        array = self.small_example()
        payload = bytearray(self.codec.encode(array))
        decoded = self.codec.decode(memoryview(payload), self.spec(array))
        before = decoded.tobytes()
        payload[:] = bytes(len(payload))
        assert decoded.tobytes() == before
        assert not decoded.flags.writeable

    def test_encoding_leaves_the_array_alone(self):
        array = self.small_example()
        before = array.copy()
        self.codec.encode(array)
        assert array.tobytes() == before.tobytes()
        array.flags.writeable = False
        self.codec.encode(array)

    def test_a_flipped_bit_never_changes_a_value(self):
        # A few bits of a zstd frame only choose among equal ways to say the same, such as which
        # of two equal earlier matches is meant; the checksum is over the content.
        array = self.small_example()
        payload = self.codec.encode(array)
        values = self.codec.decode(payload, self.spec(array)).tobytes()
        refused = 0
        for bit in range(8 * len(payload)):
            damaged = bytearray(payload)
            damaged[bit // 8] ^= 1 << bit % 8
            try:
                decoded = self.codec.decode(bytes(damaged), self.spec(array))
            except CodecError:
                refused += 1
            else:
                assert decoded.tobytes() == values
        assert refused >= 0.9 * 8 * len(payload)

    def test_a_truncated_payload_is_refused(self):
        array = self.small_example()
        payload = self.codec.encode(array)
        for length in range(len(payload)):
            with pytest.raises(CodecError):
                self.codec.decode(payload[:length], self.spec(array))

    def test_bytes_after_the_payload_are_refused(self):
        array = self.small_example()
        payload = self.codec.encode(array)
        for extra in (b"\0", b"x" * 100, payload):
            with pytest.raises(CodecError):
                self.codec.decode(payload + extra, self.spec(array))

    def test_a_payload_of_another_size_is_refused(self):
        array = self.small_example()
        payload = self.codec.encode(array)
        for shape in (array.shape[:-1], (*array.shape, 2), (0, *array.shape[1:]), (10**9, 10**9)):
            with pytest.raises(CodecError):
                self.codec.decode(payload, TensorSpec("x", array.dtype.name, shape))

    def test_a_large_claim_takes_no_memory(self):
        payload = self.codec.encode(self.small_example())
        claim = TensorSpec("x", self.dtypes[0], self.large_shape())
        assert claim.raw_bytes >= 64 * 1024 * 1024
        tracemalloc.start()
        try:
            with pytest.raises(CodecError):
                self.codec.decode(payload, claim)
            assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
        finally:
            tracemalloc.stop()

    def large_shape(self):
        return (64, 1024, 1024)

    def test_errors_name_the_tensor(self):
        array = self.small_example()
        with pytest.raises(CodecError, match="features"):
            self.codec.decode(b"nonsense", TensorSpec("features", array.dtype.name, array.shape))
