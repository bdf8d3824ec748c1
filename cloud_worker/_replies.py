"""Finished answers, kept so that a repeated request is answered and not computed again. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cloud_worker._work import Answer, TailKey

# What an entry costs beside its tensors: keys, objects, table slots.
_ENTRY_BYTES = 1024


class RequestKey(NamedTuple):
    """Names a request for ever: numbers count within one run of an agent.

    The tail is part of it, so that an agent which counts anew for each cut gets no foreign answer.
    """

    incarnation: bytes
    tail: TailKey
    number: int


class ReplyCache:
    """Answers by request, the oldest dropped first when they exceed a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._answers: OrderedDict[RequestKey, tuple[Answer, int]] = OrderedDict()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, key: RequestKey) -> Answer | None:
        """The answer, if it is still held."""
        entry = self._answers.get(key)
        return None if entry is None else entry[0]

    def keep(self, key: RequestKey, answer: Answer, payload_bytes: int) -> None:
        """Hold an answer; one larger than the whole cache is not held."""
        size = payload_bytes + _ENTRY_BYTES
        if size > self._limit_bytes:
            return
        self._answers[key] = (answer, size)
        self.held_bytes += size
        while self.held_bytes > self._limit_bytes:
            _, (_, dropped) = self._answers.popitem(last=False)
            self.held_bytes -= dropped
