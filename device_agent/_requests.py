"""Which requests wait for their reply, which were given up, and so what each reply is.

Light.
"""

from __future__ import annotations

from enum import Enum

_REMEMBERED = 1024  # given-up requests; beyond it a late reply would count as a duplicate


class ReplyKind(str, Enum):
    """What a reply is to us."""

    AWAITED = "awaited"
    LATE = "late"
    """To a request that had been given up."""
    DUPLICATE = "duplicate"
    """To a request that has been answered."""
    FOREIGN = "foreign"
    """To a request that was never sent, or under another session."""


class RequestBook:
    """Numbers of requests and what became of them.

    Pings are numbered with them, and no number is ever used again: a reply is known by it alone.
    """

    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[int, bytes] = {}  # number to the session that it was sent under
        self._given_up: dict[int, float] = {}  # number to the time of it, oldest first

    @property
    def next_number(self) -> int:
        """The number that :meth:`count` or :meth:`open` takes next."""
        return self._last + 1

    @property
    def waiting(self) -> tuple[int, ...]:
        """Numbers of the requests that wait."""
        return tuple(self._waiting)

    def count(self) -> int:
        """Take a number for what is no request."""
        self._last += 1
        return self._last

    def open(self, session: bytes) -> None:
        """Take the next number for a request that is sent under a session."""
        self._waiting[self.count()] = session

    def session_of(self, number: int) -> bytes | None:
        """The session of a request that waits."""
        return self._waiting.get(number)

    def give_up(self, number: int, now_s: float) -> list[int]:
        """Wait no longer for a request; its reply will be late.

        Returns:
            Numbers of older requests that are forgotten for it.
        """
        del self._waiting[number]
        self._given_up[number] = now_s
        forgotten = list(self._given_up)[: max(0, len(self._given_up) - _REMEMBERED)]
        for oldest in forgotten:
            del self._given_up[oldest]
        return forgotten

    def given_up_s(self, number: int) -> float:
        """When a request was given up that is still remembered."""
        return self._given_up[number]

    def take(self, number: int, session: bytes) -> ReplyKind:
        """Note the reply to a request, and say what it is."""
        if number in self._given_up:
            del self._given_up[number]
            return ReplyKind.LATE
        if number not in self._waiting:
            return ReplyKind.DUPLICATE if 0 < number <= self._last else ReplyKind.FOREIGN
        if self._waiting[number] != session:
            return ReplyKind.FOREIGN
        del self._waiting[number]
        return ReplyKind.AWAITED
