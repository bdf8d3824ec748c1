"""Whatever bytes arrive, the decoder answers with a message or a FrameError."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.codecs import decode_tensor
from protocol.errors import CodecError, FrameError
from protocol.frames import decode_message, encode_message
from protocol.limits import Limits
from protocol.messages import Message
from tests.protocol.golden.values import golden_messages

LIMITS = Limits(
    header_bytes=4_096,
    tensor_bytes=1_000_000,
    message_bytes=1_000_000,
    tensors=8,
    rank=6,
    name_characters=64,
)
VALID = [encode_message(message) for message in golden_messages().values()]

many = settings(max_examples=500)


def survives(frames):
    try:
        message = decode_message(frames, LIMITS)
    except FrameError:
        return
    assert isinstance(message, Message)
    # What was understood can be said again, and means the same.
    again = encode_message(message)
    assert decode_message(again, LIMITS) == message
    for tensor in getattr(message, "tensors", ()):
        try:
            array = decode_tensor(tensor, LIMITS)
        except (CodecError, FrameError):
            continue
        assert array.nbytes == tensor.spec.raw_bytes


@many
@given(st.lists(st.binary(max_size=64), max_size=8))
def test_arbitrary_bytes(frames):
    survives(frames)


@many
@given(
    st.integers(0, 13),
    st.sampled_from([b"", bytes(16)]),
    st.sampled_from([b"", bytes(8)]),
    st.binary(max_size=200),
    st.lists(st.binary(max_size=20), max_size=3),
)
def test_arbitrary_headers_in_a_right_envelope(kind, session, number, header, payloads):
    survives([bytes((1, kind)), session, number, header, *payloads])


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=10)
    | st.binary(max_size=20)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=5)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@many
@given(st.data())
def test_valid_headers_with_one_field_replaced(data):
    frames = list(data.draw(st.sampled_from(VALID)))
    header = msgpack.unpackb(frames[3])
    place = header
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(values)
        break
    frames[3] = msgpack.packb(header)
    survives(frames)


@many
@given(st.data())
def test_valid_messages_with_flipped_bits(data):
    frames = list(data.draw(st.sampled_from(VALID)))
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(frames) - 1))
        if frames[index]:
            bit = data.draw(st.integers(0, 8 * len(frames[index]) - 1))
            damaged = bytearray(frames[index])
            damaged[bit // 8] ^= 1 << bit % 8
            frames[index] = bytes(damaged)
    survives(frames)


@many
@given(st.data())
def test_valid_messages_with_frames_cut_dropped_doubled_or_moved(data):
    frames = list(data.draw(st.sampled_from(VALID)))
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(frames) - 1))
        change = data.draw(st.sampled_from(["cut", "drop", "double", "move", "extend"]))
        if change == "cut":
            frames[index] = frames[index][: data.draw(st.integers(0, len(frames[index])))]
        elif change == "drop" and len(frames) > 1:
            del frames[index]
        elif change == "double":
            frames.insert(index, frames[index])
        elif change == "move":
            frames.insert(data.draw(st.integers(0, len(frames) - 1)), frames.pop(index))
        else:
            frames[index] += data.draw(st.binary(max_size=20))
    survives(frames)


@many
@given(st.sampled_from(VALID), st.sampled_from(VALID), st.integers(0, 12))
def test_two_messages_grown_together(first, second, cut):
    survives([*first[:cut], *second[cut:]])


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\x92\x91"])
@given(depth=st.integers(1, 1_300))
@settings(max_examples=30)
def test_deep_nesting(opening, depth):
    survives([b"\x01\x01", b"", b"", opening * depth + b"\xc0"])
