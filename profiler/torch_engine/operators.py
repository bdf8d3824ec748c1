"""The table of operators: what each family registers.

A builder turns one node into a function of tensors, once, when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import onnx
import torch

from profiler.torch_engine.call import Call
from profiler.torch_engine.dtypes import UnsupportedError

__all__ = [
    "Call",
    "Operation",
    "Operator",
    "Results",
    "UnsupportedError",
    "find_operator",
    "integers_of",
    "operator",
    "operator_names",
    "register",
]

Results = Any  # a tensor, or a tuple of them, where an unwanted one may be None
# Takes tensors by position; None stands for an optional input that is not given.
Operation = Callable[[Any], Results]
Builder = Callable[[Call], Operation]

_STANDARD_DOMAINS = frozenset({"", "ai.onnx"})


@dataclass(frozen=True)
class Operator:
    """How nodes of one type are built.

    Attributes:
        build: Makes the function.
        first: Oldest version of the operator's specification that is implemented.
        last: Newest one.
        outputs: How many outputs are implemented.
        host: Positions of inputs whose values are needed to say what is done, such as a shape.
            They stay in the host's memory, so that an accelerator is not waited for.
        shape_only: Whether only the shape of the inputs is read, never a value.
    """

    build: Builder
    first: int
    last: int
    outputs: int
    host: frozenset[int]
    shape_only: bool


_OPERATORS: dict[str, Operator] = {}


def register(
    name: str,
    build: Builder,
    first: int,
    last: int,
    *,
    outputs: int = 1,
    host: Iterable[int] = (),
    shape_only: bool = False,
) -> None:
    """Enter an operator into the table; see :class:`Operator`."""
    _OPERATORS[name] = Operator(build, first, last, outputs, frozenset(host), shape_only)


def operator(
    name: str,
    first: int,
    last: int,
    *,
    outputs: int = 1,
    host: Iterable[int] = (),
    shape_only: bool = False,
) -> Callable[[Builder], Builder]:
    """Enter the decorated builder into the table; see :class:`Operator`."""

    def enter(build: Builder) -> Builder:
        register(name, build, first, last, outputs=outputs, host=host, shape_only=shape_only)
        return build

    return enter


def operator_names() -> list[str]:
    """Return the types that are in the table."""
    return sorted(_OPERATORS)


def find_operator(node: onnx.NodeProto, opset: int) -> tuple[Operator, int]:
    """Return the table's entry for a node, and the version of the operator that it means.

    Raises:
        UnsupportedError: There is none, or not of this version.
    """
    found = _OPERATORS.get(node.op_type)
    if found is None or node.domain not in _STANDARD_DOMAINS:
        raise UnsupportedError("")
    if not onnx.defs.has(node.op_type):
        raise UnsupportedError("")
    try:
        version = onnx.defs.get_schema(node.op_type, opset).since_version
    except onnx.defs.SchemaError:
        raise UnsupportedError("not in this operator set") from None
    if not found.first <= version <= found.last:
        raise UnsupportedError(f"version {version} of the operator")
    wanted = [index for index, name in enumerate(node.output) if name]
    if wanted and wanted[-1] >= found.outputs:
        raise UnsupportedError(f"output {wanted[-1] + 1}")
    return found, version


def integers_of(tensor: torch.Tensor) -> list[int]:
    """Values of a small tensor of whole numbers."""
    return [int(value) for value in tensor.reshape(-1).tolist()]
