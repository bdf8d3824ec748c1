"""What the tests of the worker share: a fake model, messages, and an agent's end of the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import zmq

from cloud_worker import ModelEntry, ModelIndex, TailKey
from cloud_worker.testing import FakeTails
from profiler.testing import FakeModel
from profiler.values import TensorSlot
from protocol import (
    PROTOCOL_VERSION,
    Hello,
    Limits,
    RawCodec,
    Request,
    Welcome,
    agent_socket,
    decode_message,
    decode_tensor,
    encode_message,
    encode_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from protocol import EncodedTensor, Message

MODEL = "a" * 64
LIMITS = Limits()
RAW = RawCodec()
KEY = TailKey.of(MODEL, ["x"], ["y"])
X = np.arange(4, dtype=np.float32).reshape(1, 4)
TIMEOUT_MS = 30_000


def doubling() -> FakeModel:
    """y = 2 x; x is float32 [any, 4]."""
    return FakeModel(
        (TensorSlot("x", "float32", (None, 4)),),
        (TensorSlot("y", "float32", (None, 4)),),
        lambda feeds: {"y": feeds["x"] * 2},
    )


def index() -> ModelIndex:
    return ModelIndex([ModelEntry("net", MODEL)])


def tails() -> FakeTails:
    return FakeTails({KEY: doubling()})


def hello(**changes: Any) -> Hello:
    fields: dict[str, Any] = {
        "protocol_version": PROTOCOL_VERSION,
        "incarnation": b"i" * 16,
        "model": MODEL,
        "cut": "cut-1",
        "frontier": ("x",),
        "results": ("y",),
        "codecs": ("raw",),
        "preprocess": None,
        "max_message_bytes": 1 << 28,
    }
    return Hello(**{**fields, **changes})


def tensor(array: NDArray[Any], name: str = "x") -> EncodedTensor:
    return encode_tensor(name, array, RAW)


def arrays(tensors: Iterable[EncodedTensor]) -> Mapping[str, NDArray[Any]]:
    return {item.spec.name: decode_tensor(item, LIMITS) for item in tensors}


class Peer:
    """An agent's end of the wire, one message at a time."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self.socket = agent_socket(context, address, LIMITS)
        self.socket.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
        self.socket.setsockopt(zmq.SNDTIMEO, TIMEOUT_MS)
        self.session = b""

    def send(self, message: Message) -> None:
        self.socket.send_multipart(encode_message(message))

    def receive(self) -> Message:
        return decode_message(self.socket.recv_multipart(), LIMITS)

    def ask(self, message: Message) -> Message:
        self.send(message)
        return self.receive()

    def welcome(self, **changes: Any) -> Welcome:
        answer = self.ask(hello(**changes))
        assert isinstance(answer, Welcome), answer
        self.session = answer.session
        return answer

    def request(
        self, number: int, *tensors: EncodedTensor, deadline_ms: int | None = None
    ) -> Request:
        return Request(self.session, number, deadline_ms, tensors or (tensor(X),))
