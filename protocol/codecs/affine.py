"""Floats as small whole numbers between the tensor's own extremes."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from protocol.codecs import _zstd
from protocol.codecs.base import Codec, Payload, RawCodec, extremes, read_only, require_float
from protocol.errors import CodecError, UnencodableValuesError
from protocol.tensors import FLOAT_DTYPES, Array, TensorSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RANGE = np.dtype("<f4")
_RANGE_BYTES = 2 * _RANGE.itemsize
_PAIR = np.dtype("<u2")

# Blocks stay in the cache between the four passes over them, and the scratch memory stays small.
# Even, so that a block of 4-bit codes fills whole bytes.
_BLOCK = 65_536

# Beyond these, differences or scales overflow, or lose their precision, in float32.
_FAST_MAGNITUDE = 1e37
_FAST_SPAN = 1e-30


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.floats = np.empty(_BLOCK, np.float32)
        self.codes = np.empty(_BLOCK, np.uint8)


_scratch = _Scratch()


@dataclass(frozen=True)
class AffineCodec:
    """Elements as the nearest of ``2**bits`` evenly spaced values from lowest to highest.

    The zstd frame holds the lowest and the highest element (two little-endian float32) and then
    the codes: one a byte, or two a byte with 4 bits, the earlier one in the lower half.

    With ``lo`` and ``hi`` as stored, the error of an element is at most
    ``(hi - lo) / (2 * (2**bits - 1))`` plus float rounding, which is below
    ``max(|lo|, |hi|) * 2**-20`` for float32 (float64 tensors keep no more than that; float16
    ones are rounded once more to their own precision).

    Attributes:
        bits: 8 or 4.
    """

    bits: Literal[8, 4]

    def __post_init__(self) -> None:
        if self.bits not in (8, 4):
            raise CodecError(f"an affine codec has 8 or 4 bits, not {self.bits!r}")

    @property
    def name(self) -> str:
        """``affine8`` or ``affine4``."""
        return f"affine{self.bits}"

    def resolve(self, spec: TensorSpec) -> Codec:
        """Return itself for floats; anything else travels raw."""
        return self if spec.dtype in FLOAT_DTYPES else RawCodec()

    def max_encoded_bytes(self, spec: TensorSpec) -> int:
        """Return the size with incompressible codes."""
        if spec.dtype not in FLOAT_DTYPES:
            return RawCodec().max_encoded_bytes(spec)
        return _zstd.bound(self._content_bytes(spec.elements))

    def encode(self, array: Array) -> bytes:
        """Return the payload; see :meth:`Codec.encode`."""
        require_float(self, TensorSpec.of("", array), FLOAT_DTYPES)
        flat = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1)
        low, high = _range(flat)
        content = np.empty(self._content_bytes(flat.size), np.uint8)
        content[:_RANGE_BYTES].view(_RANGE)[:] = (low, high)
        codes = content[_RANGE_BYTES:]
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK]
            if self.bits == 8:
                self._quantise(block, low, high, codes[start : start + _BLOCK])
            else:
                unpacked = _scratch.codes[: block.size + block.size % 2]
                unpacked[block.size :] = 0
                self._quantise(block, low, high, unpacked[: block.size])
                pairs = unpacked.view(_PAIR)
                # low byte of (b2 << 8 | b1) | (b2 << 4 | b1 >> 4) with both below 16: b2 << 4 | b1
                np.bitwise_or(
                    pairs,
                    pairs >> 4,
                    out=codes[start // 2 : (start + _BLOCK) // 2],
                    casting="unsafe",
                )
        return _zstd.compress(content.data)

    def decode(self, payload: Payload, spec: TensorSpec) -> Array:
        """Return the array; see :meth:`Codec.decode`."""
        require_float(self, spec, FLOAT_DTYPES)
        what = f"tensor {spec}"
        content = _zstd.decompress(payload, self._content_bytes(spec.elements), what)
        low, high = map(float, np.frombuffer(content, _RANGE, 2))
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise CodecError(f"the payload of {what} has the range {low} to {high}")
        codes = np.frombuffer(content, np.uint8, offset=_RANGE_BYTES)
        values = np.empty(spec.elements, spec.dtype)
        for start in range(0, values.size, _BLOCK):
            block = values[start : start + _BLOCK]
            if self.bits == 8:
                self._restore(codes[start : start + _BLOCK], low, high, block)
            else:
                packed = codes[start // 2 : (start + _BLOCK) // 2]
                unpacked = _scratch.codes[: 2 * packed.size]
                pairs = unpacked.view(_PAIR)
                np.left_shift(packed, 4, out=pairs, dtype=_PAIR)
                np.bitwise_or(pairs, packed, out=pairs)
                np.bitwise_and(pairs, 0x0F0F, out=pairs)
                self._restore(unpacked[: block.size], low, high, block)
        return read_only(values).reshape(spec.shape)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {"name": self.name}

    @property
    def _levels(self) -> int:
        return (1 << self.bits) - 1

    def _content_bytes(self, elements: int) -> int:
        return _RANGE_BYTES + (elements * self.bits + 7) // 8

    def _quantise(self, block: Array, low: float, high: float, codes: NDArray[np.uint8]) -> None:
        """Write the code of every element of one block."""
        span = high - low
        scale = self._levels / span if span else 0.0
        if block.dtype != np.float64 and _fits_float32(low, high):
            scratch = _scratch.floats[: block.size]
            np.subtract(block, np.float32(low), out=scratch, dtype=np.float32)
            np.multiply(scratch, np.float32(scale), out=scratch)
            np.rint(scratch, out=scratch)
            np.copyto(codes, scratch, casting="unsafe")
        else:
            exact = (block.astype(np.float64) - low) * scale
            np.copyto(codes, np.rint(exact).clip(0, self._levels), casting="unsafe")

    def _restore(self, codes: NDArray[np.uint8], low: float, high: float, block: Array) -> None:
        """Write the value of every code of one block."""
        step = (high - low) / self._levels
        if block.dtype != np.float64 and _fits_float32(low, high):
            scratch = block if block.dtype == np.float32 else _scratch.floats[: block.size]
            np.multiply(codes, np.float32(step), out=scratch, dtype=np.float32)
            np.add(scratch, np.float32(low), out=scratch)
            if scratch is not block:
                np.copyto(block, scratch, casting="same_kind")
        else:
            exact = (codes * step + low).clip(low, high)
            np.copyto(block, exact, casting="same_kind")


def _range(flat: Array) -> tuple[float, float]:
    """Return lowest and highest element as float32 values."""
    with np.errstate(over="ignore"):
        low, high = (float(np.float32(value)) for value in extremes(flat))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise UnencodableValuesError(
            "an affine codec cannot carry NaN, infinities or magnitudes beyond float32"
        )
    return low, high


def _fits_float32(low: float, high: float) -> bool:
    """Whether float32 arithmetic neither overflows nor underflows for this range."""
    span = high - low
    return max(-low, high) < _FAST_MAGNITUDE and (span == 0.0 or span > _FAST_SPAN)
