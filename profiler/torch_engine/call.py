"""What a builder is told of a node.

It reads the attributes that it knows; what it leaves unread, or refuses, is not supported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx
import torch

from profiler.torch_engine.dtypes import UnsupportedError, tensor_of

__all__ = ["Call"]


class Call:
    """One node, as its builder sees it.

    Attributes:
        version: The version of the operator's specification that the node means.
        given: For each input position, whether something is there.
        constants: For each input position, its value where it never changes.
        outputs: How many outputs are wanted, unwanted ones before the last wanted one included.
        declared_outputs: How many the node has.
    """

    def __init__(
        self, node: onnx.NodeProto, version: int, constants: Sequence[torch.Tensor | None] = ()
    ) -> None:
        self.version = version
        self.given = tuple(bool(name) for name in node.input)
        self.constants = tuple(constants)
        self.outputs = max((index + 1 for index, name in enumerate(node.output) if name), default=0)
        self.declared_outputs = len(node.output)
        self._attributes = {attribute.name: attribute for attribute in node.attribute}
        self._unread = set(self._attributes)

    def has(self, position: int) -> bool:
        """Whether an input is given."""
        return position < len(self.given) and self.given[position]

    def constant(self, position: int) -> torch.Tensor | None:
        """The value of an input that never changes."""
        return self.constants[position] if position < len(self.constants) else None

    def present(self, name: str) -> bool:
        """Whether the node has an attribute."""
        return name in self._attributes

    def _value(self, name: str) -> Any:
        self._unread.discard(name)
        attribute = self._attributes.get(name)
        if attribute is None:
            return None
        if attribute.ref_attr_name:
            raise UnsupportedError(f"{name} refers to an attribute of a function")
        return onnx.helper.get_attribute_value(attribute)

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number.

        Raises:
            UnsupportedError: It is not there, and there is no default.
        """
        value = self._value(name)
        if value is None:
            value = default
        if value is None:
            raise UnsupportedError(f"no attribute {name}")
        return int(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """A whole number that means yes or no."""
        return bool(self.integer(name, int(default)))

    def number(self, name: str, default: float) -> float:
        """A number; ONNX keeps it in single precision."""
        value = self._value(name)
        return default if value is None else float(value)

    def integers(self, name: str) -> list[int] | None:
        """Whole numbers, or None."""
        value = self._value(name)
        return None if value is None else [int(item) for item in value]

    def numbers(self, name: str) -> list[float] | None:
        """Numbers, or None."""
        value = self._value(name)
        return None if value is None else [float(item) for item in value]

    def text(self, name: str, default: str) -> str:
        """A word."""
        value = self._value(name)
        return default if value is None else value.decode("utf-8", "replace")

    def texts(self, name: str) -> list[str] | None:
        """Words, or None."""
        value = self._value(name)
        return None if value is None else [item.decode("utf-8", "replace") for item in value]

    def tensor(self, name: str) -> torch.Tensor | None:
        """A tensor, or None."""
        value = self._value(name)
        return None if value is None else tensor_of(value)

    def forget(self, *names: str) -> None:
        """Leave attributes out that change nothing in inference."""
        self._unread.difference_update(names)

    def choice(self, name: str, default: str, known: Iterable[str]) -> str:
        """A word out of those that are implemented.

        Raises:
            UnsupportedError: It is another.
        """
        value = self.text(name, default)
        if value not in set(known):
            raise UnsupportedError(f"{name}={value}")
        return value

    def require(self, name: str, wanted: int, default: int) -> None:
        """Refuse all but one value of a whole number.

        Raises:
            UnsupportedError: It is another.
        """
        value = self.integer(name, default)
        if value != wanted:
            raise UnsupportedError(f"{name}={value}")

    def refuse_input(self, position: int, name: str) -> None:
        """Refuse nodes that have an optional input.

        Raises:
            UnsupportedError: It is given.
        """
        if self.has(position):
            raise UnsupportedError(f"input {name}")

    def check_all_read(self) -> None:
        """Refuse attributes that the builder did not ask for.

        Raises:
            UnsupportedError: There are such.
        """
        if self._unread:
            raise UnsupportedError(", ".join(sorted(self._unread)))
