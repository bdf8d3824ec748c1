"""What a frame comes back as: the outputs, where they were computed, why there, and the time.

Light: standard library and numpy only.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Answer", "AnswerTimes", "ComputedOn", "Guess", "Reason", "Unanswered", "top_guesses"]

_TOP = 5


class ComputedOn(str, Enum):
    """Which machine finished the frame."""

    DEVICE = "device"
    CLOUD = "cloud"


class Reason(str, Enum):
    """Why a frame was finished where it was; all but the first mean: on the device instead."""

    PLANNED = "planned"
    """The plan's cut wanted it there."""
    NO_SESSION = "no_session"
    """No worker is known to be there: none has answered yet, or its link was lost earlier."""
    LINK_LOST = "link_lost"
    """The link went down while this frame waited for its answer."""
    LATE = "late"
    """The worker did not answer in this frame's time."""
    OVERDUE = "overdue"
    """The worker still owes the answer to an earlier frame, so this one was not sent."""
    BUSY = "busy"
    """The worker has no room, or is shutting down, and said so."""
    NO_CREDIT = "no_credit"
    """The frame is larger than the bytes that the worker lets us have unanswered."""
    TOO_LARGE = "too_large"
    """The frame is above the worker's limit for a tensor or a message."""
    REFUSED = "refused"
    """The worker does not serve this model, cut or codec."""
    MISFIT = "misfit"
    """The frame leads to shapes that the plan did not see, which no worker could take."""
    REJECTED = "rejected"
    """The tail cannot take the frame's values, says the worker; only the whole model may."""
    WORKER_FAILED = "worker_failed"
    """The worker could not compute the frame."""
    BAD_REPLY = "bad_reply"
    """The worker sent bytes that are no message, or results that do not fit the model."""


@dataclass(frozen=True)
class AnswerTimes:
    """Where a frame's time went, in milliseconds; what did not happen is 0.

    The clock starts when the model's inputs are ready and stops when its outputs are, so
    ``latency_ms`` is the sum of all parts that follow it. ``preprocess_ms`` is not in it.

    Attributes:
        latency_ms: The whole.
        device_ms: The head, or the whole model where the cut is ``device``.
        encode_ms: Encoding the frontier on the device.
        network_ms: From sending to the reply's arrival, less the worker's own four parts.
        queue_ms: Waiting in the worker's queue.
        decode_ms: Decoding on the worker.
        cloud_ms: The tail on the worker.
        cloud_encode_ms: Encoding the results on the worker.
        wait_ms: Waiting for a reply that did not come or could not be used.
        finish_ms: The tail on the device, after the cloud was given up or not asked.
        overhead_ms: The rest.
        preprocess_ms: Reading, resizing and normalising the input, before the clock starts.
    """

    latency_ms: float
    device_ms: float = 0.0
    encode_ms: float = 0.0
    network_ms: float = 0.0
    queue_ms: float = 0.0
    decode_ms: float = 0.0
    cloud_ms: float = 0.0
    cloud_encode_ms: float = 0.0
    wait_ms: float = 0.0
    finish_ms: float = 0.0
    overhead_ms: float = 0.0
    preprocess_ms: float = 0.0

    @classmethod
    def of(cls, latency_ms: float, preprocess_ms: float, **parts: float) -> AnswerTimes:
        """Build from the measured parts; the overhead is what they leave of the latency."""
        overhead_ms = latency_ms - sum(parts.values())
        return cls(latency_ms, overhead_ms=overhead_ms, preprocess_ms=preprocess_ms, **parts)


TIME_NAMES = tuple(part.name for part in fields(AnswerTimes))


@dataclass(frozen=True)
class Guess:
    """One class of a classifier's answer.

    Attributes:
        label: The class's name.
        index: The class's number.
        score: Its probability.
    """

    label: str
    index: int
    score: float


@dataclass(frozen=True, eq=False)
class Answer:
    """The one answer to one frame.

    Attributes:
        frame: The frame's number, from 0, over the frames that were answered in one call.
        source: The file that the frame came from, if any.
        computed_on: Which machine finished it.
        reason: Why there.
        cut: The id of the cut.
        times: Where the time went.
        uplink_bytes: Message bytes sent to the worker for this frame, answered or not.
        downlink_bytes: Message bytes of the reply that was used.
        deadline_missed: Whether the answer took longer than its deadline.
        outputs: The model's outputs by name, in the model's order. Arrays from the cloud may be
            read-only.
        labels: The bundle's class names, or empty.
    """

    frame: int
    source: str | None
    computed_on: ComputedOn
    reason: Reason
    cut: str
    times: AnswerTimes
    uplink_bytes: int
    downlink_bytes: int
    deadline_missed: bool
    outputs: Mapping[str, NDArray[Any]] = field(repr=False)
    labels: tuple[str, ...] = field(default=(), repr=False)

    def top5(self) -> tuple[Guess, ...] | None:
        """The five likeliest classes, or None where the model is no classifier."""
        return top_guesses(self.outputs, self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping: one line of ``--jsonl``."""
        line: dict[str, Any] = {
            "frame": self.frame,
            "source": self.source,
            "computed_on": self.computed_on.value,
            "reason": self.reason.value,
            "cut": self.cut,
        }
        line.update({name: round(value, 3) for name, value in asdict(self.times).items()})
        line["uplink_bytes"] = self.uplink_bytes
        line["downlink_bytes"] = self.downlink_bytes
        line["deadline_missed"] = self.deadline_missed
        top = self.top5()
        if top is not None:
            line["top5"] = [asdict(guess) for guess in top]
        else:
            line["outputs"] = [_digest(name, array) for name, array in self.outputs.items()]
        return line


@dataclass(frozen=True)
class Unanswered:
    """A frame that not even the whole model on this device could take.

    Attributes:
        frame: The frame's number, as in :class:`Answer`.
        source: The file that the frame came from, if any.
        error: Why.
    """

    frame: int
    source: str | None
    error: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping: one line of ``--jsonl``."""
        return asdict(self)


def top_guesses(
    outputs: Mapping[str, NDArray[Any]], labels: tuple[str, ...], count: int = _TOP
) -> tuple[Guess, ...] | None:
    """Read a classifier's outputs.

    A classifier has labels, and one output, of floats, with a value for each label along one axis
    and no other axis longer than 1. (Without labels an embedding looks the same.) The values are
    taken as probabilities if they are one already, otherwise they go through softmax.

    Args:
        outputs: A model's outputs by name.
        labels: Class names, or empty.
        count: How many to return at most.

    Returns:
        The likeliest classes, best first, equals in the order of their index; None where this is
        no classifier's output, or a value is not finite.
    """
    if len(outputs) != 1:
        return None
    (array,) = outputs.values()
    classes = array.size
    one_axis = max(array.shape, default=1) == classes
    if array.dtype.kind != "f" or not one_axis or classes < 2:
        return None
    values = array.reshape(-1).astype(np.float64)
    if len(labels) != classes or not np.isfinite(values).all():
        return None
    scores = values if _is_distribution(values) else _softmax(values)
    order = np.argsort(-scores, kind="stable")[:count]
    return tuple(Guess(labels[index], int(index), float(scores[index])) for index in order)


def _is_distribution(values: NDArray[np.float64]) -> bool:
    # Half-precision probabilities over thousands of classes add up to 1 within about 1e-3.
    return bool(values.min() >= 0 and abs(values.sum() - 1) < 2e-3)


def _softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(values - values.max())
    scores: NDArray[np.float64] = powers / powers.sum()
    return scores


def _digest(name: str, array: NDArray[Any]) -> dict[str, Any]:
    """The SHA-256 is over the array's bytes in C order; it tells equal answers, not close ones."""
    return {
        "name": name,
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
    }
