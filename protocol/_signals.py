"""Ctrl-C and SIGTERM as exceptions in the main thread, so that what was begun is cleaned up."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class Terminated(KeyboardInterrupt):
    """SIGTERM; whatever minds Ctrl-C minds it in the same way."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt or :class:`Terminated` in this block; nothing outside it changes.

    What the caller handles or ignores stays handled or ignored, and threads other than the main one
    cannot be interrupted.
    """
    with _handled(_interrupt):
        yield


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Let the signals end the process in this block, within :func:`interruptible`.

    For imports: an exception that comes up while a compiled module loads turns into another one.
    """
    with _handled(signal.SIG_DFL, (_interrupt,)):
        yield


@contextmanager
def _handled(handler: object, replaced: tuple[object, ...] = _DEFAULTS) -> Iterator[None]:
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {
            number: found for number in _NUMBERS if (found := signal.getsignal(number)) in replaced
        }
    for number in before:
        signal.signal(number, handler)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for number, found in before.items():
            signal.signal(number, found)


def _interrupt(number: int, _frame: object) -> NoReturn:
    # Once is enough: make, timeout and terminals send the same signal to a process and to its
    # group, and the second would break off the cleaning up.
    for each in _NUMBERS:
        signal.signal(each, signal.SIG_IGN)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
