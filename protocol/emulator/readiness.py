"""Which sockets are ready: any number of them, and with timeouts finer than a millisecond."""

from __future__ import annotations

import select
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Readiness:
    """Waits for sockets.

    ``epoll`` takes any number of descriptors, but its timeout counts milliseconds, which would
    round every small message up; ``select`` counts microseconds, but ends at descriptor 1024. An
    epoll object is a descriptor too, so ``select`` waits for it alone.
    """

    def __init__(self) -> None:
        self._selector = selectors.EpollSelector()
        self._watched: dict[socket.socket, int] = {}

    def wait(
        self, wanted: Mapping[socket.socket, int], timeout_s: float | None
    ) -> tuple[set[object], set[object]]:
        """Return the sockets that can be read and those that can be written.

        Args:
            wanted: READ, WRITE or both for each open socket that is waited for. Others are not
                watched at all: epoll tells of a broken connection whether or not it was asked.
            timeout_s: How long to wait at most; ``None`` waits for ever.
        """
        self._watch(wanted)
        select.select([self._selector.fileno()], [], [], timeout_s)
        ready = self._selector.select(0)
        return (
            {key.fileobj for key, events in ready if events & READ},
            {key.fileobj for key, events in ready if events & WRITE},
        )

    def close(self) -> None:
        """Give the descriptor back."""
        self._selector.close()

    def _watch(self, wanted: Mapping[socket.socket, int]) -> None:
        # First those that go: the descriptor of a closed socket may be another one's by now.
        for end in [end for end in self._watched if end not in wanted]:
            self._selector.unregister(end)
            del self._watched[end]
        for end, events in wanted.items():
            if end not in self._watched:
                self._selector.register(end, events)
            elif self._watched[end] != events:
                self._selector.modify(end, events)
            self._watched[end] = events
