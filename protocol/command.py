"""What every command shares: one-line errors, exit codes, and a parser that keeps to them.

Exit codes: 0 done; 2 the user's input is wrong; 1 a fault of ours; 130 interrupted; 141 the reader
of our output went away.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from protocol.errors import HeadtailError, UsageError
from protocol.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXIT_FAULT = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE

DEBUG_VARIABLE = "HEADTAIL_DEBUG"


class CommandParser(argparse.ArgumentParser):
    """A parser whose complaints are one line; for use under :func:`run_command`."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UsageError: Always.
        """
        raise UsageError(f"{message} (see {self.prog} --help)")


def run_command(
    main: Callable[[Sequence[str] | None], int], arguments: Sequence[str] | None = None
) -> int:
    """Run a command's body and return its exit code, turning what it raises into one line.

    Args:
        main: The body; gets the arguments, returns the exit code.
        arguments: Without the program's name; None means those of the process.
    """
    try:
        code = main(arguments)
        # A reader that went away shows only when buffers are written, so that happens here
        # rather than in the interpreter's last breath.
        sys.stdout.flush()
    except HeadtailError as error:
        return _complain(f"error: {one_line(str(error))}", EXIT_USER_ERROR)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  # the last stop before the user
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
            hint = ""
        else:
            hint = f" (set {DEBUG_VARIABLE}=1 for the traceback)"
        text = one_line(f"{type(error).__name__}: {error}").rstrip(": ")
        return _complain(f"fault: {text}{hint}", EXIT_FAULT)
    return code


def extra_command(module: str, extra: str) -> Callable[[Sequence[str] | None], int]:
    """Return a command whose packages come with an extra, so that a board may lack them.

    Args:
        module: Where the command's body is, a function ``run``; imported when the command starts.
        extra: The extra of the distribution that brings what the module imports.
    """

    def body(arguments: Sequence[str] | None) -> int:
        try:
            loaded = import_module(module)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"this command needs the package {error.name!r}: pip install 'headtail[{extra}]'"
            ) from error
        code: int = loaded.run(arguments)
        return code

    def command(arguments: Sequence[str] | None = None) -> int:
        return run_command(body, arguments)

    return command


def _complain(line: str, code: int) -> int:
    try:
        sys.stdout.flush()  # what was done before comes first where both go to one place
        print(line, file=sys.stderr, flush=True)  # noqa: T201  # this is where commands speak
    except BrokenPipeError:
        _discard_output()
    return code


def _discard_output() -> None:
    """Let the interpreter flush its buffers into nothing, else it complains at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
