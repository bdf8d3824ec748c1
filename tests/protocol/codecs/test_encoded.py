from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import zstandard

from protocol.codecs import (
    CODEC_NAMES,
    EncodedTensor,
    JpegCodec,
    RawCodec,
    codec_from_dict,
    decode_tensor,
    encode_tensor,
    parse_codec,
)
from protocol.errors import CodecError, LimitExceededError
from protocol.limits import Limits
from protocol.tensors import TensorSpec

MIB = 1024 * 1024


@pytest.mark.parametrize("name", ["float16", "affine8", "affine4"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_a_lossy_codec_cannot_carry_travel_raw(name, value):
    array = np.array([1.0, value, 3.0], np.float32)
    encoded = encode_tensor("x", array, parse_codec(name))
    assert encoded.codec == RawCodec()
    assert decode_tensor(encoded, Limits()).tobytes() == array.tobytes()


@pytest.mark.parametrize("name", ["float16", "affine8", "affine4"])
def test_whole_numbers_travel_raw(name):
    encoded = encode_tensor("x", np.arange(5), parse_codec(name))
    assert encoded.codec == RawCodec()
    assert decode_tensor(encoded, Limits()).tolist() == [0, 1, 2, 3, 4]


def test_what_really_travelled_is_told():
    encoded = encode_tensor("x", np.zeros((2, 3), np.float32), parse_codec("affine4"))
    assert encoded.codec.name == "affine4"
    assert encoded.spec == TensorSpec("x", "float32", (2, 3))


def test_a_picture_codec_on_something_else_is_a_mistake_not_a_fallback():
    with pytest.raises(CodecError, match="jpeg90 takes"):
        encode_tensor("x", np.zeros((1, 3, 4, 4), np.float32), JpegCodec(90))


def test_dtypes_that_cannot_travel_are_named():
    with pytest.raises(CodecError, match="'words' has dtype object"):
        encode_tensor("words", np.array([None]), RawCodec())
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(CodecError, match="'x' has dtype bfloat16"):
        encode_tensor("x", np.zeros(3, ml_dtypes.bfloat16), RawCodec())


@pytest.mark.parametrize("name", CODEC_NAMES)
def test_limits_come_before_the_payload(name):
    codec = parse_codec(name)
    dtype = "uint8" if name.startswith("jpeg") else "float32"
    spec = TensorSpec("x", dtype, (1_000, 1_000, 3))
    limits = Limits(tensor_bytes=1_000_000)
    with pytest.raises(LimitExceededError, match="the limit is 1000000"):
        decode_tensor(EncodedTensor(spec, codec, b""), limits)


def test_axes_and_empty_tensors_with_huge_axes_are_limited():
    for shape in ((1,) * 17, (0, 2**62), (2**62, 0, 2**62)):
        encoded = EncodedTensor(TensorSpec("x", "int8", shape), RawCodec(), b"")
        with pytest.raises(LimitExceededError):
            decode_tensor(encoded, Limits())


def refused_without_memory(payload, claim, codec="raw"):
    encoded = EncodedTensor(claim, parse_codec(codec), payload)
    tracemalloc.start()
    try:
        with pytest.raises(CodecError) as caught:
            decode_tensor(encoded, Limits())
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
    return str(caught.value)


def test_two_kilobytes_that_inflate_to_64_mib_are_refused():
    bomb = zstandard.ZstdCompressor(level=19, write_checksum=True).compress(bytes(64 * MIB))
    assert len(bomb) < 10_000
    claim = TensorSpec("x", "float32", (16, 16))
    message = refused_without_memory(bomb, claim)
    assert f"declares {64 * MIB} bytes; shape and dtype imply 1024" in message


def test_a_frame_without_declared_size_is_refused():
    compressor = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True)
    message = refused_without_memory(
        compressor.compress(bytes(64 * MIB)), TensorSpec("x", "float32", (16 * MIB,))
    )
    assert "declares no size" in message


def test_a_frame_without_checksum_is_refused():
    frame = zstandard.ZstdCompressor(write_checksum=False).compress(bytes(64))
    assert "checksum" in refused_without_memory(frame, TensorSpec("x", "float32", (16,)))


def test_a_frame_that_asks_for_a_large_window_is_refused():
    parameters = zstandard.ZstdCompressionParameters(
        window_log=27, write_checksum=True, write_content_size=True
    )
    frame = zstandard.ZstdCompressor(compression_params=parameters).compress(bytes(200 * MIB))
    assert zstandard.get_frame_parameters(frame).window_size == 128 * MIB
    message = refused_without_memory(frame, TensorSpec("x", "uint8", (200 * MIB,)))
    assert "window" in message


def test_a_frame_that_wants_a_dictionary_is_refused():
    dictionary = zstandard.train_dictionary(
        1_024, [bytes([i, i + 1, i + 2]) * 50 for i in range(200)]
    )
    frame = zstandard.ZstdCompressor(dict_data=dictionary, write_checksum=True).compress(bytes(64))
    assert "dictionary" in refused_without_memory(frame, TensorSpec("x", "float32", (16,)))


def test_large_tensors_of_our_own_stay_within_the_window():
    array = np.zeros(40 * MIB, np.uint8)
    decoded = decode_tensor(encode_tensor("x", array, RawCodec()), Limits())
    assert decoded.nbytes == array.nbytes


def test_names_are_known_in_a_fixed_order():
    assert CODEC_NAMES == ("raw", "float16", "affine8", "affine4", "jpeg90")
    for name in CODEC_NAMES:
        assert parse_codec(name).name == name
    assert parse_codec("jpeg75") == JpegCodec(75)
    assert parse_codec("jpeg100") == JpegCodec(100)


@pytest.mark.parametrize(
    "name", ["", "rwa", "affine", "affine16", "jpeg", "jpeg0", "jpeg101", "jpeg090", "jpeg9\n"]
)
def test_unknown_names_are_refused(name):
    with pytest.raises(CodecError, match="unknown codec"):
        parse_codec(name)


def test_a_mistyped_name_gets_a_suggestion():
    with pytest.raises(CodecError, match="did you mean 'affine8'"):
        parse_codec("afine8")


@pytest.mark.parametrize(
    "data", [{}, {"name": 1}, {"name": "raw", "level": 3}, {"codec": "raw"}, {"name": "none"}]
)
def test_mappings_that_describe_no_codec_are_refused(data):
    with pytest.raises(CodecError):
        codec_from_dict(data)
