"""Bounds on every number that comes from the wire, checked before memory is taken."""

from __future__ import annotations

from dataclasses import dataclass, fields

from protocol.errors import SettingError

MIB = 1024 * 1024
LEAST_MESSAGE_BYTES = 4_096  # a HELLO with a few names must fit


@dataclass(frozen=True)
class Limits:
    """What one side accepts from the other.

    Attributes:
        header_bytes: Largest msgpack header of a message.
        tensor_bytes: Largest tensor, decoded.
        message_bytes: Largest message; bounds both the sum of its frames on the wire and the sum
            of its tensors once decoded, since a few kilobytes can inflate to gigabytes.
        tensors: Most tensors in a message.
        rank: Most axes of a tensor.
        name_characters: Longest name of a tensor, cut or worker.

    Raises:
        SettingError: A limit is no whole number or lies outside what the format can carry.
    """

    header_bytes: int = 65_536
    tensor_bytes: int = 256 * MIB
    message_bytes: int = 256 * MIB
    tensors: int = 256
    rank: int = 16
    name_characters: int = 512

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            lowest, highest = _RANGES[field.name]
            if type(value) is not int or not lowest <= value <= highest:
                raise SettingError(
                    f"limit {field.name} is {value!r};"
                    f" give a whole number from {lowest} to {highest}"
                )


_RANGES = {
    # A HELLO with a few names must fit; above 1 MiB the parsed form of a hostile header costs
    # some 75 MB (notes on msgpack: about 75 times its size).
    "header_bytes": (1_024, MIB),
    "tensor_bytes": (1, 2**40),
    "message_bytes": (LEAST_MESSAGE_BYTES, 2**40),
    "tensors": (1, 4_096),
    # numpy 1.26 knows 32 axes.
    "rank": (1, 32),
    "name_characters": (64, 4_096),
}
