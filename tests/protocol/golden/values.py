"""What the golden files say: one message of each kind, with values that are easy to recognise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from protocol.codecs import EncodedTensor, encode_tensor, parse_codec
from protocol.codes import FailureCode, RefusalCode
from protocol.messages import (
    Failure,
    Goodbye,
    Hello,
    Message,
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
from protocol.preprocess import ImagePreprocess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.tensors import Array

SESSION = bytes(range(16))

# What the tensors of the golden request and result hold once decoded (JPEG: within 3).
ARRAYS: Mapping[str, Array] = {
    "features": np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) / 8,
    "half": np.array([0.5, -2.0, 1024.0], np.float32),
    "coarse": np.arange(16, dtype=np.float32),
    "fine": np.arange(256, dtype=np.float16),
    "token": np.array(7, np.int64),
    "mask": np.array([[True, False], [False, True]]),
    "nothing": np.empty((0, 4), np.float64),
    "image": np.full((8, 8, 3), 100, np.uint8),
}
_CODECS = {"half": "float16", "coarse": "affine4", "fine": "affine8", "image": "jpeg90"}


def _encoded(*names: str) -> tuple[EncodedTensor, ...]:
    return tuple(
        encode_tensor(name, ARRAYS[name], parse_codec(_CODECS.get(name, "raw"))) for name in names
    )


def golden_messages() -> dict[str, Message]:
    """Return the message of each golden file, by file name without suffix."""
    preprocess = ImagePreprocess(
        height=224, width=224, mean=(0.5, 0.25, 0.125), std=(0.5, 0.25, 0.125)
    )
    hello = Hello(
        protocol_version=1,
        incarnation=bytes(range(16, 32)),
        model="0123456789abcdef" * 4,
        cut="block_3/add",
        frontier=("features", "token"),
        results=("logits",),
        codecs=("affine8", "raw"),
        preprocess=None,
        max_message_bytes=268_435_456,
    )
    return {
        "hello": hello,
        "hello_preprocess": Hello(**{**hello.__dict__, "preprocess": preprocess.to_dict()}),
        "welcome": Welcome(
            session=SESSION,
            credit_bytes=8_388_608,
            ping_interval_ms=1_000,
            max_message_bytes=268_435_456,
            max_tensor_bytes=134_217_728,
            codecs=("raw",),
            worker="worker-1",
        ),
        "refuse": Refuse(RefusalCode.BUSY, "all places are taken", 250),
        "request": Request(
            session=SESSION,
            number=2**40 + 5,
            deadline_ms=80,
            tensors=_encoded("features", "half", "coarse", "fine", "token", "mask", "nothing"),
        ),
        "request_jpeg": Request(SESSION, 1, None, _encoded("image")),
        "result": Result(
            session=SESSION,
            number=2**40 + 5,
            timings=Timings(0.25, 0.5, 12.75, 0.125),
            tensors=_encoded("features"),
        ),
        "failure": Failure(SESSION, 6, FailureCode.EXPIRED, "12 ms too late", None),
        "ping": Ping(SESSION, 9),
        "pong": Pong(SESSION, 9),
        "probe": Probe(2**40 + 7, 65_536, bytes(range(64))),
        "probed": Probed(2**40 + 7, bytes(range(32, 64))),
        "goodbye": Goodbye(SESSION, "stopped by its user"),
    }
