"""A tensor ready to travel, and the way there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.codecs.base import Codec, Payload, RawCodec
from protocol.errors import LimitExceededError, UnencodableValuesError
from protocol.tensors import ITEM_BYTES, Array, TensorSpec

if TYPE_CHECKING:
    from protocol.limits import Limits


@dataclass(frozen=True)
class EncodedTensor:
    """A tensor ready to travel.

    Attributes:
        spec: Name, dtype and shape of the decoded tensor.
        codec: What the payload was really encoded with.
        payload: The encoded bytes.
    """

    spec: TensorSpec
    codec: Codec
    payload: Payload


def encode_tensor(name: str, array: Array, codec: Codec) -> EncodedTensor:
    """Encode an array with a codec, or raw where that codec cannot carry it.

    Lossy codecs give way to raw for dtypes they do not transform, and for this one array if it
    holds values they cannot carry (NaN, infinities, overflow): an unusual frame must arrive as
    it is rather than be refused.

    Raises:
        CodecError: The array's dtype cannot be sent, or a JPEG codec is given no picture.
    """
    spec = TensorSpec.of(name, array)
    resolved = codec.resolve(spec)
    try:
        return EncodedTensor(spec, resolved, resolved.encode(array))
    except UnencodableValuesError:
        raw = RawCodec()
        return EncodedTensor(spec, raw, raw.encode(array))


def decode_tensor(encoded: EncodedTensor, limits: Limits) -> Array:
    """Decode a tensor that came from anywhere.

    Returns:
        A read-only array that shares no memory with the payload; copy it before changing it.

    Raises:
        LimitExceededError: The tensor would be larger than the limits allow.
        CodecError: The payload is damaged or does not belong to such a tensor. Its declared size
            is compared with the spec before memory is taken.
    """
    check_spec(encoded.spec, limits)
    return encoded.codec.decode(encoded.payload, encoded.spec)


def check_spec(spec: TensorSpec, limits: Limits) -> None:
    """Refuse a tensor larger than the limits allow, without allocating anything.

    Raises:
        LimitExceededError: Too many axes or bytes.
    """
    if len(spec.shape) > limits.rank:
        raise LimitExceededError(
            f"tensor {spec.name!r} has {len(spec.shape)} axes; the limit is {limits.rank}"
        )
    # An empty tensor may still have axes too long for numpy: [0, 2**62] takes no memory at all.
    nonempty = ITEM_BYTES[spec.dtype]
    for length in spec.shape:
        nonempty *= max(length, 1)
    if nonempty > limits.tensor_bytes:
        raise LimitExceededError(
            f"tensor {spec} takes {nonempty} bytes; the limit is {limits.tensor_bytes}"
        )
