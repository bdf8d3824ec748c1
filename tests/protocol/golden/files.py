"""Golden files: the frames of one message, each after its length (four bytes, little-endian)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).parent / "v1"

_LENGTH = struct.Struct("<I")


def write_frames(path: Path, frames: Sequence[bytes | memoryview]) -> None:
    path.write_bytes(b"".join(_LENGTH.pack(len(frame)) + bytes(frame) for frame in frames))


def read_frames(path: Path) -> list[bytes]:
    content, frames, position = path.read_bytes(), [], 0
    while position < len(content):
        (length,) = _LENGTH.unpack_from(content, position)
        position += _LENGTH.size
        frames.append(content[position : position + length])
        position += length
    assert position == len(content)
    return frames
