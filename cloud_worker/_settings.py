"""How much a worker grants, holds and waits. Light."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from cloud_worker.errors import WorkerError
from protocol.limits import LEAST_MESSAGE_BYTES

if TYPE_CHECKING:
    from protocol import Limits

# Both are sent in WELCOME, and the wire has bounds.
_LONGEST_NAME = 64
_HIGHEST = 2**31 - 1


@dataclass(frozen=True)
class WorkerSettings:
    """Bounds of a worker; every queue and table has one.

    Attributes:
        name: What the worker calls itself to agents.
        credit_bytes: Message bytes that one session may have unanswered.
        queue_requests: Accepted requests that may wait, all sessions together.
        queue_bytes: Their message bytes.
        reply_cache_bytes: Finished answers kept to answer repeated requests.
        sessions: Sessions at one time, those that wait for their tail included.
        tails: Loaded models at one time.
        ping_interval_ms: How often agents are asked to ping.
        ping_misses: A session silent for so many intervals is forgotten. Many, since a ping may
            queue behind a large request on a slow link; a live session that is forgotten costs
            its agent a frame, a dead one that is kept costs next to nothing.
        run_limit_ms: How long a request may wait and run, whatever deadline it names. Its run is
            then stopped, as it is at its deadline.
        drain_ms: How long a stopping worker waits for work that it has accepted.
    """

    name: str = "worker"
    credit_bytes: int = 64 << 20
    queue_requests: int = 256
    queue_bytes: int = 256 << 20
    reply_cache_bytes: int = 64 << 20
    sessions: int = 1024
    tails: int = 16
    ping_interval_ms: int = 2000
    ping_misses: int = 15
    run_limit_ms: int = 60_000
    drain_ms: int = 10_000

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= _LONGEST_NAME:
            raise WorkerError(
                f"the worker's name has {len(self.name)} characters; give 1 to {_LONGEST_NAME}"
            )
        if not self.name.isprintable():  # neither are bytes of a command line that are no text
            raise WorkerError(
                f"the worker's name {self.name!a} holds control characters or bytes that are no "
                "text; give letters, digits and signs"
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not 1 <= value <= _HIGHEST:
                raise WorkerError(f"{field.name} is {value}; give 1 to {_HIGHEST}")

    def narrowed(self, limits: Limits) -> Limits:
        """The limits, and no more than a message that is within these settings.

        It bounds what ZeroMQ takes as one frame and what a request decodes to, too. A HELLO must
        fit, however little credit is granted.
        """
        most = min(limits.message_bytes, self.credit_bytes, self.queue_bytes)
        hello = min(limits.message_bytes, max(limits.header_bytes, LEAST_MESSAGE_BYTES))
        message_bytes = max(most, hello)
        return replace(
            limits,
            message_bytes=message_bytes,
            tensor_bytes=min(limits.tensor_bytes, message_bytes),
        )

    @property
    def session_life_s(self) -> float:
        """Seconds of silence after which a session is forgotten."""
        return self.ping_interval_ms * self.ping_misses / 1000
