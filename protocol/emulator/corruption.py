"""Which bytes of a stream are damaged: a repeatable choice."""

from __future__ import annotations

from random import Random

from protocol.emulator.errors import LinkSettingsError


class Corruption:
    """Flips one bit in one byte of about every ``every_bytes``, at places drawn from a seed."""

    def __init__(self, every_bytes: int, seed: int) -> None:
        if every_bytes < 1:
            raise LinkSettingsError(f"corrupt one byte of 1 or more, not of {every_bytes}")
        self._every_bytes = every_bytes
        self._random = Random(seed)  # noqa: S311 - repeatable damage, no secret
        self._until_next = self._gap()

    def apply(self, data: bytes) -> tuple[bytes, int]:
        """Return the damaged bytes, and how many of them are damaged."""
        if self._until_next >= len(data):
            self._until_next -= len(data)
            return data, 0
        damaged = bytearray(data)
        position, count = self._until_next, 0
        while position < len(damaged):
            damaged[position] ^= 1 << self._random.randrange(8)
            count += 1
            position += 1 + self._gap()
        self._until_next = position - len(damaged)
        return bytes(damaged), count

    def _gap(self) -> int:
        """Untouched bytes before the next damaged one; every_bytes - 1 on average."""
        return self._random.randint(0, 2 * (self._every_bytes - 1))
