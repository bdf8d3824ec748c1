"""Which element types the engine carries, and how stored tensors become torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch

__all__ = ["TORCH_DTYPES", "UnsupportedError", "dtype_text", "tensor_of", "torch_dtype"]

# What numpy, torch and ONNX share and torch has kernels for. Unsigned types of more than eight bits
# have few, and bfloat16 has no numpy form.
TORCH_DTYPES: dict[int, Any] = {
    onnx.TensorProto.BOOL: torch.bool,
    onnx.TensorProto.DOUBLE: torch.float64,
    onnx.TensorProto.FLOAT: torch.float32,
    onnx.TensorProto.FLOAT16: torch.float16,
    onnx.TensorProto.INT8: torch.int8,
    onnx.TensorProto.INT16: torch.int16,
    onnx.TensorProto.INT32: torch.int32,
    onnx.TensorProto.INT64: torch.int64,
    onnx.TensorProto.UINT8: torch.uint8,
}


class UnsupportedError(Exception):
    """What this engine cannot run as ONNX means it; the text says which part of it."""


def dtype_text(elem_type: int) -> str:
    """Return the name of an ONNX element type, for people."""
    if elem_type not in onnx.TensorProto.DataType.values():
        return f"type {elem_type}"
    return onnx.TensorProto.DataType.Name(elem_type).lower()


def torch_dtype(elem_type: int) -> torch.dtype:
    """Return torch's type for an ONNX element type.

    Raises:
        UnsupportedError: The engine does not carry it.
    """
    if elem_type not in TORCH_DTYPES:
        raise UnsupportedError(f"{dtype_text(elem_type)} tensors")
    return TORCH_DTYPES[elem_type]


def tensor_of(proto: onnx.TensorProto) -> torch.Tensor:
    """Return a stored tensor whose values lie in the message itself.

    Raises:
        UnsupportedError: The engine does not carry its type.
    """
    torch_dtype(proto.data_type)
    return torch.from_numpy(np.array(onnx.numpy_helper.to_array(proto)))
