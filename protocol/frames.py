"""Messages as ZeroMQ frames, and back, trusting nothing.

Every message is ``[kind] [session] [number] [header] [payload]...``:

- kind: two bytes, protocol version and kind;
- session: 16 bytes, empty in HELLO, REFUSE, PROBE and PROBED;
- number: eight bytes big-endian, empty where the message has none;
- header: a msgpack map with the message's other fields, all of them, under their names;
- payload: one frame a tensor, in the order of the header's ``tensors``; one frame in PROBE and
  PROBED.

Tensors never travel inside msgpack, whose parsed form can be 75 times larger than its bytes.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgpack

from protocol.codecs import EncodedTensor, parse_codec
from protocol.codecs.encoded import check_spec
from protocol.errors import CodecError, FrameError, LimitExceededError, VersionMismatchError
from protocol.fields import Integer, Octets
from protocol.layouts import LAYOUT_OF_KIND, LAYOUT_OF_MESSAGE, Layout
from protocol.limits import Limits
from protocol.messages import (
    PROTOCOL_VERSION,
    SESSION_BYTES,
    Message,
    Probe,
    Probed,
    Request,
    Result,
    Timings,
)
from protocol.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

Frame = bytes | memoryview

_NUMBER_BYTES = 8
_ENVELOPE_FRAMES = 4

_OUR_LIMITS = Limits()


def encode_message(message: Message) -> list[Frame]:
    """Return the frames of a message; payloads are passed on, not copied.

    Raises:
        FrameError: A field holds what a peer with default limits would refuse.
    """
    layout = LAYOUT_OF_MESSAGE[type(message)]
    where = layout.message.__name__
    header = {key: _plain(getattr(message, key)) for key in layout.header.rules}
    layout.header.check(header, where, _OUR_LIMITS)
    frames: list[Frame] = [
        bytes((PROTOCOL_VERSION, layout.kind)),
        _session(message, where) if layout.has_session else b"",
        _number(message, where) if layout.has_number else b"",
        msgpack.packb(header),
    ]
    if len(frames[3]) > _OUR_LIMITS.header_bytes:
        raise LimitExceededError(
            f"the header of {where} has {len(frames[3])} bytes;"
            f" the limit is {_OUR_LIMITS.header_bytes}"
        )
    if isinstance(message, Request | Result):
        _require_distinct(message.tensors, where)
        frames.extend(tensor.payload for tensor in message.tensors)
    if isinstance(message, Probe | Probed):
        frames.append(_payload(layout, [message.payload], where))
    return frames


def decode_message(frames: Sequence[Frame], limits: Limits) -> Message:
    """Return the message of some frames, whatever they hold.

    Numbers are compared with the limits before memory is taken for what they announce; payloads
    are not decoded, and keep referring to the given frames.

    Raises:
        VersionMismatchError: The frames are of another protocol version.
        LimitExceededError: A number is above its limit.
        FrameError: The frames are no message of ours.
    """
    if len(frames) < _ENVELOPE_FRAMES or len(frames) > _ENVELOPE_FRAMES + limits.tensors:
        raise FrameError(
            f"a message has {_ENVELOPE_FRAMES} to {_ENVELOPE_FRAMES + limits.tensors} frames;"
            f" this one has {len(frames)}"
        )
    total = sum(map(_length, frames))
    if total > limits.message_bytes:
        raise LimitExceededError(f"a message of {total} bytes; the limit is {limits.message_bytes}")
    layout = _layout(frames[0])
    where = layout.message.__name__
    values: dict[str, Any] = {}
    if layout.has_session:
        values["session"] = _exactly(frames[1], SESSION_BYTES, f"{where} session")
    else:
        _exactly(frames[1], 0, f"{where} session")
    if layout.has_number:
        number = _exactly(frames[2], _NUMBER_BYTES, f"{where} number")
        values["number"] = int.from_bytes(number, "big")
    else:
        _exactly(frames[2], 0, f"{where} number")
    values |= layout.header.check(_unpack(frames[3], where, limits), where, limits)
    if "timings" in values:
        values["timings"] = Timings(**values["timings"])
    payloads = frames[_ENVELOPE_FRAMES:]
    if layout.most_payload_bytes is not None:
        values["payload"] = _payload(layout, payloads, where)
        payloads = ()
    described = values.get("tensors", ())
    if len(described) != len(payloads):
        raise FrameError(
            f"{where} describes {len(described)} tensors and carries {len(payloads)} payloads"
        )
    if "tensors" in values:
        values["tensors"] = _tensors(described, payloads, where, limits)
    message: Message = layout.message(**values)
    return message


def message_bytes(message: Message) -> int:
    """Return the bytes of all frames of a message: what credit is counted in."""
    return sum(map(_length, encode_message(message)))


def _plain(value: Any) -> Any:
    """Return a field's value in the form msgpack writes."""
    if isinstance(value, EncodedTensor):
        spec = value.spec
        return {
            "name": spec.name,
            "dtype": spec.dtype,
            "shape": list(spec.shape),
            "codec": value.codec.name,
        }
    if isinstance(value, Timings):
        return {field.name: getattr(value, field.name) for field in fields(Timings)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _session(message: Any, where: str) -> bytes:
    checked: bytes = Octets(SESSION_BYTES).check(message.session, f"{where}.session", _OUR_LIMITS)
    return checked


def _number(message: Any, where: str) -> bytes:
    highest = 2 ** (8 * _NUMBER_BYTES) - 1
    number = Integer(0, highest).check(message.number, f"{where}.number", _OUR_LIMITS)
    return number.to_bytes(_NUMBER_BYTES, "big")


def _length(frame: Frame) -> int:
    return frame.nbytes if isinstance(frame, memoryview) else len(frame)


def _layout(frame: Frame) -> Layout:
    kind = _exactly(frame, 2, "the kind")
    if kind[0] != PROTOCOL_VERSION:
        raise VersionMismatchError(
            f"a message of protocol version {kind[0]}; this side speaks {PROTOCOL_VERSION}", kind[0]
        )
    if kind[1] not in LAYOUT_OF_KIND:
        raise FrameError(f"unknown message kind {kind[1]}")
    return LAYOUT_OF_KIND[kind[1]]


def _payload(layout: Layout, payloads: Sequence[Frame], where: str) -> Frame:
    """Return the payload of a message that has one beside tensors."""
    most = layout.most_payload_bytes or 0
    if len(payloads) != 1:
        raise FrameError(f"{where} carries {len(payloads)} payloads instead of 1")
    if _length(payloads[0]) > most:
        raise LimitExceededError(
            f"the payload of {where} has {_length(payloads[0])} bytes; the limit is {most}"
        )
    return payloads[0]


def _exactly(frame: Frame, length: int, where: str) -> bytes:
    if _length(frame) != length:
        raise FrameError(f"{where} has {_length(frame)} bytes instead of {length}")
    return bytes(frame)


def _unpack(frame: Frame, where: str, limits: Limits) -> object:
    if _length(frame) > limits.header_bytes:
        raise LimitExceededError(
            f"the header of {where} has {_length(frame)} bytes; the limit is {limits.header_bytes}"
        )
    try:
        return msgpack.unpackb(
            frame,
            raw=False,
            strict_map_key=True,
            object_pairs_hook=_unique,
            max_str_len=limits.header_bytes,
            max_bin_len=SESSION_BYTES,
            max_array_len=max(limits.tensors, 64),
            max_map_len=32,
            max_ext_len=0,
        )
    # msgpack's own errors (StackError, ExtraData, FormatError) and UnicodeDecodeError are
    # ValueErrors; the pure-Python msgpack meets deep nesting with RecursionError.
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise FrameError(f"the header of {where} is no msgpack map of ours: {reason}") from error


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Build a map, refusing keys given twice: two readers could pick different ones."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FrameError("a header gives a key twice")
    return result


def _tensors(
    described: Sequence[dict[str, Any]], payloads: Sequence[Frame], where: str, limits: Limits
) -> tuple[EncodedTensor, ...]:
    tensors = []
    decoded_bytes = 0
    for description, payload in zip(described, payloads, strict=True):
        spec = TensorSpec(description["name"], description["dtype"], description["shape"])
        check_spec(spec, limits)
        decoded_bytes += spec.raw_bytes
        try:
            codec = parse_codec(description["codec"])
            most = codec.max_encoded_bytes(spec)
        except CodecError as error:
            raise FrameError(f"{where}: {error}") from error
        if _length(payload) > most:
            raise LimitExceededError(
                f"the payload of tensor {spec} has {_length(payload)} bytes;"
                f" codec {codec.name} needs at most {most}"
            )
        tensors.append(EncodedTensor(spec, codec, payload))
    if decoded_bytes > limits.message_bytes:
        raise LimitExceededError(
            f"the tensors of {where} take {decoded_bytes} bytes once decoded;"
            f" the limit is {limits.message_bytes}"
        )
    _require_distinct(tensors, where)
    return tuple(tensors)


def _require_distinct(tensors: Sequence[EncodedTensor], where: str) -> None:
    names = {tensor.spec.name for tensor in tensors}
    if len(names) != len(tensors):
        raise FrameError(f"{where} carries two tensors of one name")
