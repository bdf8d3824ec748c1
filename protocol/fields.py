"""Rules that headers from the wire must follow: a closed key set, a type and a range each.

A rule turns a value that msgpack produced into the value a message holds, or raises a
:class:`FrameError` that names the field. Nothing here recurses deeper than the rules do, however
deep the value is nested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from protocol.errors import FrameError, HeadtailError, LimitExceededError
from protocol.preprocess import ImagePreprocess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import Enum

    from protocol.limits import Limits


class Rule(Protocol):
    """What a field may hold."""

    def check(self, value: object, where: str, limits: Limits, /) -> Any:
        """Return the value in the form a message holds.

        Raises:
            FrameError: The value breaks the rule; ``where`` names it.
        """
        ...


@dataclass(frozen=True)
class Integer:
    """A whole number within a range, both ends included."""

    lowest: int
    highest: int

    def check(self, value: object, where: str, _limits: Limits, /) -> int:
        """See :class:`Rule`."""
        if type(value) is not int:  # bool is an int for isinstance
            raise _wrong(where, value, "a whole number")
        if not self.lowest <= value <= self.highest:
            raise LimitExceededError(
                f"{where} is {value}; the range is {self.lowest} to {self.highest}"
            )
        return value


@dataclass(frozen=True)
class Real:
    """A number from zero up to a maximum."""

    highest: float

    def check(self, value: object, where: str, _limits: Limits, /) -> float:
        """See :class:`Rule`."""
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise _wrong(where, value, "a number")
        if not 0 <= value <= self.highest:
            raise LimitExceededError(f"{where} is {value:g}; the range is 0 to {self.highest:g}")
        return float(value)


@dataclass(frozen=True)
class Name:
    """A text of at least one character, bounded by ``limits.name_characters``."""

    def check(self, value: object, where: str, limits: Limits, /) -> str:
        """See :class:`Rule`."""
        if not isinstance(value, str):
            raise _wrong(where, value, "a text")
        if not 1 <= len(value) <= limits.name_characters:
            raise LimitExceededError(
                f"{where} has {len(value)} characters; the range is 1 to {limits.name_characters}"
            )
        return value


@dataclass(frozen=True)
class Prose:
    """A text for people, bounded; may be empty."""

    maximum_characters: int

    def check(self, value: object, where: str, _limits: Limits, /) -> str:
        """See :class:`Rule`."""
        if not isinstance(value, str):
            raise _wrong(where, value, "a text")
        if len(value) > self.maximum_characters:
            raise LimitExceededError(
                f"{where} has {len(value)} characters; the limit is {self.maximum_characters}"
            )
        return value


@dataclass(frozen=True)
class Digest:
    """A SHA-256 as 64 lower-case hexadecimal digits."""

    def check(self, value: object, where: str, _limits: Limits, /) -> str:
        """See :class:`Rule`."""
        if not isinstance(value, str) or len(value) != 64 or set(value) - _HEXADECIMAL:
            raise _wrong(where, value, "a SHA-256 of 64 lower-case hexadecimal digits")
        return value


_HEXADECIMAL = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Octets:
    """Exactly so many bytes."""

    length: int

    def check(self, value: object, where: str, _limits: Limits, /) -> bytes:
        """See :class:`Rule`."""
        if not isinstance(value, bytes) or len(value) != self.length:
            raise _wrong(where, value, f"{self.length} bytes")
        return value


@dataclass(frozen=True)
class Choice:
    """The value of one member of an enumeration."""

    members: type[Enum]

    def check(self, value: object, where: str, _limits: Limits, /) -> Enum:
        """See :class:`Rule`."""
        if isinstance(value, str):
            for member in self.members:
                if member.value == value:
                    return member
        raise _wrong(where, value, f"one of {', '.join(str(m.value) for m in self.members)}")


@dataclass(frozen=True)
class OneOf:
    """One of some texts."""

    texts: frozenset[str]

    def check(self, value: object, where: str, _limits: Limits, /) -> str:
        """See :class:`Rule`."""
        if not isinstance(value, str) or value not in self.texts:
            raise _wrong(where, value, f"one of {', '.join(sorted(self.texts))}")
        return value


@dataclass(frozen=True)
class Shape:
    """Lengths of at most ``limits.rank`` axes; their product is checked with the dtype."""

    def check(self, value: object, where: str, limits: Limits, /) -> tuple[int, ...]:
        """See :class:`Rule`."""
        return Items(Integer(0, limits.tensor_bytes), limits.rank).check(value, where, limits)


@dataclass(frozen=True)
class Items:
    """A list of at most so many values of one rule (``limits.tensors`` if not given)."""

    rule: Rule
    maximum: int | None = None

    def check(self, value: object, where: str, limits: Limits, /) -> tuple[Any, ...]:
        """See :class:`Rule`."""
        maximum = limits.tensors if self.maximum is None else self.maximum
        if not isinstance(value, list | tuple):
            raise _wrong(where, value, "a list")
        if len(value) > maximum:
            raise LimitExceededError(f"{where} has {len(value)} items; the limit is {maximum}")
        return tuple(
            self.rule.check(item, f"{where}[{index}]", limits) for index, item in enumerate(value)
        )


@dataclass(frozen=True)
class Optional:
    """None, or a value of the rule."""

    rule: Rule

    def check(self, value: object, where: str, limits: Limits, /) -> Any:
        """See :class:`Rule`."""
        return None if value is None else self.rule.check(value, where, limits)


@dataclass(frozen=True)
class Record:
    """A map with exactly these keys."""

    rules: Mapping[str, Rule]

    def check(self, value: object, where: str, limits: Limits, /) -> dict[str, Any]:
        """See :class:`Rule`."""
        if not isinstance(value, dict):
            raise _wrong(where, value, "a map")
        if value.keys() != self.rules.keys():
            raise _wrong(where, sorted(map(str, value)), f"the keys {', '.join(self.rules)}")
        return {
            key: rule.check(value[key], f"{where}.{key}", limits)
            for key, rule in self.rules.items()
        }


@dataclass(frozen=True)
class Preprocess:
    """A mapping that :class:`ImagePreprocess` accepts."""

    def check(self, value: object, where: str, _limits: Limits, /) -> dict[str, Any]:
        """See :class:`Rule`."""
        if not isinstance(value, dict):
            raise _wrong(where, value, "a map")
        try:
            return ImagePreprocess.from_dict(value).to_dict()
        except HeadtailError as error:
            raise FrameError(f"{where}: {error}") from error


def _wrong(where: str, value: object, wanted: str) -> FrameError:
    shown = repr(value) if isinstance(value, str | bytes | int | float | None) else ""
    if len(shown) > 60:
        shown = f"{shown[:60]}…"
    return FrameError(f"{where} must be {wanted}, not {type(value).__name__} {shown}".rstrip())
