"""What the link to a worker is made of: its states, patience, waits, counters, and one session.

Light.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from device_agent._decisions import backoff_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol import CreditLedger, Failure, Refuse, Request, Welcome

LONG_AGO = float("-inf")


class LinkState(str, Enum):
    """Where the session stands."""

    LOST = "lost"
    HELLO_SENT = "hello_sent"
    WELCOMED = "welcomed"
    REFUSED = "refused"


@dataclass(frozen=True)
class LinkPolicy:
    """How patient the link is.

    Attributes:
        hello_timeout_s: A HELLO unanswered for so long is taken as lost. A worker may have to cut
            and load the tail first.
        ping_misses: So many pings in a row without a sign of life end the session.
        overdue_limit_s: A request unanswered for so long after it was given up ends the session.
        backoff_first_s: The wait before the first HELLO after a loss.
        backoff_last_s: The longest wait between two HELLOs.
    """

    hello_timeout_s: float = 5.0
    ping_misses: int = 3
    overdue_limit_s: float = 10.0
    backoff_first_s: float = 1.0
    backoff_last_s: float = 32.0


class Waits:
    """How long to leave the worker alone: longer each time, until it has answered a request.

    Args:
        policy: How patient to be.
        jitter: Returns random numbers in [0, 1).
    """

    def __init__(self, policy: LinkPolicy, jitter: Callable[[], float]) -> None:
        self._policy = policy
        self._jitter = jitter
        self._attempt = 0

    def next_s(self) -> float:
        """The wait before the next HELLO."""
        policy = self._policy
        wait_s = backoff_s(
            self._attempt, self._jitter(), policy.backoff_first_s, policy.backoff_last_s
        )
        self._attempt += 1
        return wait_s

    def asked_s(self, reply: Refuse | Failure) -> float:
        """How long the worker wants to be left alone; no longer than we would wait by ourselves."""
        return min((reply.retry_after_ms or 0) / 1000, self._policy.backoff_last_s)

    def begin_anew(self) -> None:
        """The worker has answered a request: the next wait is the first again."""
        self._attempt = 0


@dataclass
class LinkCounters:
    """What has crossed the link, and what was odd about it.

    Attributes:
        hellos: HELLOs sent.
        sessions: WELCOMEs that opened a session.
        losses: Sessions lost.
        pings: Pings sent.
        requests: Requests sent.
        replies: Replies that reached a waiting frame.
        late: Replies to requests that had been given up.
        duplicates: Further replies to requests that had been answered.
        foreign: Replies to requests never sent, or of another session.
        malformed: Arrivals that are no message, none that a worker may send, or results that do
            not fit the model.
        raw_pictures: Pictures encoded raw although the plan has a JPEG.
        raw_picture_bytes: What they took, encoded.
    """

    hellos: int = 0
    sessions: int = 0
    losses: int = 0
    pings: int = 0
    requests: int = 0
    replies: int = 0
    late: int = 0
    duplicates: int = 0
    foreign: int = 0
    malformed: int = 0
    raw_pictures: int = 0
    raw_picture_bytes: int = 0


@dataclass(frozen=True, eq=False)
class OpenRequest:
    """A request whose bytes are taken from the credit.

    Attributes:
        message: What is to be sent.
        bytes: Its message bytes.
    """

    message: Request
    bytes: int


@dataclass
class LinkSession:
    """What holds from one WELCOME to the loss of it.

    Attributes:
        terms: The WELCOME.
        ledger: The byte credit.
        heard_s: When anything last arrived.
        pinged_s: When a ping last went out.
        silent_pings: Pings since anything arrived.
        owed: Requests given up whose reply, and so whose credit, is still out.
        held_until_s: The worker asked for no request before this moment.
        proven: Whether a request has been answered.
    """

    terms: Welcome
    ledger: CreditLedger
    heard_s: float
    pinged_s: float = LONG_AGO
    silent_pings: int = 0
    owed: set[int] = field(default_factory=set)
    held_until_s: float = LONG_AGO
    proven: bool = False
