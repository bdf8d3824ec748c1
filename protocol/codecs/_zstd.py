"""One zstd frame with a checksum and a declared content size, read and written carefully.

Why the checks (measured on zstandard 0.25.0):

- ``decompress(max_output_size=...)`` ignores its limit when the frame declares a size, so the
  declared size is compared with the expected one first.
- The window limit is not looked at when the whole frame is decompressed in one go either.
- Frames of declared size 0 are not read at all, checksum or not, trailing bytes or not; so the
  empty frame is compared byte by byte.
- Trailing bytes are ignored unless ``allow_extra_data=False``.
- Without a checksum a flipped bit in an incompressible payload goes unnoticed.
"""

from __future__ import annotations

import threading

import zstandard

from protocol.errors import CodecError

Payload = bytes | memoryview

LEVEL = 1  # levels 1 and 3 reach the same size on quantised activations; 1 is never slower
MAX_WINDOW_BYTES = 8 * 1024 * 1024  # level 1 uses at most 512 KiB

EMPTY_FRAME = bytes.fromhex("28b52ffd 2400 010000 99e9d851")

_UNUSED_DESCRIPTOR_BIT = 0x10  # decoders must ignore it, so no checksum covers it


class _Contexts(threading.local):
    """Compressors keep 1 MB of tables each and are not thread-safe: one pair per thread."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(
            level=LEVEL, write_checksum=True, write_content_size=True
        )
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)


_contexts = _Contexts()


def bound(raw_bytes: int) -> int:
    """Return the largest frame that this many bytes can become (``ZSTD_compressBound``)."""
    small = max(0, 131_072 - raw_bytes) >> 11
    return raw_bytes + (raw_bytes >> 8) + small


def compress(data: Payload) -> bytes:
    """Return the data as one frame with content size and checksum."""
    if len(data) == 0:
        return EMPTY_FRAME
    return _contexts.compressor.compress(data)


def decompress(payload: Payload, expected_bytes: int, what: str) -> bytes:
    """Return the content of one frame, after checking that it has exactly the expected size.

    Args:
        payload: The whole frame and nothing else.
        expected_bytes: What the tensor's shape and dtype imply.
        what: Names the tensor in errors.

    Raises:
        CodecError: The payload is no intact frame of that size; nothing was allocated for it if
            its declared size differs.
    """
    if expected_bytes == 0:
        if payload != EMPTY_FRAME:
            raise CodecError(f"the payload of {what} must be an empty zstd frame and is not")
        return b""
    try:
        frame = zstandard.get_frame_parameters(payload)
        if frame.content_size != expected_bytes:
            raise CodecError(
                f"the payload of {what} declares {_size(frame.content_size)};"
                f" shape and dtype imply {expected_bytes}"
            )
        if (
            not frame.has_checksum
            or frame.dict_id
            or frame.window_size > MAX_WINDOW_BYTES
            or payload[4] & _UNUSED_DESCRIPTOR_BIT
        ):
            raise CodecError(
                f"the payload of {what} must be a zstd frame with a checksum, without dictionary,"
                f" and with a window of at most {MAX_WINDOW_BYTES} bytes"
            )
        return _contexts.decompressor.decompress(payload, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CodecError(f"the payload of {what} is no intact zstd frame: {error}") from error


def _size(content_size: int) -> str:
    unknown = content_size in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR)
    return "no size" if unknown else f"{content_size} bytes"
