"""Bytes that were once on the wire must stay readable, and be written the same way."""

from __future__ import annotations

import numpy as np
import pytest

from protocol.codecs import decode_tensor
from protocol.frames import decode_message, encode_message
from protocol.limits import Limits
from protocol.messages import Message, Request, Result
from tests.protocol.golden.files import FOLDER, read_frames
from tests.protocol.golden.values import ARRAYS, golden_messages

NAMES = sorted(golden_messages())
ENVELOPE = 4


def test_there_is_a_file_for_every_kind_and_no_other():
    assert sorted(path.stem for path in FOLDER.glob("*")) == NAMES
    kinds = {type(message) for message in golden_messages().values()}
    assert kinds == set(Message.__args__)


@pytest.mark.parametrize("name", NAMES)
def test_the_frames_are_still_written_the_same(name):
    frames = read_frames(FOLDER / f"{name}.bin")
    assert encode_message(golden_messages()[name])[:ENVELOPE] == frames[:ENVELOPE]


@pytest.mark.parametrize("name", NAMES)
def test_the_file_still_means_the_same(name):
    decoded = decode_message(read_frames(FOLDER / f"{name}.bin"), Limits())
    expected = golden_messages()[name]
    if not isinstance(expected, Request | Result):
        assert decoded == expected
        return
    assert type(decoded) is type(expected)
    for field in set(expected.__dict__) - {"tensors"}:
        assert getattr(decoded, field) == getattr(expected, field)
    assert len(decoded.tensors) == len(expected.tensors)
    for got, wanted in zip(decoded.tensors, expected.tensors, strict=True):
        assert (got.spec, got.codec) == (wanted.spec, wanted.codec)
        array, original = decode_tensor(got, Limits()), ARRAYS[got.spec.name]
        if got.codec.name == "jpeg90":
            assert np.abs(array.astype(int) - original).max() <= 3
        else:
            np.testing.assert_array_equal(array, original, strict=True)


def test_what_is_written_again_is_read_again():
    for message in golden_messages().values():
        assert decode_message(encode_message(message), Limits()) == message
