"""Floats as 16-bit floats: half the bytes, eleven bits of precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from protocol.codecs import _zstd
from protocol.codecs.base import (
    Codec,
    Payload,
    RawCodec,
    compress_elements,
    extremes,
    read_only,
    require_float,
)
from protocol.errors import UnencodableValuesError
from protocol.tensors import Array, TensorSpec

_WIDER_FLOATS = frozenset({"float32", "float64"})
_WIRE_DTYPE = np.dtype("<f2")
_OVERFLOW = 65_520.0  # the lowest magnitude that rounds to infinity


@dataclass(frozen=True)
class Float16Codec:
    """Elements rounded to the nearest 16-bit float, in one zstd frame.

    The error of an element x is at most ``max(|x| * 2**-11, 2**-25)``. Values of 65,520 and more
    overflow and, like NaN and infinities, are refused.
    """

    @property
    def name(self) -> str:
        """Always ``float16``."""
        return "float16"

    def resolve(self, spec: TensorSpec) -> Codec:
        """Return itself for wider floats; anything else gains nothing and travels raw."""
        return self if spec.dtype in _WIDER_FLOATS else RawCodec()

    def max_encoded_bytes(self, spec: TensorSpec) -> int:
        """Return the size of an incompressible tensor."""
        resolved = self.resolve(spec)
        if resolved != self:
            return resolved.max_encoded_bytes(spec)
        return _zstd.bound(2 * spec.elements)

    def encode(self, array: Array) -> bytes:
        """Return the payload; see :meth:`Codec.encode`."""
        require_float(self, TensorSpec.of("", array), _WIDER_FLOATS)
        low, high = extremes(array)
        # Asked of the extremes, since looking through the 16-bit floats takes ten times as long.
        if not (low > -_OVERFLOW and high < _OVERFLOW):
            raise UnencodableValuesError(
                "codec float16 cannot carry NaN, infinities or magnitudes of 65,520 and more"
            )
        with np.errstate(under="ignore"):
            return compress_elements(array, _WIRE_DTYPE)

    def decode(self, payload: Payload, spec: TensorSpec) -> Array:
        """Return the array; see :meth:`Codec.decode`."""
        require_float(self, spec, _WIDER_FLOATS)
        content = _zstd.decompress(payload, 2 * spec.elements, f"tensor {spec}")
        half = np.frombuffer(content, _WIRE_DTYPE)
        return read_only(half.astype(spec.dtype)).reshape(spec.shape)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {"name": self.name}
