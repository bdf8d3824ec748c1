"""What needs Pillow: reading any picture as RGB, resizing, cropping. Pillow is loaded lazily."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from protocol.errors import ImageError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from PIL import Image

    from protocol.errors import ProtocolError


def require_pillow(error: type[ProtocolError]) -> None:
    """Refuse, in words that help, where Pillow is not installed.

    Raises:
        ProtocolError: Of the given class.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError as missing:
        raise error(
            "pictures need Pillow, which is not installed: pip install 'headtail[images]'"
        ) from missing


def read_rgb(source: Path | str | Image.Image) -> Image.Image:
    """Return a picture upright and as RGB.

    Raises:
        ImageError: Pillow is missing, or the picture is missing or broken.
    """
    require_pillow(ImageError)
    from PIL import Image, UnidentifiedImageError

    if isinstance(source, Image.Image):
        return _upright_rgb(source, name_of(source))
    try:
        with Image.open(source) as picture:
            return _upright_rgb(picture, name_of(source))
    except FileNotFoundError as error:
        raise ImageError(f"picture {source} does not exist") from error
    except UnidentifiedImageError as error:
        raise ImageError(f"{source} is no picture that Pillow can read") from error
    except (OSError, Image.DecompressionBombError) as error:
        raise ImageError(f"cannot read picture {source}: {error}") from error


def name_of(source: Any) -> str:
    """Return what to call a picture, given as a file or as a Pillow image, in an error."""
    return str(getattr(source, "filename", source) or "in memory")


def resized(picture: Image.Image, high: int, wide: int) -> NDArray[np.uint8]:
    """Return the pixels of a picture scaled with the bicubic filter, uint8 [high, wide, 3]."""
    from PIL import Image

    return np.asarray(picture.resize((wide, high), Image.Resampling.BICUBIC))


def centre_crop(pixels: NDArray[np.uint8], high: int, wide: int) -> NDArray[np.uint8]:
    """Return a copy of the centre; odd remainders fall as in torchvision's CenterCrop."""
    top = round((pixels.shape[0] - high) / 2.0)
    left = round((pixels.shape[1] - wide) / 2.0)
    return np.ascontiguousarray(pixels[top : top + high, left : left + wide])


def _upright_rgb(picture: Image.Image, name: str) -> Image.Image:
    from PIL import Image, ImageOps

    try:
        upright = ImageOps.exif_transpose(picture)
        if upright.mode.startswith("I"):
            # 16-bit grey; Pillow's own conversion would clip everything above 255 to white.
            grey = np.asarray(upright).astype(np.float64) / 257.0
            upright = Image.fromarray(grey.round().clip(0, 255).astype(np.uint8))
        if "transparency" in upright.info:
            # A detour: Pillow warns about palette transparency that is dropped directly.
            upright = upright.convert("RGBA")
        return upright.convert("RGB")
    except Exception as error:  # Pillow's decoders raise many kinds on broken data
        raise ImageError(f"cannot read picture {name}: {error}") from error
