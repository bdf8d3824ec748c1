"""Standard output and standard error: usable when a command starts, and quiet when it ends."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO

from protocol.errors import UsageError


def prepare_streams() -> None:
    """Make sure that whatever a command says has a place to go to.

    Raises:
        UsageError: Standard output is closed.
    """
    if sys.stderr is None:
        # The next file that is opened would get its number, and libraries complain into it.
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, 2)
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raise UsageError("standard output is closed; send it to a file or to /dev/null")
    for stream in (sys.stdout, sys.stderr):
        # File names may hold bytes that are no text, and a terminal may know ASCII only.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_output() -> OSError | None:
    """Write what is buffered for standard output; return why that was not possible.

    After a failure standard output goes nowhere, else the interpreter complains at its exit.
    """
    if sys.stdout is None:
        return None
    try:
        sys.stdout.flush()
    except OSError as error:
        _send_nowhere(sys.stdout)
        return error
    return None


def complain(line: str) -> None:
    """Write a line to standard error; nobody is left to be told if that fails."""
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201  # this is where commands speak
    except OSError:
        _send_nowhere(sys.stderr)


def _send_nowhere(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
