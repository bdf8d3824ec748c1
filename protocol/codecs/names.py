"""From codec names to codecs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from protocol.codecs.affine import AffineCodec
from protocol.codecs.base import Codec, RawCodec
from protocol.codecs.half import Float16Codec
from protocol.codecs.jpeg import JpegCodec
from protocol.errors import CodecError
from protocol.text import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIXED: Mapping[str, Codec] = {
    codec.name: codec
    for codec in (RawCodec(), Float16Codec(), AffineCodec(8), AffineCodec(4), JpegCodec(90))
}

CODEC_NAMES: tuple[str, ...] = tuple(_FIXED)

_JPEG = re.compile(r"jpeg([1-9][0-9]?|100)")


def parse_codec(name: str) -> Codec:
    """Return the codec of a name: one of :data:`CODEC_NAMES`, or ``jpeg`` with another quality.

    Raises:
        CodecError: There is no such codec.
    """
    if name in _FIXED:
        return _FIXED[name]
    if match := _JPEG.fullmatch(name):
        return JpegCodec(int(match[1]))
    raise CodecError(
        f"unknown codec {quoted(name)}{did_you_mean(name, CODEC_NAMES)}; "
        f"known: {', '.join(CODEC_NAMES)}"
    )


def codec_from_dict(data: Mapping[str, Any]) -> Codec:
    """Read what a codec's ``to_dict`` wrote.

    Raises:
        CodecError: The mapping describes no codec.
    """
    if set(data) != {"name"} or not isinstance(data["name"], str):
        raise CodecError(f"a codec is written {{'name': NAME}}, not {dict(data)!r}")
    return parse_codec(data["name"])
