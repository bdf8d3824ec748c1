"""Keep a child process from outliving its parent, or the time that it was given. Light."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["end_with", "ending_after"]

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Let the kernel end this process when its parent has gone, however the parent went.

    Args:
        parent: The process that started this one. It may have gone already.
    """
    with contextlib.suppress(AttributeError):  # not Linux: a parent that is killed leaves us
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


@contextlib.contextmanager
def ending_after(limit_s: float, complaint: str) -> Iterator[None]:
    """End the process if the block takes longer, wherever it is: native code hears no exception.

    Args:
        limit_s: How long the block may take.
        complaint: Written to standard error, for the parent.
    """
    timer = threading.Timer(limit_s, _give_up, [complaint])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _give_up(complaint: str) -> None:
    print(complaint, file=sys.stderr, flush=True)  # noqa: T201  # where the parent reads
    os._exit(1)
