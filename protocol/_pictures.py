"""What needs Pillow: reading any picture as RGB, resizing, cropping. Pillow is loaded lazily."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from protocol.errors import ImageError
from protocol.extras import install_hint
from protocol.files import open_file

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

    from protocol.errors import HeadtailError


def require_pillow(error: type[HeadtailError]) -> None:
    """Refuse, in words that help, where Pillow is not installed.

    Raises:
        HeadtailError: Of the given class.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError as missing:
        raise error(
            f"pictures need Pillow, which is not installed: {install_hint('images')}"
        ) from missing


# Formats of cameras and screens, and how their files end. Others start programs of their own
# (PostScript), write to standard error (TIFF), or are not what a folder of pictures holds.
PICTURE_KINDS: Mapping[str, tuple[str, ...]] = {
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "JPEG": (".jpeg", ".jpg"),
    "PNG": (".png",),
    "PPM": (".ppm",),
    "WebP": (".webp",),
}
_FORMATS = tuple(kind.upper() for kind in PICTURE_KINDS)


def read_rgb(source: Path | str | Image.Image) -> Image.Image:
    """Return a picture upright and as RGB.

    Raises:
        ImageError: Pillow is missing, or the picture is missing or broken.
    """
    require_pillow(ImageError)
    from PIL import Image, UnidentifiedImageError

    # Pillow warns about what is odd but readable, such as a large picture or a torn EXIF block.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(source, Image.Image):
            return _upright_rgb(source, name_of(source))
        try:
            with (
                open_file(Path(source)) as stream,
                Image.open(stream, formats=_FORMATS) as picture,
            ):
                return _upright_rgb(picture, name_of(source))
        except ImageError:  # which already says it
            raise
        except FileNotFoundError as error:
            raise ImageError(f"picture {source} does not exist") from error
        except UnidentifiedImageError as error:
            raise ImageError(
                f"{source} is no picture of a kind that is read here ({', '.join(PICTURE_KINDS)})"
            ) from error
        except Exception as error:  # Pillow's plug-ins raise many kinds on broken data
            raise ImageError(f"cannot read picture {source}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What an error says; many of Pillow's say nothing."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__


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
        upright = upright.convert("RGB")
    except Exception as error:  # Pillow's decoders raise many kinds on broken data
        raise ImageError(f"cannot read picture {name}: {_reason(error)}") from error
    if not (upright.width and upright.height):
        raise ImageError(f"picture {name} has no pixels")
    return upright
