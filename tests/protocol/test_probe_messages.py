"""PROBE and PROBED: one payload that means nothing, bounded in both directions."""

from __future__ import annotations

import pytest

from protocol.errors import FrameError, LimitExceededError
from protocol.frames import decode_message, encode_message
from protocol.limits import Limits
from protocol.messages import PROBE_BYTES, Probe, Probed

LIMITS = Limits()


@pytest.mark.parametrize("message", [Probe(1, PROBE_BYTES, b""), Probed(2**64 - 1, b"x" * 9)])
def test_comes_back_without_a_copy_of_the_payload(message):
    frames = encode_message(message)
    assert len(frames) == 5
    decoded = decode_message(frames, LIMITS)
    assert decoded == message
    assert decoded.payload is frames[4]


@pytest.mark.parametrize("make", [lambda payload: Probe(1, 0, payload), lambda p: Probed(1, p)])
def test_a_payload_above_the_limit_is_neither_written_nor_read(make):
    assert encode_message(make(bytes(PROBE_BYTES)))
    with pytest.raises(LimitExceededError, match=r"payload of Probe.* has 524289 bytes; the limit"):
        encode_message(make(bytes(PROBE_BYTES + 1)))
    frames = [*encode_message(make(b""))[:4], bytes(PROBE_BYTES + 1)]
    with pytest.raises(LimitExceededError, match="the limit is 524288"):
        decode_message(frames, LIMITS)


@pytest.mark.parametrize("answer_bytes", [-1, PROBE_BYTES + 1, 1.5, None, True])
def test_an_answer_of_another_size_cannot_be_asked_for(answer_bytes):
    with pytest.raises(FrameError, match=r"Probe\.answer_bytes"):
        encode_message(Probe(1, answer_bytes, b""))


def test_a_payload_is_needed_and_there_is_one():
    frames = encode_message(Probe(1, 0, b"x"))
    for wrong in (frames[:4], [*frames, b"y"]):
        with pytest.raises(FrameError, match="payloads instead of 1"):
            decode_message(wrong, LIMITS)


def test_it_belongs_to_no_session():
    frames = encode_message(Probe(1, 0, b"x"))
    with pytest.raises(FrameError, match="Probe session has 16 bytes instead of 0"):
        decode_message([frames[0], bytes(16), *frames[2:]], LIMITS)
