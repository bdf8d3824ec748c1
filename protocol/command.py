"""What every command shares: one-line errors, exit codes, and a parser that keeps to them.

Exit codes: 0 done; 2 the user's input is wrong; 1 a fault of ours; 130 interrupted; 143 terminated;
141 the reader of our output went away.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import signal
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from protocol._signals import Terminated, ended_at_once, interruptible
from protocol._streams import complain, flush_output, prepare_streams
from protocol.errors import HeadtailError, UsageError
from protocol.extras import install_hint
from protocol.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import SupportsWrite

EXIT_FAULT = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE

DEBUG_VARIABLE = "HEADTAIL_DEBUG"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_LINE_CHARACTERS = 2000  # a value in a message may be as long as the file it came from


class CommandParser(argparse.ArgumentParser):
    """A parser whose complaints are one line; for use under :func:`run_command`."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UsageError: Always.
        """
        if message.endswith("expected one argument"):
            message += ", as --option=VALUE where the value begins with -"
        elif re.match("unrecognized arguments: [^-]", message):
            message += "; put a value with spaces in quotes"
        raise UsageError(f"{message} (see {self.prog} --help)")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Show the help; argparse would keep quiet about what could not be written."""
        print(self.format_help(), end="", file=file)


def whole_number(lowest: int, highest: int, why: str = "") -> Callable[[str], int]:
    """Return a ``type=`` for arguments that are whole numbers.

    Args:
        lowest: The least that is taken.
        highest: The most that is taken.
        why: Follows the range in the complaint.
    """

    def read(text: str) -> int:
        digits = re.fullmatch(r"\d{1,18}", text, re.ASCII)
        if not digits or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(
                f"{one_line(text, 40)!r} is not a whole number from {lowest} to {highest}{why}"
            )
        return int(text)

    return read


def run_command(
    main: Callable[[Sequence[str] | None], int], arguments: Sequence[str] | None = None
) -> int:
    """Run a command's body and return its exit code, turning what it raises into one line.

    Ctrl-C and SIGTERM are exceptions in the body, so that its ``finally`` blocks run.

    Args:
        main: The body; gets the arguments, returns the exit code.
        arguments: Without the program's name; None means those of the process.
    """
    code, complaint = _outcome(main, arguments)
    # A reader that went away or a full disk shows only when buffers are written, so that happens
    # here rather than in the interpreter's last breath.
    problem = flush_output()
    if isinstance(problem, BrokenPipeError):
        code = code or EXIT_BROKEN_PIPE
    elif problem is not None and not complaint:
        code = EXIT_USER_ERROR
        complaint = _unwritten(problem)
    if complaint:
        complain(complaint)
    return code


def _outcome(
    main: Callable[[Sequence[str] | None], int], arguments: Sequence[str] | None
) -> tuple[int, str]:
    """Exit code and complaint; an empty one says nothing."""
    try:
        with interruptible():
            prepare_streams()
            return main(arguments), ""
    except HeadtailError as error:
        return EXIT_USER_ERROR, f"error: {error}"
    except Terminated:
        return EXIT_TERMINATED, ""
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED, ""
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE, ""
    except SystemExit as end:  # argparse has shown the help
        return end.code if isinstance(end.code, int) else 0, ""
    except OSError as error:
        if error.errno in _NO_ROOM:
            return EXIT_USER_ERROR, _unwritten(error)
        return EXIT_FAULT, _fault(error)
    except Exception as error:  # noqa: BLE001  # the last stop before the user
        return EXIT_FAULT, _fault(error)


def _unwritten(error: OSError) -> str:
    return f"error: cannot write all output: {error.strerror}"


def _fault(error: Exception) -> str:
    text = one_line(f"{type(error).__name__}: {error}", _LINE_CHARACTERS).rstrip(": ")
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exc()
        return f"fault: {text}"
    return f"fault: {text} (set {DEBUG_VARIABLE}=1 for the traceback)"


def extra_command(module: str, extra: str) -> Callable[[Sequence[str] | None], int]:
    """Return a command whose packages come with an extra, so that a board may lack them.

    Args:
        module: Where the command's body is, a function ``run``; imported when the command starts.
        extra: The extra of the distribution that brings what the module imports.
    """

    def body(arguments: Sequence[str] | None) -> int:
        try:
            with ended_at_once():
                loaded = import_module(module)
        except ModuleNotFoundError as error:
            raise UsageError(_missing(error.name or "", module, extra)) from error
        code: int = loaded.run(arguments)
        return code

    def command(arguments: Sequence[str] | None = None) -> int:
        return run_command(body, arguments)

    return command


def _missing(name: str, module: str, extra: str) -> str:
    """What to do about a package that cannot be imported."""
    package = name.partition(".")[0]
    if package in {module.partition(".")[0], "protocol", "profiler"}:
        found = getattr(sys.modules.get(package), "__file__", None)
        place = f" (in {found})" if found else ""
        return (
            f"{name!r} is not in the package {package!r} that was found{place}: another package "
            "has the same name, or headtail is installed in part; install it into an environment "
            "of its own"
        )
    return f"this command needs the package {package!r}: {install_hint(extra)}"
