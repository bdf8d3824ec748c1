"""The seam of tensor codecs, and the arithmetic-free one: the elements as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from protocol.codecs import _zstd
from protocol.errors import CodecError
from protocol.tensors import Array, TensorSpec

Payload = bytes | memoryview


class Codec(Protocol):
    """How one tensor travels: a frozen value, compared by its settings.

    Every payload is deterministic and carries a checksum: a damaged, short or long payload is
    refused, never decoded to something else.
    """

    @property
    def name(self) -> str:
        """The name on the wire; it says everything about the codec."""
        ...

    def resolve(self, spec: TensorSpec) -> Codec:
        """Return the codec that is really used for such a tensor.

        Raises:
            CodecError: Neither this codec nor its fallback can carry the tensor.
        """
        ...

    def max_encoded_bytes(self, spec: TensorSpec) -> int:
        """Return the largest payload of such a tensor, whatever its values."""
        ...

    def encode(self, array: Array) -> bytes:
        """Return the payload of an array that :meth:`resolve` gave this codec for.

        Raises:
            UnencodableValuesError: The values do not fit, for example NaN into quantised codes.
            CodecError: The array's dtype or shape is not this codec's.
        """
        ...

    def decode(self, payload: Payload, spec: TensorSpec) -> Array:
        """Return the array, read-only and sharing no memory with the payload.

        The payload's declared size is compared with the spec before memory is taken; limits on
        the spec itself are the caller's (see :func:`protocol.decode_tensor`).

        Raises:
            CodecError: The payload is damaged or is not of such a tensor.
        """
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping, read by :func:`protocol.codec_from_dict`."""
        ...


@dataclass(frozen=True)
class RawCodec:
    """The elements bit for bit, in one zstd frame."""

    @property
    def name(self) -> str:
        """Always ``raw``."""
        return "raw"

    def resolve(self, spec: TensorSpec) -> RawCodec:
        """Return itself: every dtype can travel raw."""
        del spec
        return self

    def max_encoded_bytes(self, spec: TensorSpec) -> int:
        """Return the size of an incompressible tensor."""
        return _zstd.bound(spec.raw_bytes)

    def encode(self, array: Array) -> bytes:
        """Return the elements in C order, little-endian, compressed."""
        spec = TensorSpec.of("", array)
        return compress_elements(array, spec.wire_dtype)

    def decode(self, payload: Payload, spec: TensorSpec) -> Array:
        """Return the elements; see :meth:`Codec.decode`."""
        content = _zstd.decompress(payload, spec.raw_bytes, f"tensor {spec}")
        if spec.dtype == "bool" and not np.all(np.frombuffer(content, np.uint8) <= 1):
            # numpy trusts that a bool byte is 0 or 1; anything else misbehaves later.
            raise CodecError(f"the payload of tensor {spec} holds bytes other than 0 and 1")
        elements = np.frombuffer(content, spec.wire_dtype).reshape(spec.shape)
        return elements.astype(spec.dtype, copy=False)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {"name": self.name}


def compress_elements(array: Array, wire_dtype: np.dtype[Any]) -> bytes:
    """Return the elements of an array as a zstd frame, copying them only if they must move."""
    flat = np.ascontiguousarray(array, wire_dtype).reshape(-1)
    return _zstd.compress(flat.view(np.uint8).data)


def extremes(flat: Array) -> tuple[float, float]:
    """Return lowest and highest element, zeros for an empty array; NaN if any element is NaN."""
    if flat.size == 0:
        return 0.0, 0.0
    return float(flat.min()), float(flat.max())


def read_only(array: Array) -> Array:
    """Forbid writing: whoever decoded an array may keep it for a resend or a fallback."""
    array.flags.writeable = False
    return array


def require_float(codec: Codec, spec: TensorSpec, dtypes: frozenset[str]) -> None:
    """Refuse a dtype that a float codec does not transform.

    Raises:
        CodecError: The dtype is not among the given ones.
    """
    if spec.dtype not in dtypes:
        raise CodecError(
            f"codec {codec.name} cannot carry tensor {spec}; it takes {', '.join(sorted(dtypes))}"
        )
