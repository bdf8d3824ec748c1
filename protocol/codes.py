"""The closed sets of reasons for which a worker says no, and what the agent does about each.

Advice is one of

- ``retry``: the same request may succeed later, or after a new HELLO;
- ``local``: this frame is better finished on the device, the session stays;
- ``give_up``: this worker will say no until somebody changes something.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Advice = Literal["retry", "local", "give_up"]


class RefusalCode(str, Enum):
    """Why a worker refuses a session."""

    VERSION_MISMATCH = "version_mismatch"
    UNKNOWN_MODEL = "unknown_model"
    ILLEGAL_CUT = "illegal_cut"
    UNSUPPORTED_CODEC = "unsupported_codec"
    BUSY = "busy"
    BAD_HELLO = "bad_hello"
    DRAINING = "draining"
    LOAD_FAILED = "load_failed"

    @property
    def advice(self) -> Advice:
        """What the agent does about it."""
        return REFUSAL_ADVICE[self]


class FailureCode(str, Enum):
    """Why a worker does not answer one request."""

    UNKNOWN_SESSION = "unknown_session"
    EXPIRED = "expired"
    OVER_CREDIT = "over_credit"
    TOO_LARGE = "too_large"
    BAD_TENSOR = "bad_tensor"
    REJECTED = "rejected"
    INFERENCE_FAILED = "inference_failed"
    DRAINING = "draining"
    BUSY = "busy"

    @property
    def advice(self) -> Advice:
        """What the agent does about it."""
        return FAILURE_ADVICE[self]


REFUSAL_ADVICE: Mapping[RefusalCode, Advice] = MappingProxyType(
    {
        RefusalCode.VERSION_MISMATCH: "give_up",
        RefusalCode.UNKNOWN_MODEL: "give_up",
        RefusalCode.ILLEGAL_CUT: "give_up",
        RefusalCode.UNSUPPORTED_CODEC: "give_up",
        RefusalCode.BUSY: "retry",
        RefusalCode.BAD_HELLO: "give_up",
        RefusalCode.DRAINING: "retry",
        RefusalCode.LOAD_FAILED: "give_up",
    }
)

FAILURE_ADVICE: Mapping[FailureCode, Advice] = MappingProxyType(
    {
        FailureCode.UNKNOWN_SESSION: "retry",
        FailureCode.EXPIRED: "local",
        FailureCode.OVER_CREDIT: "local",
        FailureCode.TOO_LARGE: "local",
        FailureCode.BAD_TENSOR: "local",
        FailureCode.REJECTED: "local",
        FailureCode.INFERENCE_FAILED: "local",
        FailureCode.DRAINING: "retry",
        FailureCode.BUSY: "retry",
    }
)
