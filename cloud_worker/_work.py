"""Values that pass between the core, the loader, the inference thread and the socket."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from profiler.engine import RunStop
from protocol import FailureCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profiler.engine import StoppableSession
    from profiler.values import TensorSlot
    from protocol import (
        EncodedTensor,
        ImagePreprocess,
        Message,
        RefusalCode,
        Timings,
    )

# Of the frames before the payloads: fixed parts, a tensor's description, one axis in msgpack.
_ENVELOPE_BYTES, _DESCRIPTION_BYTES, _AXIS_BYTES = 160, 64, 9


class TailKey(NamedTuple):
    """Which tail: the same names in another order are the same tail.

    Attributes:
        model: The whole model's sha256.
        frontier: Names of the tensors that arrive, sorted.
        results: Names of the outputs that are wanted, sorted.
    """

    model: str
    frontier: tuple[str, ...]
    results: tuple[str, ...]

    @classmethod
    def of(cls, model: str, frontier: Iterable[str], results: Iterable[str]) -> TailKey:
        """Key of a cut."""
        return cls(model, tuple(sorted(frontier)), tuple(sorted(results)))


@dataclass(frozen=True, eq=False)
class Tail:
    """A loaded tail. Its session takes exactly the frontier and makes at least the results."""

    key: TailKey
    session: StoppableSession

    @cached_property
    def inputs(self) -> dict[str, TensorSlot]:
        """What the session wants, by name."""
        return {slot.name: slot for slot in self.session.inputs}


@dataclass(frozen=True)
class LoadFailure:
    """Why a tail cannot be had."""

    code: RefusalCode
    text: str


@dataclass(frozen=True, eq=False)
class Job:
    """One accepted request, ready to be computed.

    Attributes:
        ticket: Names the job between the core and the inference thread.
        tail: What computes it.
        tensors: The frontier as it arrived.
        results: Names of the outputs that are sent back, in this order.
        max_result_bytes: Of the results once decoded; what is larger is not even encoded.
        preprocess: How pixels become an input, where the agent declared it.
        accepted_at: Clock seconds.
        expires_at: Clock seconds after which nobody waits for the answer.
        stop: Ends its run.
    """

    ticket: int
    tail: Tail
    tensors: tuple[EncodedTensor, ...]
    results: tuple[str, ...]
    max_result_bytes: int
    preprocess: ImagePreprocess | None
    accepted_at: float
    expires_at: float
    stop: RunStop = field(default_factory=RunStop)

    def expired(self, now: float) -> bool:
        """Whether nobody waits for the answer any more."""
        return now >= self.expires_at


@dataclass(frozen=True, eq=False)
class Computed:
    """The good answer to a request."""

    timings: Timings
    tensors: tuple[EncodedTensor, ...]

    @cached_property
    def message_bytes(self) -> int:
        """Bytes of the message that carries it, at most: no need to encode it to find out."""
        return _ENVELOPE_BYTES + sum(
            len(tensor.payload)
            + _DESCRIPTION_BYTES
            + len(tensor.spec.name.encode())
            + _AXIS_BYTES * len(tensor.spec.shape)
            for tensor in self.tensors
        )


@dataclass(frozen=True)
class Failed:
    """The bad answer to a request."""

    code: FailureCode
    text: str
    retry_after_ms: int | None = None


EXPIRED = Failed(FailureCode.EXPIRED, "the request's deadline, or the worker's, has passed")


@dataclass(frozen=True, eq=False)
class Send:
    """Send a message to a peer."""

    peer: bytes
    message: Message


@dataclass(frozen=True)
class Load:
    """Load a tail; the core wants to hear what became of it."""

    key: TailKey


@dataclass(frozen=True, eq=False)
class Unload:
    """Close a tail that no session and no job uses."""

    tail: Tail


@dataclass(frozen=True, eq=False)
class Compute:
    """Compute a job; the core wants to hear what became of it."""

    job: Job


@dataclass(frozen=True, eq=False)
class Stop:
    """Stop a job that was handed out: nobody waits for it. The core still hears that it is done."""

    job: Job


@dataclass(frozen=True)
class Note:
    """Tell the people who run the worker."""

    text: str


Answer: TypeAlias = "Computed | Failed"
Action: TypeAlias = "Send | Load | Unload | Compute | Stop | Note"
