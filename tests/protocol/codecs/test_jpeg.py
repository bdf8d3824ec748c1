from __future__ import annotations

import io
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from protocol.codecs import JpegCodec
from protocol.errors import CodecError
from protocol.tensors import TensorSpec
from tests.protocol.codecs.conformance import CodecConformance


def gradient(shape):
    """A picture without detail, which JPEG keeps well."""
    height, width, _ = shape
    rows = np.linspace(40, 200, height)[:, None, None]
    columns = np.linspace(0, 40, width)[None, :, None]
    return np.broadcast_to(rows + columns, shape).round().astype(np.uint8)


class TestJpeg90(CodecConformance):
    codec = JpegCodec(90)
    dtypes = ("uint8",)
    shapes = ((1, 1, 3), (17, 31, 3), (64, 48, 3))

    def example(self, dtype="uint8", shape=(9, 9, 3), seed=0):
        return gradient(shape)

    def tolerance(self, array):
        return np.full(array.shape, 6.0)

    def test_any_array_comes_back(self):
        @given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 255))
        @settings(max_examples=30)
        def run(height, width, grey):
            self.check(np.full((height, width, 3), grey, np.uint8))

        run()

    def large_shape(self):
        return (8_192, 8_192, 3)


def with_checksum(jpeg):
    return zlib.crc32(jpeg).to_bytes(4, "little") + jpeg


def jpeg_of(picture):
    stream = io.BytesIO()
    picture.save(stream, "JPEG")
    return stream.getvalue()


@pytest.mark.parametrize("quality", [1, 50, 90, 100])
def test_the_worst_pictures_stay_within_the_bound(quality):
    random = np.random.default_rng(5)
    codec = JpegCodec(quality)
    for shape in ((1, 1, 3), (8, 8, 3), (33, 65, 3), (100, 100, 3)):
        noise = random.integers(0, 2, shape).astype(np.uint8) * 255
        coarse = np.repeat(np.repeat(noise, 2, 0), 2, 1)
        for array in (noise, coarse):
            assert len(codec.encode(array)) <= codec.max_encoded_bytes(TensorSpec.of("x", array))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float32", (4, 4, 3)),
        ("uint8", (4, 4)),
        ("uint8", (3, 4, 4)),
        ("uint8", (1, 4, 4, 3)),
        ("uint8", (0, 4, 3)),
        ("uint8", (65_501, 1, 3)),
    ],
)
def test_what_is_no_picture_is_refused(dtype, shape):
    codec = JpegCodec(90)
    spec = TensorSpec("image", dtype, shape)
    for refuse in (
        lambda: codec.resolve(spec),
        lambda: codec.max_encoded_bytes(spec),
        lambda: codec.encode(np.zeros(shape, dtype)),
        lambda: codec.decode(b"", spec),
    ):
        with pytest.raises(CodecError, match="jpeg90 takes"):
            refuse()


@pytest.mark.parametrize("quality", [0, 101, -1, 90.0, True, "90"])
def test_qualities_that_are_none_are_refused(quality):
    with pytest.raises(CodecError, match="quality"):
        JpegCodec(quality)


def test_other_pictures_with_a_right_checksum_are_refused():
    spec = TensorSpec("image", "uint8", (8, 8, 3))
    grey = jpeg_of(Image.new("L", (8, 8)))
    larger = jpeg_of(Image.new("RGB", (16, 8)))
    png = io.BytesIO()
    Image.new("RGB", (8, 8)).save(png, "PNG")
    short = jpeg_of(Image.effect_noise((8, 8), 100).convert("RGB"))[:-200]
    for picture in (grey, larger, png.getvalue(), short, b"\xff\xd8\xff", b"x"):
        with pytest.raises(CodecError):
            JpegCodec(90).decode(with_checksum(picture), spec)


def test_a_header_that_claims_a_huge_picture_is_refused():
    small = bytearray(jpeg_of(Image.new("RGB", (8, 8))))
    start_of_frame = small.index(b"\xff\xc0")
    small[start_of_frame + 5 : start_of_frame + 9] = b"\xff\xdc\xff\xdc"
    with pytest.raises(CodecError):
        JpegCodec(90).decode(with_checksum(bytes(small)), TensorSpec("i", "uint8", (8, 8, 3)))


def test_without_pillow_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(CodecError, match=r"run pip install '\.\[images\]'"):
        JpegCodec(90).encode(np.zeros((8, 8, 3), np.uint8))
