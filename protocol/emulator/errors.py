"""Errors of the link emulator.

HeadtailError (protocol)
└── ProtocolError (protocol)
    └── EmulatorError
        ├── LinkSettingsError (ValueError)   a rate, delay, trace or port that makes no sense
        └── EmulatorClosedError (RuntimeError)   a verb on a link that is not running
"""

from __future__ import annotations

from protocol.errors import ProtocolError


class EmulatorError(ProtocolError):
    """The link emulator cannot do what was asked."""


class LinkSettingsError(EmulatorError, ValueError):
    """A rate, delay, trace or port that makes no sense."""


class EmulatorClosedError(EmulatorError, RuntimeError):
    """A verb on a link that was never opened, or is closed."""
