"""Description of one concrete tensor: name, dtype from a closed list, shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from protocol.errors import CodecError

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = NDArray[Any]

Dtype = Literal[
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]

# Bytes per element. The wire is little-endian whatever the machine.
ITEM_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "bool": 1,
        "int8": 1,
        "int16": 2,
        "int32": 4,
        "int64": 8,
        "uint8": 1,
        "uint16": 2,
        "uint32": 4,
        "uint64": 8,
        "float16": 2,
        "float32": 4,
        "float64": 8,
    }
)

# numpy takes microseconds to work out a dtype's name. Big-endian dtypes are not among these.
_NAMES: Mapping[np.dtype[Any], str] = MappingProxyType(
    {np.dtype(name): name for name in ITEM_BYTES}
)

FLOAT_DTYPES = frozenset({"float16", "float32", "float64"})


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype and shape of one concrete tensor.

    Attributes:
        name: The tensor's name in the model.
        dtype: One of :data:`Dtype`.
        shape: Whole numbers, none negative; empty for a scalar.

    Raises:
        CodecError: The dtype cannot be sent, or the shape is no shape.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.dtype not in ITEM_BYTES:
            raise CodecError(
                f"tensor {self.name!r} has dtype {self.dtype}, which cannot be sent;"
                f" the wire knows {', '.join(ITEM_BYTES)}"
            )
        if any(length < 0 for length in self.shape):
            raise CodecError(f"tensor {self.name!r} has a negative axis in shape {self.shape}")

    @classmethod
    def of(cls, name: str, array: Array) -> TensorSpec:
        """Describe an array.

        Raises:
            CodecError: The array's dtype (text, bfloat16, objects, ...) cannot be sent.
        """
        dtype = _NAMES.get(array.dtype) or array.dtype.name
        return cls(name, dtype, array.shape)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def raw_bytes(self) -> int:
        """Bytes of the uncompressed elements."""
        return self.elements * ITEM_BYTES[self.dtype]

    @property
    def wire_dtype(self) -> np.dtype[Any]:
        """The numpy dtype in the byte order of the wire."""
        return np.dtype(self.dtype).newbyteorder("<")

    def __str__(self) -> str:
        return f"{self.name!r} {self.dtype}[{', '.join(map(str, self.shape))}]"
