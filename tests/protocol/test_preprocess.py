from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, PngImagePlugin

from protocol.errors import ImageError, SettingError
from protocol.preprocess import ImagePreprocess

IMAGENET = ImagePreprocess(
    height=224, width=224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
)
SMALL = ImagePreprocess(height=8, width=12, mean=(0.5, 0.4, 0.3), std=(0.5, 0.25, 1.0))


def photo(height, width, seed=0):
    """Something with structure and noise, like a photo."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (max(1, height // 16), max(1, width // 16), 3))
    picture = Image.fromarray(coarse.astype(np.uint8)).resize((width, height))
    noisy = np.asarray(picture).astype(int) + random.integers(-20, 20, (height, width, 3))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def evaluation_transform(picture, size, crop_fraction):
    """Written from the definition of torchvision's Resize(int) and CenterCrop on a PIL image."""
    wide, high = picture.size
    target = round(size / crop_fraction)
    if wide <= high:
        new_wide, new_high = target, int(target * high / wide)
    else:
        new_wide, new_high = int(target * wide / high), target
    picture = picture.resize((new_wide, new_high), Image.Resampling.BICUBIC)
    top = round((new_high - size) / 2.0)
    left = round((new_wide - size) / 2.0)
    return np.asarray(picture.crop((left, top, left + size, top + size)))


class TestPixels:
    @pytest.mark.parametrize(
        ("height", "width"), [(300, 300), (480, 640), (640, 479), (100, 333), (224, 224), (31, 30)]
    )
    @pytest.mark.parametrize(("size", "fraction"), [(224, 0.875), (224, 1.0), (97, 0.9)])
    def test_they_equal_the_usual_evaluation_transform(self, height, width, size, fraction):
        block = dataclasses.replace(IMAGENET, height=size, width=size, crop_fraction=fraction)
        picture = photo(height, width)
        pixels = block.pixels(picture)
        assert (pixels.dtype, pixels.shape) == (np.uint8, (size, size, 3))
        np.testing.assert_array_equal(pixels, evaluation_transform(picture, size, fraction))

    def test_stretch_scales_both_sides(self):
        block = dataclasses.replace(SMALL, resize="stretch")
        picture = photo(60, 40)
        expected = np.asarray(picture.resize((12, 8), Image.Resampling.BICUBIC))
        np.testing.assert_array_equal(block.pixels(picture), expected)

    @given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 40), st.integers(1, 40))
    def test_the_shape_is_right_whatever_the_proportions(self, height, width, to_high, to_wide):
        block = dataclasses.replace(SMALL, height=to_high, width=to_wide)
        assert block.pixels(Image.new("RGB", (width, height))).shape == (to_high, to_wide, 3)

    def test_a_picture_of_the_right_size_is_untouched(self):
        block = dataclasses.replace(SMALL, crop_fraction=1.0)
        picture = photo(8, 12)
        np.testing.assert_array_equal(block.pixels(picture), np.asarray(picture))

    def test_files_are_read_by_path_or_name(self, tmp_path):
        picture = photo(30, 40)
        picture.save(tmp_path / "a.png")
        for source in (tmp_path / "a.png", str(tmp_path / "a.png")):
            np.testing.assert_array_equal(SMALL.pixels(source), SMALL.pixels(picture))

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_orientation_is_honoured(self, orientation, tmp_path):
        picture = photo(30, 40)
        exif = Image.Exif()
        exif[0x0112] = orientation
        picture.save(tmp_path / "a.png", exif=exif)
        with Image.open(tmp_path / "a.png") as opened:
            upright = ImageOps.exif_transpose(opened)
        expected = SMALL.pixels(upright)
        np.testing.assert_array_equal(SMALL.pixels(tmp_path / "a.png"), expected)
        if orientation == 6:
            turned = picture.transpose(Image.Transpose.ROTATE_270)
            np.testing.assert_array_equal(expected, SMALL.pixels(turned))

    @pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "CMYK", "YCbCr", "HSV", "PA"])
    def test_other_kinds_of_pictures_become_rgb(self, mode):
        picture = photo(30, 40)
        other = picture.convert("LA").convert("PA") if mode == "PA" else picture.convert(mode)
        expected = SMALL.pixels(other.convert("RGB"))
        np.testing.assert_array_equal(SMALL.pixels(other), expected)

    @pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "ppm", "webp", "mpo"])
    def test_usual_formats_are_read(self, suffix, tmp_path):
        photo(30, 40).save(tmp_path / f"a.{suffix}")
        assert SMALL.pixels(tmp_path / f"a.{suffix}").shape == (8, 12, 3)

    def test_sixteen_bit_grey_keeps_its_shades(self, tmp_path):
        grey = np.linspace(0, 65_535, 30 * 40).reshape(30, 40).astype(np.uint16)
        Image.fromarray(grey).save(tmp_path / "a.png")
        eight = Image.fromarray((grey / 257.0).round().astype(np.uint8))
        np.testing.assert_array_equal(SMALL.pixels(tmp_path / "a.png"), SMALL.pixels(eight))

    def test_palette_transparency_raises_no_warning(self, tmp_path):
        picture = photo(30, 40).convert("P")
        picture.save(tmp_path / "a.png", transparency=bytes(range(256)))
        assert SMALL.pixels(tmp_path / "a.png").shape == (8, 12, 3)

    def test_the_given_picture_is_left_alone(self):
        picture = photo(30, 40)
        before = picture.tobytes()
        SMALL.pixels(picture)
        assert (picture.size, picture.tobytes()) == ((40, 30), before)


class TestBrokenPictures:
    def refuse(self, source, match):
        with pytest.raises(ImageError, match=match) as caught:
            SMALL.pixels(source)
        assert str(source) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_missing(self, tmp_path):
        self.refuse(tmp_path / "gone.png", "does not exist")

    def test_a_folder(self, tmp_path):
        self.refuse(tmp_path, "cannot read")

    def test_no_picture(self, tmp_path):
        (tmp_path / "a.jpg").write_bytes(b"this is text")
        self.refuse(tmp_path / "a.jpg", "no picture")
        (tmp_path / "empty.png").write_bytes(b"")
        self.refuse(tmp_path / "empty.png", "no picture")

    @pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "webp", "ppm", "bmp"])
    def test_truncated(self, suffix, tmp_path):
        path = tmp_path / f"a.{suffix}"
        photo(100, 100).save(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        self.refuse(path, "cannot read|no picture")

    def test_damaged(self, tmp_path):
        path = tmp_path / "a.png"
        photo(100, 100).save(path)
        content = bytearray(path.read_bytes())
        content[60:2_000] = bytes(1_940)
        path.write_bytes(content)
        self.refuse(path, "cannot read")

    def test_a_picture_that_would_fill_the_memory(self, tmp_path, monkeypatch):
        path = tmp_path / "bomb.png"
        Image.new("1", (1_000, 1_000)).save(path)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
        self.refuse(path, "cannot read")

    def test_a_large_picture_is_read_without_a_warning(self, tmp_path, monkeypatch):
        path = tmp_path / "large.png"
        photo(40, 30).save(path)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000)  # it warns up to twice as many
        assert SMALL.pixels(path).shape == (8, 12, 3)

    def test_a_torn_exif_block_is_no_reason_to_warn(self, tmp_path):
        exif = Image.Exif()
        exif[0x0112] = 6
        exif[0x010F] = "a camera"
        photo(40, 30).save(tmp_path / "a.jpg", exif=exif.tobytes()[:-6])
        assert SMALL.pixels(tmp_path / "a.jpg").shape == (8, 12, 3)

    @pytest.mark.parametrize("kind", ["TIFF", "EPS", "PDF"])
    def test_formats_that_start_programs_or_write_to_the_terminal(self, kind, tmp_path):
        photo(40, 30).save(tmp_path / "a.jpg", kind)
        self.refuse(tmp_path / "a.jpg", r"no picture of a kind that is read here \(BMP, ")

    def test_a_named_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "a.jpg")
        self.refuse(tmp_path / "a.jpg", "it is a named pipe, not a file")

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("Decompressed data too large for PngImagePlugin.MAX_TEXT_CHUNK"),
            SyntaxError("broken PNG file"),
            struct.error("unpack requires a buffer of 4 bytes"),
            PermissionError(13, "Permission denied"),
            Image.DecompressionBombError("could be decompression bomb"),
            MemoryError(),
            IndexError(),
        ],
    )
    def test_whatever_pillow_raises(self, error, tmp_path, monkeypatch):
        path = tmp_path / "a.png"
        photo(40, 30).save(path)

        def refuse(*_, **__):
            raise error

        monkeypatch.setattr(Image, "open", refuse)
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self.refuse(path, f"cannot read picture .*: {text}")

    def test_a_text_block_that_inflates_to_gigabytes(self, tmp_path):
        text = PngImagePlugin.PngInfo()
        text.add_text("comment", "0" * 70_000_000, zip=True)
        photo(40, 30).save(tmp_path / "a.png", pnginfo=text)
        self.refuse(tmp_path / "a.png", "cannot read picture .*too large")

    def test_any_damage_is_one_kind_of_error(self, tmp_path):
        originals = []
        for suffix in ("png", "jpg", "gif", "webp", "bmp", "ppm"):
            photo(20, 20).save(tmp_path / f"a.{suffix}")
            originals.append((tmp_path / f"a.{suffix}").read_bytes())

        @given(
            st.sampled_from(originals),
            st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 255)), max_size=8),
            st.integers(1, 4_000),
        )
        @settings(max_examples=300, deadline=None)
        def run(original, changes, length):
            content = bytearray(original)
            for position, value in changes:
                content[position % len(content)] = value
            path = tmp_path / "damaged"
            path.write_bytes(content[:length])
            with contextlib.suppress(ImageError):
                assert SMALL.pixels(path).shape == (8, 12, 3)

        run()

    def test_a_sliver_that_would_grow_to_fill_the_memory(self, tmp_path):
        path = tmp_path / "sliver.png"
        Image.new("RGB", (30_000, 1)).save(path)
        with pytest.raises(ImageError, match=r"sliver.png has 1x30000 pixels; .* 256x7680000"):
            IMAGENET.pixels(path)
        assert dataclasses.replace(IMAGENET, resize="stretch").pixels(path).shape == (224, 224, 3)


class TestNormalise:
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    @pytest.mark.parametrize("channels", ["RGB", "BGR"])
    def test_it_equals_the_formula(self, layout, channels):
        block = dataclasses.replace(SMALL, layout=layout, channels=channels)
        pixels = np.random.default_rng(1).integers(0, 256, (8, 12, 3)).astype(np.uint8)
        expected = (pixels / 255.0 - np.array(block.mean)) / np.array(block.std)
        if channels == "BGR":
            expected = expected[:, :, ::-1]
        expected = expected.transpose(2, 0, 1)[None] if layout == "NCHW" else expected[None]
        tensor = block.normalise(pixels)
        assert tensor.dtype == np.float32
        assert tensor.flags.c_contiguous
        np.testing.assert_allclose(tensor, expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    @pytest.mark.parametrize("channels", ["RGB", "BGR"])
    @given(
        mean=st.tuples(*3 * [st.floats(-10, 10)]),
        std=st.tuples(*3 * [st.floats(1e-4, 10)]),
    )
    def test_denormalise_inverts_every_pixel_value(self, layout, channels, mean, std):
        block = ImagePreprocess(16, 16, mean, std, layout=layout, channels=channels)
        values = np.arange(256, dtype=np.uint8).reshape(16, 16)
        pixels = np.stack([values, values[::-1], values.T], axis=2)
        np.testing.assert_array_equal(block.denormalise(block.normalise(pixels)), pixels)

    def test_values_outside_are_clipped(self):
        tensor = np.full((1, 3, 8, 12), 100.0, np.float32)
        tensor[0, 0] = -100.0
        pixels = SMALL.denormalise(tensor)
        assert (pixels[:, :, 0] == 0).all()
        assert (pixels[:, :, 1:] == 255).all()

    @pytest.mark.parametrize(
        ("shape", "dtype"),
        [((12, 8, 3), "uint8"), ((8, 12, 4), "uint8"), ((8, 12), "uint8"), ((8, 12, 3), "float32")],
    )
    def test_other_pixels_are_refused(self, shape, dtype):
        with pytest.raises(ImageError, match=r"declares uint8\[8, 12, 3\]"):
            SMALL.normalise(np.zeros(shape, dtype))

    @pytest.mark.parametrize(
        ("shape", "dtype", "remedy"),
        [
            ((8, 12, 3), np.float32, r"the dtype is float32; give pixels from 0 to 255 as uint8"),
            ((1, 8, 12, 3), np.uint8, "the axes differ; give one RGB picture"),
            ((8, 12), np.uint8, "the axes differ; give one RGB picture"),
            ((480, 640, 3), np.uint8, r"the picture is 480x640 \(height x width\); resize it"),
        ],
    )
    def test_a_refusal_says_what_differs_and_what_to_do(self, shape, dtype, remedy):
        with pytest.raises(ImageError, match=remedy):
            SMALL.normalise(np.zeros(shape, dtype))

    @pytest.mark.parametrize(
        ("shape", "dtype"), [((1, 8, 12, 3), "float32"), ((1, 3, 8, 12), "float64")]
    )
    def test_other_tensors_are_refused(self, shape, dtype):
        with pytest.raises(ImageError, match=r"gives float32\[1, 3, 8, 12\]"):
            SMALL.denormalise(np.zeros(shape, dtype))


class TestBlock:
    def test_it_survives_json(self):
        for block in (IMAGENET, dataclasses.replace(SMALL, resize="stretch", layout="NHWC")):
            assert ImagePreprocess.from_dict(json.loads(json.dumps(block.to_dict()))) == block
        assert hash(ImagePreprocess.from_dict(SMALL.to_dict())) == hash(SMALL)

    def test_whole_numbers_do_for_fractions(self):
        block = ImagePreprocess(8, 12, (0, 0, 0), [1, 1, 1], crop_fraction=1)
        assert block == ImagePreprocess(8, 12, (0.0,) * 3, (1.0,) * 3, crop_fraction=1.0)

    def test_unknown_keys_get_a_suggestion(self):
        with pytest.raises(SettingError, match=r"no key 'hight' \(did you mean 'height'\?\)"):
            ImagePreprocess.from_dict({**SMALL.to_dict(), "hight": 3})

    @pytest.mark.parametrize("key", ["height", "width", "mean", "std"])
    def test_missing_keys_are_named(self, key):
        data = SMALL.to_dict()
        del data[key]
        with pytest.raises(SettingError, match=f"lacks the key '{key}'"):
            ImagePreprocess.from_dict(data)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("height", 0),
            ("height", 8_193),
            ("height", 8.0),
            ("width", True),
            ("width", "8"),
            ("width", None),
            ("mean", (0.5, 0.5)),
            ("mean", 0.5),
            ("mean", "abc"),
            ("mean", (0.5, 0.5, float("nan"))),
            ("mean", (0.5, 0.5, True)),
            ("std", (0.5, 0.5, 0.0)),
            ("std", (0.5, 0.5, -1.0)),
            ("std", (0.5, 0.5, float("inf"))),
            ("crop_fraction", 0.0),
            ("crop_fraction", 1.01),
            ("crop_fraction", "1"),
            ("resize", "shorter"),
            ("layout", "CHW"),
            ("layout", None),
            ("layout", ["NCHW"]),
            ("channels", "rgb"),
        ],
    )
    def test_unusable_values_are_refused_by_name(self, key, value):
        with pytest.raises(SettingError, match=f"preprocess {key}"):
            ImagePreprocess.from_dict({**SMALL.to_dict(), key: value})

    def test_values_for_0_to_255_get_a_hint(self):
        with pytest.raises(SettingError, match=r"divide values made for 0\.\.255 by 255"):
            ImagePreprocess(8, 8, (123.7, 116.3, 103.5), (0.2, 0.2, 0.2))

    def test_without_pillow_only_pixels_fail(self):
        code = (
            "import sys; sys.modules['PIL'] = None\n"
            "import numpy as np\n"
            "from protocol import ImagePreprocess, ImageError\n"
            "block = ImagePreprocess(2, 2, (0, 0, 0), (1, 1, 1))\n"
            "block.denormalise(block.normalise(np.zeros((2, 2, 3), np.uint8)))\n"
            "try:\n    block.pixels('x.png')\n"
            "except ImageError as error:\n    print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert "pip install '.[images]'" in done.stdout
