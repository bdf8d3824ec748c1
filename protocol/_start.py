"""Let a command that is interrupted while it still imports end at once, without a traceback.

Imports take most of a second, in which there is nothing to clean up yet. Imported before all else;
does nothing in programs of other people.
"""

from __future__ import annotations

import signal
import sys
from pathlib import PurePath

_SCRIPTS = frozenset({"split-plan", "split-profile", "device-agent", "cloud-worker"})


def _starts_a_command() -> bool:
    """Whether the interpreter was started for a command of ours."""
    # While `python -m` imports the package that it was told to run, "-m" stands for its path.
    return sys.argv[:1] == ["-m"] or PurePath(*sys.argv[:1]).name in _SCRIPTS


# Python's own handler only: whoever starts us in the background may have Ctrl-C ignored.
if _starts_a_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
