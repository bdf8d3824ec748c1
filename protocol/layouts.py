"""Which fields each kind of message has in its header, and what they may hold."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from protocol.codes import FailureCode, RefusalCode
from protocol.fields import (
    Choice,
    Digest,
    Integer,
    Items,
    Name,
    Octets,
    OneOf,
    Optional,
    Preprocess,
    Prose,
    Real,
    Record,
    Shape,
)
from protocol.messages import (
    PROBE_BYTES,
    SESSION_BYTES,
    TEXT_CHARACTERS,
    Failure,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Probe,
    Probed,
    Refuse,
    Request,
    Result,
    Timings,
    Welcome,
)
from protocol.tensors import ITEM_BYTES

_BYTES = Integer(0, 2**53)
_MILLISECONDS = Integer(0, 2**31 - 1)
_RETRY = Optional(_MILLISECONDS)
_DURATION = Real(1e9)
_TEXT = Prose(TEXT_CHARACTERS)
_CODECS = Items(Name(), 64)
_TENSORS = Items(
    Record(
        {"name": Name(), "dtype": OneOf(frozenset(ITEM_BYTES)), "shape": Shape(), "codec": Name()}
    )
)


@dataclass(frozen=True)
class Layout:
    """How one kind of message is written.

    Attributes:
        kind: The second byte of the first frame.
        message: The class.
        header: Rules for all fields of the class but session, number and payload.
        has_session: Whether the second frame holds a session.
        has_number: Whether the third frame holds a number.
        most_payload_bytes: The largest fifth frame, for a message that has one beside tensors.
    """

    kind: int
    message: type[Any]
    header: Record
    has_session: bool = True
    has_number: bool = False
    most_payload_bytes: int | None = None


_LAYOUTS = (
    Layout(
        1,
        Hello,
        Record(
            {
                "protocol_version": Integer(0, 255),
                "incarnation": Octets(SESSION_BYTES),
                "model": Digest(),
                "cut": Name(),
                "frontier": Items(Name()),
                "results": Items(Name()),
                "codecs": _CODECS,
                "preprocess": Optional(Preprocess()),
                "max_message_bytes": _BYTES,
            }
        ),
        has_session=False,
    ),
    Layout(
        2,
        Welcome,
        Record(
            {
                "credit_bytes": _BYTES,
                "ping_interval_ms": Integer(1, 2**31 - 1),
                "max_message_bytes": _BYTES,
                "max_tensor_bytes": _BYTES,
                "codecs": _CODECS,
                "worker": Name(),
            }
        ),
    ),
    Layout(
        3,
        Refuse,
        Record({"code": Choice(RefusalCode), "text": _TEXT, "retry_after_ms": _RETRY}),
        has_session=False,
    ),
    Layout(
        4,
        Request,
        Record({"deadline_ms": Optional(_MILLISECONDS), "tensors": _TENSORS}),
        has_number=True,
    ),
    Layout(
        5,
        Result,
        Record(
            {
                "timings": Record({field.name: _DURATION for field in fields(Timings)}),
                "tensors": _TENSORS,
            }
        ),
        has_number=True,
    ),
    Layout(
        6,
        Failure,
        Record({"code": Choice(FailureCode), "text": _TEXT, "retry_after_ms": _RETRY}),
        has_number=True,
    ),
    Layout(7, Ping, Record({}), has_number=True),
    Layout(8, Pong, Record({}), has_number=True),
    Layout(9, Goodbye, Record({"reason": _TEXT})),
    Layout(
        10,
        Probe,
        Record({"answer_bytes": Integer(0, PROBE_BYTES)}),
        has_session=False,
        has_number=True,
        most_payload_bytes=PROBE_BYTES,
    ),
    Layout(
        11,
        Probed,
        Record({}),
        has_session=False,
        has_number=True,
        most_payload_bytes=PROBE_BYTES,
    ),
)
LAYOUT_OF_KIND = {layout.kind: layout for layout in _LAYOUTS}
LAYOUT_OF_MESSAGE = {layout.message: layout for layout in _LAYOUTS}
