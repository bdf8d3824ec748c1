"""The messages of protocol version 1: plain values, without a byte of their encoding.

The device says HELLO; the worker answers WELCOME or REFUSE. After WELCOME the device sends
REQUESTs within its credit, each answered by RESULT or FAILURE, and PINGs, answered by PONGs.
Either side may say GOODBYE. Who wants to know how fast the link is sends PROBEs, each answered by
PROBED, or by REFUSE where there are too many; they need no session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.codecs import EncodedTensor
    from protocol.codes import FailureCode, RefusalCode

PROTOCOL_VERSION = 1

SESSION_BYTES = 16
PROBE_BYTES = 512 * 1024  # 20 ms at 200 Mbit/s; fits into the least credit of a worker, 1 MiB
TEXT_CHARACTERS = 1_000


@dataclass(frozen=True)
class Hello:
    """Device to worker: asks for a session.

    Attributes:
        protocol_version: The version the device speaks; see :data:`PROTOCOL_VERSION`.
        incarnation: 16 random bytes, new with every start of the agent.
        model: SHA-256 of the model, 64 lower-case hexadecimal digits.
        cut: Name of the cut, for logs.
        frontier: Names of the tensors that every request will carry.
        results: Names of the tensors the device wants back.
        codecs: Names of the codecs the device will send with.
        preprocess: An :class:`protocol.ImagePreprocess` as a mapping, if the worker is to apply
            it to uint8 pictures.
        max_message_bytes: Largest message the device accepts, on the wire and once decoded.
    """

    protocol_version: int
    incarnation: bytes
    model: str
    cut: str
    frontier: tuple[str, ...]
    results: tuple[str, ...]
    codecs: tuple[str, ...]
    preprocess: Mapping[str, Any] | None
    max_message_bytes: int


@dataclass(frozen=True)
class Welcome:
    """Worker to device: the session is open.

    Attributes:
        session: 16 random bytes that every later message of this session carries.
        credit_bytes: Most bytes of requests (see :func:`protocol.message_bytes`) that may be
            unanswered at any time.
        ping_interval_ms: How often the device pings; the worker forgets silent sessions.
        max_message_bytes: Largest message the worker accepts, on the wire and once decoded.
        max_tensor_bytes: Largest decoded tensor the worker accepts.
        codecs: Names of the codecs the worker answers with.
        worker: Name of the worker, for logs.
    """

    session: bytes
    credit_bytes: int
    ping_interval_ms: int
    max_message_bytes: int
    max_tensor_bytes: int
    codecs: tuple[str, ...]
    worker: str


@dataclass(frozen=True)
class Refuse:
    """Worker to device: there will be no session.

    Attributes:
        code: Why.
        text: One line for people; longer texts are cut.
        retry_after_ms: When to ask again, if known.
    """

    code: RefusalCode
    text: str
    retry_after_ms: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", one_line(self.text, TEXT_CHARACTERS))


@dataclass(frozen=True)
class Request:
    """Device to worker: run the tail on these tensors.

    Attributes:
        session: From WELCOME.
        number: Unique within the agent's incarnation; a resend carries the same number.
        deadline_ms: Time left when this was sent; relative, since clocks differ. None: no hurry.
        tensors: The frontier.
    """

    session: bytes
    number: int
    deadline_ms: int | None
    tensors: tuple[EncodedTensor, ...]


@dataclass(frozen=True)
class Timings:
    """Where a request's time went on the worker, in milliseconds."""

    queue_ms: float
    decode_ms: float
    inference_ms: float
    encode_ms: float


@dataclass(frozen=True)
class Result:
    """Worker to device: the answer to a request.

    Attributes:
        session: From the request.
        number: From the request.
        timings: Where the time went.
        tensors: The tail's results.
    """

    session: bytes
    number: int
    timings: Timings
    tensors: tuple[EncodedTensor, ...]


@dataclass(frozen=True)
class Failure:
    """Worker to device: a request that gets no result.

    Attributes:
        session: From the request.
        number: From the request.
        code: Why.
        text: One line for people; longer texts are cut.
        retry_after_ms: When to ask again, if known.
    """

    session: bytes
    number: int
    code: FailureCode
    text: str
    retry_after_ms: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", one_line(self.text, TEXT_CHARACTERS))


@dataclass(frozen=True)
class Ping:
    """Device to worker: are you there? Any message counts as a sign of life."""

    session: bytes
    number: int


@dataclass(frozen=True)
class Pong:
    """Worker to device: the answer to a ping, with its number."""

    session: bytes
    number: int


@dataclass(frozen=True)
class Goodbye:
    """Either side: the session ends now; nothing more will come.

    Attributes:
        session: From WELCOME.
        reason: One line for people; longer texts are cut.
    """

    session: bytes
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason, TEXT_CHARACTERS))


@dataclass(frozen=True)
class Probe:
    """Anybody to worker: answer with so many bytes. Needs no session.

    Attributes:
        number: Of the probe; the answer carries it.
        answer_bytes: Size of the answer's payload, at most :data:`PROBE_BYTES`.
        payload: What takes its time on the way there, at most :data:`PROBE_BYTES`; means nothing.
    """

    number: int
    answer_bytes: int
    payload: bytes | memoryview


@dataclass(frozen=True)
class Probed:
    """Worker to prober: the answer to a probe.

    Attributes:
        number: From the probe.
        payload: As many bytes as were asked for; they mean nothing, and do not compress.
    """

    number: int
    payload: bytes | memoryview


Message = (
    Hello | Welcome | Refuse | Request | Result | Failure | Ping | Pong | Goodbye | Probe | Probed
)
