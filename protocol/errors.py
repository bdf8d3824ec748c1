"""Errors of the wire, and the base of all errors that a user can mend.

HeadtailError
├── UsageError (ValueError)               a command line that cannot be understood
└── ProtocolError
    ├── FrameError (ValueError)           bytes that are no message of ours
    │   ├── LimitExceededError            a number from the wire above its limit
    │   └── VersionMismatchError          a message of another protocol version
    ├── CodecError (ValueError)           a tensor a codec cannot carry, or a payload it cannot read
    │   └── UnencodableValuesError        values outside what a lossy codec can carry; raw can
    ├── SettingError (ValueError)         a limit or a declared block with an unusable value
    ├── ImageError (ValueError)           a picture that cannot be read
    ├── AddressError (ValueError)         an address that cannot be read, bound or resolved
    └── RefusedError (ConnectionError)    the worker said no, with a code
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.text import one_line

if TYPE_CHECKING:
    from protocol.codes import RefusalCode


_LONGEST_MESSAGE = 2000


class HeadtailError(Exception):
    """Base of every error that a user can mend; commands print it and exit with 2.

    Its message is one line of bounded length, whatever a file or a peer put into it.
    """

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text, _LONGEST_MESSAGE))


class UsageError(HeadtailError, ValueError):
    """A command line that cannot be understood."""


class ProtocolError(HeadtailError):
    """Something is wrong with what crosses the wire."""


class FrameError(ProtocolError, ValueError):
    """Bytes that are no message of ours."""


class LimitExceededError(FrameError):
    """A number from the wire is above its limit; nothing of that size was allocated."""


class VersionMismatchError(FrameError):
    """A message of another protocol version.

    Attributes:
        version: The version byte the peer sent.
    """

    def __init__(self, text: str, version: int) -> None:
        super().__init__(text)
        self.version = version


class CodecError(ProtocolError, ValueError):
    """A tensor that a codec cannot carry, or a payload that it cannot read."""


class UnencodableValuesError(CodecError):
    """Values outside what a lossy codec can carry, such as NaN; the raw codec carries them."""


class SettingError(ProtocolError, ValueError):
    """A limit or a declared block with an unusable value."""


class ImageError(ProtocolError, ValueError):
    """A picture that cannot be read, or pixels of the wrong shape."""


class AddressError(ProtocolError, ValueError):
    """An address that cannot be read, bound or resolved."""


class RefusedError(ProtocolError, ConnectionError):
    """The worker refused the session.

    Attributes:
        code: Why, from a closed set; ``code.advice`` says what to do.
        retry_after_ms: When to ask again, if the worker said so.
    """

    def __init__(self, code: RefusalCode, text: str, retry_after_ms: int | None = None) -> None:
        super().__init__(f"the worker refused the session ({code.value}): {text}")
        self.code = code
        self.retry_after_ms = retry_after_ms
