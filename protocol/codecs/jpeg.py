"""Pictures as JPEG: what cloud-only sends instead of the raw input. Pillow is loaded lazily."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from protocol._pictures import require_pillow
from protocol.codecs.base import Payload, read_only
from protocol.errors import CodecError
from protocol.tensors import Array, TensorSpec

_CHECKSUM = struct.Struct("<I")

# Chroma is stored at half the resolution (4:2:0), so 16x16 pixels make six blocks of 64
# coefficients. A coefficient takes at most 26 bits (a 16-bit code, 10 further bits), and byte
# stuffing at most doubles that.
_MCU_PIXELS = 16
_MCU_BYTES = 6 * 2 * ((64 * 26 + 7) // 8)
_HEADER_BYTES = 1_024  # JFIF header with two quantisation and four Huffman tables takes 623
_MAX_SIDE = 65_500  # of libjpeg


@dataclass(frozen=True)
class JpegCodec:
    """A uint8 [height, width, 3] RGB picture as a baseline JPEG after its CRC-32.

    JPEG itself would decode a damaged payload to a damaged picture, hence the checksum.

    Attributes:
        quality: 1 to 100, as in libjpeg.
    """

    quality: int

    def __post_init__(self) -> None:
        if type(self.quality) is not int or not 1 <= self.quality <= 100:
            raise CodecError(f"JPEG quality is {self.quality!r}; give a whole number from 1 to 100")

    @property
    def name(self) -> str:
        """``jpeg`` and the quality."""
        return f"jpeg{self.quality}"

    def resolve(self, spec: TensorSpec) -> JpegCodec:
        """Return itself for a picture.

        Raises:
            CodecError: The tensor is no uint8 [height, width, 3].
        """
        self._require_picture(spec)
        return self

    def max_encoded_bytes(self, spec: TensorSpec) -> int:
        """Return the size if every coefficient took its most bits; far above real pictures."""
        self._require_picture(spec)
        height, width, _ = spec.shape
        units = -(-height // _MCU_PIXELS) * -(-width // _MCU_PIXELS)
        return _CHECKSUM.size + _HEADER_BYTES + units * _MCU_BYTES

    def encode(self, array: Array) -> bytes:
        """Return the payload; see :meth:`Codec.encode`."""
        self._require_picture(TensorSpec.of("", array))
        require_pillow(CodecError)
        from PIL import Image

        stream = io.BytesIO(bytes(_CHECKSUM.size))
        stream.seek(_CHECKSUM.size)
        try:
            picture = Image.fromarray(np.ascontiguousarray(array))
            picture.save(stream, "JPEG", quality=self.quality, subsampling=2)
        except (OSError, ValueError) as error:  # a Pillow without libjpeg, no memory
            raise CodecError(f"a picture cannot be written as JPEG: {error}") from error
        payload = stream.getbuffer()
        _CHECKSUM.pack_into(payload, 0, zlib.crc32(payload[_CHECKSUM.size :]))
        return bytes(payload)

    def decode(self, payload: Payload, spec: TensorSpec) -> Array:
        """Return the picture; see :meth:`Codec.decode`."""
        self._require_picture(spec)
        require_pillow(CodecError)
        # The plug-in itself: Image.open would warn of large pictures, and here the size is known.
        from PIL.JpegImagePlugin import JpegImageFile

        view = memoryview(payload)
        if (
            len(view) <= _CHECKSUM.size
            or zlib.crc32(view[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(view)[0]
        ):
            raise CodecError(f"the payload of tensor {spec} does not match its checksum")
        try:
            with JpegImageFile(io.BytesIO(view[_CHECKSUM.size :])) as picture:
                high, wide, mode = picture.height, picture.width, picture.mode
                if (high, wide, 3) == spec.shape and mode == "RGB":
                    return read_only(np.array(picture))
        except Exception as error:  # Pillow's decoders raise many kinds on broken data
            raise CodecError(f"the payload of tensor {spec} is no JPEG: {error}") from error
        raise CodecError(
            f"the payload of tensor {spec} is a {mode} picture of {high}x{wide} pixels"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {"name": self.name}

    def _require_picture(self, spec: TensorSpec) -> None:
        if spec.dtype != "uint8" or len(spec.shape) != 3 or spec.shape[2] != 3:
            raise CodecError(f"codec {self.name} takes uint8 [height, width, 3], not tensor {spec}")
        if not all(1 <= side <= _MAX_SIDE for side in spec.shape[:2]):
            raise CodecError(
                f"codec {self.name} takes sides of 1 to {_MAX_SIDE}, not tensor {spec}"
            )
