"""How tensors travel: one module a codec."""

from __future__ import annotations

from protocol.codecs.affine import AffineCodec
from protocol.codecs.base import Codec, RawCodec
from protocol.codecs.encoded import EncodedTensor, decode_tensor, encode_tensor
from protocol.codecs.half import Float16Codec
from protocol.codecs.jpeg import JpegCodec
from protocol.codecs.names import CODEC_NAMES, codec_from_dict, parse_codec

__all__ = [
    "CODEC_NAMES",
    "AffineCodec",
    "Codec",
    "EncodedTensor",
    "Float16Codec",
    "JpegCodec",
    "RawCodec",
    "codec_from_dict",
    "decode_tensor",
    "encode_tensor",
    "parse_codec",
]
