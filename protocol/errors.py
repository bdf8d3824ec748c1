"""Errors of the wire, and the base of all errors that a user can mend.

HeadtailError
└── ProtocolError
    ├── FrameError (ValueError)           bytes that are no message of ours
    │   └── LimitExceededError            a number from the wire above its limit
    ├── CodecError (ValueError)           a tensor that a codec cannot carry, or a payload it cannot read
    └── RefusedError (ConnectionError)    the worker said no, with a code
"""

from __future__ import annotations


class HeadtailError(Exception):
    """Base of every error that a user can mend; commands print it as one line and exit with 2."""


class ProtocolError(HeadtailError):
    """Something is wrong with what crosses the wire."""
