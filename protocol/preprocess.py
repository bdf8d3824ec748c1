"""The declared way from a picture to a network's input; both ends of the wire can walk it.

It does what torchvision's and timm's evaluation transforms do: resize with Pillow's bicubic
filter, crop the centre, scale to 0..1, subtract the mean, divide by the standard deviation.
Pillow is loaded only by :meth:`ImagePreprocess.pixels`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from protocol.errors import ImageError, SettingError
from protocol.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from PIL.Image import Image

MAX_SIDE = 8_192

# Twice the largest input, so that only slivers of pictures are refused.
_MAX_RESIZED_PIXELS = 2 * MAX_SIDE * MAX_SIDE

_HUGE = 1e300

_CHOICES = {
    "resize": ("shorter-side-crop", "stretch"),
    "layout": ("NCHW", "NHWC"),
    "channels": ("RGB", "BGR"),
}


@dataclass(frozen=True)
class ImagePreprocess:
    """How a picture becomes the network's input.

    Attributes:
        height: Of the input, in pixels.
        width: Of the input, in pixels.
        mean: Per channel of the picture (red, green, blue), in units where a pixel is 0..1.
        std: Likewise; ``x = (pixel / 255 - mean) / std``.
        resize: ``shorter-side-crop`` keeps proportions: the picture is scaled until it just
            covers ``round(height / crop_fraction)`` by ``round(width / crop_fraction)`` pixels,
            then the centre is cut out. ``stretch`` scales both sides to fit.
        crop_fraction: Above 0, at most 1; unused by ``stretch``.
        layout: Order of the input's axes.
        channels: Order of the input's colours.

    Raises:
        SettingError: A value is of the wrong type or outside its range.
    """

    height: int
    width: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resize: Literal["shorter-side-crop", "stretch"] = "shorter-side-crop"
    crop_fraction: float = 0.875
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    channels: Literal["RGB", "BGR"] = "RGB"

    def __post_init__(self) -> None:
        for side in ("height", "width"):
            value = getattr(self, side)
            if type(value) is not int or not 1 <= value <= MAX_SIDE:
                raise SettingError(
                    f"preprocess {side} is {value!r}; give a whole number from 1 to {MAX_SIDE}"
                )
        for key, known in _CHOICES.items():
            value = getattr(self, key)
            if value not in known:
                raise SettingError(
                    f"preprocess {key} is {value!r}{did_you_mean(str(value), known)};"
                    f" give one of {', '.join(known)}"
                )
        _set_number(self, "crop_fraction", 0.01, 1.0)
        _set_triple(self, "mean", -10.0, 10.0)
        _set_triple(self, "std", 1e-4, 10.0)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return asdict(self) | {"mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ImagePreprocess:
        """Read what :meth:`to_dict` wrote, or a block written by hand.

        Raises:
            SettingError: A key is unknown or missing, or a value is unusable.
        """
        known = [field.name for field in fields(cls)]
        for key in data:
            if key not in known:
                raise SettingError(
                    f"preprocess has no key {key!r}{did_you_mean(str(key), known)};"
                    f" it knows {', '.join(known)}"
                )
        for key in ("height", "width", "mean", "std"):
            if key not in data:
                raise SettingError(f"preprocess lacks the key {key!r}")
        return cls(**data)

    def pixels(self, source: Path | str | Image) -> NDArray[np.uint8]:
        """Return a picture resized and cropped.

        Orientation from EXIF is honoured; grey, palette, CMYK and 16-bit pictures become RGB;
        transparency is dropped.

        Args:
            source: A file or a Pillow image.

        Returns:
            uint8 [height, width, 3], always RGB.

        Raises:
            ImageError: Pillow is missing, or the picture is missing or broken.
        """
        # Pillow and this module's reader of it stay out of boards that see no pictures.
        from protocol import _pictures

        picture = _pictures.read_rgb(source)
        if self.resize == "stretch":
            return _pictures.resized(picture, self.height, self.width)
        high, wide = self._covering(picture.height, picture.width)
        if high * wide > _MAX_RESIZED_PIXELS:
            raise ImageError(
                f"picture {_pictures.name_of(source)} has {picture.height}x{picture.width} pixels;"
                f" scaled before the crop it would have {high}x{wide}, above"
                f" {_MAX_RESIZED_PIXELS} in all (resize: stretch takes any proportions)"
            )
        return _pictures.centre_crop(
            _pictures.resized(picture, high, wide), self.height, self.width
        )

    def normalise(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the network's input for some pixels.

        Args:
            pixels: uint8 [height, width, 3], RGB.

        Returns:
            float32 [1, 3, height, width] or [1, height, width, 3], as ``layout`` says.

        Raises:
            ImageError: The pixels have another shape or dtype.
        """
        if pixels.dtype != np.uint8 or pixels.shape != (self.height, self.width, 3):
            raise ImageError(self._mismatch(pixels))
        result, planes = self._input()
        for colour, plane in enumerate(planes):
            scale = 1.0 / (255.0 * self.std[colour])
            np.multiply(pixels[:, :, colour], np.float32(scale), out=plane, dtype=np.float32)
            np.subtract(plane, np.float32(self.mean[colour] / self.std[colour]), out=plane)
        return result

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        """Shape of what :meth:`normalise` returns."""
        if self.layout == "NCHW":
            return (1, 3, self.height, self.width)
        return (1, self.height, self.width, 3)

    def denormalise(self, tensor: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the pixels of a network's input; inverts :meth:`normalise` exactly.

        Args:
            tensor: float32 of the shape that :meth:`normalise` returns.

        Returns:
            uint8 [height, width, 3], RGB; values outside 0..255 are clipped.

        Raises:
            ImageError: The tensor has another shape or dtype.
        """
        expected, _ = self._input()
        if tensor.dtype != np.float32 or tensor.shape != expected.shape:
            raise ImageError(
                f"the tensor is {tensor.dtype}{list(tensor.shape)};"
                f" preprocess gives float32{list(expected.shape)}"
            )
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        for colour, plane in enumerate(self._planes(tensor)):
            values = plane * np.float32(255.0 * self.std[colour])
            values += np.float32(255.0 * self.mean[colour])
            np.rint(values, out=values)
            np.copyto(pixels[:, :, colour], values.clip(0.0, 255.0), casting="unsafe")
        return pixels

    def _mismatch(self, pixels: NDArray[Any]) -> str:
        """What is wrong with pixels, and what to do about it."""
        if pixels.dtype != np.uint8:
            wrong, remedy = f"the dtype is {pixels.dtype}", "give pixels from 0 to 255 as uint8"
        elif pixels.ndim != 3 or pixels.shape[2] != 3:
            wrong, remedy = "the axes differ", "give one RGB picture, without a batch axis"
        else:
            height, width, _ = pixels.shape
            wrong = f"the picture is {height}x{width} (height x width)"
            remedy = "resize it, or let ImagePreprocess.pixels read and resize it"
        return (
            f"pixels are {pixels.dtype}{list(pixels.shape)}, but preprocess declares"
            f" uint8[{self.height}, {self.width}, 3]: {wrong}; {remedy}"
        )

    def _covering(self, high: int, wide: int) -> tuple[int, int]:
        """Return the size of a picture scaled until it just covers what is cropped from."""
        target_high = max(self.height, round(self.height / self.crop_fraction))
        target_wide = max(self.width, round(self.width / self.crop_fraction))
        # The other side is cut to a whole number, as torchvision does it.
        if target_high * wide >= target_wide * high:
            return target_high, target_high * wide // high
        return target_wide * high // wide, target_wide

    def _input(self) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return an empty input and its three planes in the order red, green, blue."""
        shape = (
            (1, 3, self.height, self.width)
            if self.layout == "NCHW"
            else (1, self.height, self.width, 3)
        )
        result = np.empty(shape, np.float32)
        return result, self._planes(result)

    def _planes(self, tensor: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        planes = [
            tensor[0, index] if self.layout == "NCHW" else tensor[0, :, :, index]
            for index in range(3)
        ]
        return planes if self.channels == "RGB" else planes[::-1]


def _set_number(block: ImagePreprocess, key: str, lowest: float, highest: float) -> None:
    object.__setattr__(block, key, _number(key, getattr(block, key), lowest, highest))


def _set_triple(block: ImagePreprocess, key: str, lowest: float, highest: float) -> None:
    values = getattr(block, key)
    if not isinstance(values, list | tuple) or len(values) != 3:
        raise SettingError(f"preprocess {key} is {values!r}; give three numbers")
    triple = tuple(_number(key, value, lowest, highest) for value in values)
    object.__setattr__(block, key, triple)


def _number(key: str, value: Any, lowest: float, highest: float) -> float:
    # Compared rather than asked whether it is finite: a whole number may be too long for a float.
    if type(value) not in (int, float) or not -_HUGE < value < _HUGE:
        raise SettingError(f"preprocess {key} holds {value!r}; give a number")
    if not lowest <= value <= highest:
        hint = (
            "; units are 0..1, so divide values made for 0..255 by 255" if value > highest else ""
        )
        raise SettingError(
            f"preprocess {key} holds {value:g}; give a number from {lowest:g} to {highest:g}{hint}"
        )
    return float(value)
