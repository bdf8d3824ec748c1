"""Bytes on the wire: messages, frames, tensor codecs, sockets, credit, errors.

Light: standard library, numpy, pyzmq, msgpack and zstandard; Pillow is loaded only where pictures
are read or written.
"""

from __future__ import annotations

import protocol._start  # noqa: F401  # before what takes long
from protocol._pictures import PICTURE_KINDS, require_pillow
from protocol.addresses import Address, parse_address
from protocol.clock import Clock, SystemClock
from protocol.codecs import (
    CODEC_NAMES,
    AffineCodec,
    Codec,
    EncodedTensor,
    Float16Codec,
    JpegCodec,
    RawCodec,
    codec_from_dict,
    decode_tensor,
    encode_tensor,
    parse_codec,
)
from protocol.codes import Advice, FailureCode, RefusalCode
from protocol.command import CommandParser, run_command
from protocol.console import Progress, is_terminal, paint, table
from protocol.credit import CreditLedger
from protocol.errors import (
    AddressError,
    CodecError,
    FrameError,
    HeadtailError,
    ImageError,
    LimitExceededError,
    ProtocolError,
    RefusedError,
    SettingError,
    UnencodableValuesError,
    UsageError,
    VersionMismatchError,
)
from protocol.extras import install_hint
from protocol.frames import Frame, decode_message, encode_message, message_bytes
from protocol.limits import Limits
from protocol.messages import (
    PROBE_BYTES,
    PROTOCOL_VERSION,
    Failure,
    Goodbye,
    Hello,
    Message,
    Ping,
    Pong,
    Probe,
    Probed,
    Refuse,
    Request,
    Result,
    Timings,
    Welcome,
)
from protocol.preprocess import ImagePreprocess
from protocol.sockets import agent_socket, worker_socket
from protocol.tensors import Array, Dtype, TensorSpec
from protocol.text import did_you_mean, one_line, quoted

__all__ = [
    "CODEC_NAMES",
    "PICTURE_KINDS",
    "PROBE_BYTES",
    "PROTOCOL_VERSION",
    "Address",
    "AddressError",
    "Advice",
    "AffineCodec",
    "Array",
    "Clock",
    "Codec",
    "CodecError",
    "CommandParser",
    "CreditLedger",
    "Dtype",
    "EncodedTensor",
    "Failure",
    "FailureCode",
    "Float16Codec",
    "Frame",
    "FrameError",
    "Goodbye",
    "HeadtailError",
    "Hello",
    "ImageError",
    "ImagePreprocess",
    "JpegCodec",
    "LimitExceededError",
    "Limits",
    "Message",
    "Ping",
    "Pong",
    "Probe",
    "Probed",
    "Progress",
    "ProtocolError",
    "RawCodec",
    "RefusalCode",
    "Refuse",
    "RefusedError",
    "Request",
    "Result",
    "SettingError",
    "SystemClock",
    "TensorSpec",
    "Timings",
    "UnencodableValuesError",
    "UsageError",
    "VersionMismatchError",
    "Welcome",
    "agent_socket",
    "codec_from_dict",
    "decode_message",
    "decode_tensor",
    "did_you_mean",
    "encode_message",
    "encode_tensor",
    "install_hint",
    "is_terminal",
    "message_bytes",
    "one_line",
    "paint",
    "parse_address",
    "parse_codec",
    "quoted",
    "require_pillow",
    "run_command",
    "table",
    "worker_socket",
]
