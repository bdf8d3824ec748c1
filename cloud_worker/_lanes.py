"""Threads beside the socket's thread, and how they reach it."""

from __future__ import annotations

import socket
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Item = TypeVar("_Item")
_WAKE_BYTES = 4096


class Mailbox(Generic[_Item]):
    """Takes items from any thread to the one that polls a file descriptor.

    A pair of sockets and a deque: an item costs one system call on each side.
    """

    def __init__(self) -> None:
        self._items: deque[_Item] = deque()
        self._receiving, self._waking = socket.socketpair()
        self._receiving.setblocking(False)
        self._waking.setblocking(False)

    def fileno(self) -> int:
        """The descriptor that becomes readable when there is something to take."""
        return self._receiving.fileno()

    def post(self, item: _Item) -> None:
        """Leave an item and wake the reader. Safe in threads and in signal handlers."""
        self._items.append(item)
        try:
            self._waking.send(b"\0")
        except BlockingIOError:
            return  # full of wake-ups that the reader has still to see
        except OSError:
            return  # closed: the reader is gone, and with it everyone who could care

    def take(self) -> list[_Item]:
        """Take everything, without waiting."""
        try:
            self._receiving.recv(_WAKE_BYTES)
        except BlockingIOError:
            return []
        # The wake-ups were read first, so an item that comes now wakes the reader again.
        return [self._items.popleft() for _ in range(len(self._items))]

    def close(self) -> None:
        """Give the descriptors back."""
        self._receiving.close()
        self._waking.close()


class Lane(Generic[_Item]):
    """One thread that does one thing after the other.

    Args:
        name: Of the thread.
        work: Does one thing; it must not raise.
    """

    def __init__(self, name: str, work: Callable[[_Item], None]) -> None:
        self._work = work
        self._items: SimpleQueue[_Item | None] = SimpleQueue()
        # A daemon: an inference that never ends must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: _Item) -> None:
        """Have something done."""
        self._items.put(item)

    def stop(self, timeout_s: float) -> bool:
        """End the thread when it has done everything; tell whether it ended in time."""
        self._items.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            self._work(item)
