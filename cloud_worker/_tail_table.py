"""Which tails are loaded, which are on their way, and which may be given up. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloud_worker._work import Tail, TailKey


class TailTable:
    """A bounded table of loaded tails.

    A tail that a session or a job holds stays. Of the others, the one used longest ago goes first.

    Args:
        limit: Tails at one time, those being loaded included.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ready: OrderedDict[TailKey, Tail] = OrderedDict()  # least recently held first
        self._holders: dict[TailKey, int] = {}
        self._loading: set[TailKey] = set()

    def __len__(self) -> int:
        return len(self._ready) + len(self._loading)

    def find(self, key: TailKey) -> Tail | None:
        """The tail, if it is loaded."""
        return self._ready.get(key)

    def is_loading(self, key: TailKey) -> bool:
        """Whether the tail is on its way."""
        return key in self._loading

    def make_room(self) -> tuple[bool, Tail | None]:
        """Find place for one more tail.

        Returns:
            Whether there is place, and the tail that must be closed for it, if any.
        """
        if len(self) < self._limit:
            return True, None
        for key in self._ready:
            if not self._holders.get(key):
                return True, self._ready.pop(key)
        return False, None

    def begin(self, key: TailKey) -> None:
        """Note that a tail is being loaded."""
        self._loading.add(key)

    def end(self, key: TailKey, tail: Tail | None) -> None:
        """Note what came of it; None when nothing did."""
        self._loading.discard(key)
        if tail is not None:
            self._ready[key] = tail

    def hold(self, key: TailKey) -> None:
        """Keep a loaded tail until it is let go as often as it was held."""
        self._holders[key] = self._holders.get(key, 0) + 1
        self._ready.move_to_end(key)

    def let_go(self, key: TailKey) -> None:
        """Undo one :meth:`hold`."""
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key]

    def held(self) -> list[tuple[TailKey, int]]:
        """Loaded tails that are held, and how often; the one held longest ago first."""
        return [(key, self._holders[key]) for key in self._ready if key in self._holders]

    def clear(self) -> list[Tail]:
        """Forget all loaded tails and return them."""
        tails = list(self._ready.values())
        self._ready.clear()
        return tails
