"""The agent's decisions: pure functions from what is known to an enum. No sockets, no clocks.

Light.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from device_agent.answers import Reason
from protocol import FailureCode, RefusalCode, install_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL_SHARE = 0.25
"""The part of a frame's deadline that is kept for finishing it on the device."""
_FINISH_MARGIN = 1.25  # the next finish may take longer than the last one did


class Loss(str, Enum):
    """Why a session ended."""

    DISCONNECTED = "disconnected"
    SILENT = "silent"
    OVERDUE = "overdue"
    UNKNOWN_SESSION = "unknown_session"
    ENDED_BY_WORKER = "ended_by_worker"
    MALFORMED = "malformed"


class Next(str, Enum):
    """What to do with a frame that the worker did not answer."""

    SEND_AGAIN = "send_again"
    FINISH_HERE = "finish_here"


FAILURE_REASONS: Mapping[FailureCode, Reason] = {
    FailureCode.UNKNOWN_SESSION: Reason.LINK_LOST,
    FailureCode.EXPIRED: Reason.LATE,
    FailureCode.OVER_CREDIT: Reason.NO_CREDIT,
    FailureCode.TOO_LARGE: Reason.TOO_LARGE,
    FailureCode.BAD_TENSOR: Reason.WORKER_FAILED,
    FailureCode.REJECTED: Reason.REJECTED,
    FailureCode.INFERENCE_FAILED: Reason.WORKER_FAILED,
    FailureCode.DRAINING: Reason.BUSY,
    FailureCode.BUSY: Reason.BUSY,
}


REFUSAL_REMEDIES: Mapping[RefusalCode, str] = {
    RefusalCode.UNKNOWN_MODEL: "give the worker this bundle or its model in --models,"
    " or plan again from a model that it serves",
    RefusalCode.ILLEGAL_CUT: "give the worker this bundle in --models, or plan again",
    RefusalCode.UNSUPPORTED_CODEC: "plan again with another --codec,"
    f" or for JPEG on the worker {install_hint('images')}",
    RefusalCode.VERSION_MISMATCH: "install the same version of headtail on both sides",
    RefusalCode.BAD_HELLO: "install the same version of headtail on both sides",
    RefusalCode.LOAD_FAILED: "mend it on the worker, whose output says more",
}
"""What the user can do about each refusal that will not pass by itself."""


def refusal_reason(code: RefusalCode) -> Reason:
    """How a frame's answer names a refusal of the whole session."""
    return Reason.BUSY if code.advice == "retry" else Reason.REFUSED


def after_loss(loss: Loss, sent_times: int) -> Next:
    """What becomes of a frame whose session ended before its answer came.

    Only a worker that says it does not know the session has surely not computed the frame, and is
    surely there: then a new session is one round trip away. Once is enough; a worker that forgets
    sessions at once is no worker to wait for.
    """
    if loss is Loss.UNKNOWN_SESSION and sent_times < 2:
        return Next.SEND_AGAIN
    return Next.FINISH_HERE


def cloud_limit_s(started_s: float, now_s: float, deadline_s: float, finish_s: float) -> float:
    """The moment at which a frame stops waiting for the cloud.

    Where the device could not finish it in time any more, only the worker can keep the deadline:
    then holding time back would rule the worker out and win nothing.

    Args:
        started_s: When the frame's time began.
        now_s: When the device had done its part.
        deadline_s: The time it has.
        finish_s: What finishing a frame on the device took last; 0 if it is not known yet.
    """
    end_s = started_s + deadline_s
    if now_s + finish_s > end_s:
        return end_s
    reserve_s = max(deadline_s * LOCAL_SHARE, finish_s * _FINISH_MARGIN)
    return max(started_s, end_s - reserve_s)


def is_tight(deadline_s: float, head_s: float, finish_s: float) -> bool:
    """Whether a deadline leaves the worker less time than the device is always granted.

    Args:
        deadline_s: The time each frame has.
        head_s: What the head took.
        finish_s: What finishing a frame on the device took.
    """
    left_s = cloud_limit_s(0.0, head_s, deadline_s, finish_s) - head_s
    return left_s < deadline_s * LOCAL_SHARE or head_s + finish_s > deadline_s


def backoff_s(attempt: int, jitter: float, first_s: float, last_s: float) -> float:
    """Seconds to wait before asking again: doubling from ``first_s`` to ``last_s``.

    Args:
        attempt: How many times in a row asking has failed, from 0.
        jitter: A random number in [0, 1), which spreads agents that lost one worker together over
            the upper half of the wait.
        first_s: The first wait.
        last_s: The longest wait.
    """
    doublings = min(attempt, 32)  # a float power far above it would overflow
    return float(min(last_s, first_s * 2**doublings)) * (0.5 + jitter / 2)
