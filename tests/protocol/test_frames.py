from __future__ import annotations

import dataclasses
import tracemalloc

import msgpack
import numpy as np
import pytest

from protocol.codecs import EncodedTensor, RawCodec, encode_tensor
from protocol.codes import FailureCode, RefusalCode
from protocol.errors import FrameError, LimitExceededError, VersionMismatchError
from protocol.frames import decode_message, encode_message, message_bytes
from protocol.limits import Limits
from protocol.messages import Failure, Goodbye, Hello, Ping, Refuse, Request, Timings, Welcome
from protocol.tensors import TensorSpec
from tests.protocol.golden.values import SESSION, golden_messages

MESSAGES = golden_messages()
LIMITS = Limits()

REQUEST = MESSAGES["request"]
HELLO = MESSAGES["hello_preprocess"]


def with_header(frames, change):
    """Return the frames with a changed header."""
    header = msgpack.unpackb(frames[3])
    changed = change(header)
    return [*frames[:3], msgpack.packb(header if changed is None else changed), *frames[4:]]


def refuse(frames, match=None, limits=LIMITS, error=FrameError):
    with pytest.raises(error, match=match):
        decode_message(frames, limits)


class TestEnvelope:
    @pytest.mark.parametrize("name", sorted(MESSAGES))
    def test_every_message_comes_back(self, name):
        message = MESSAGES[name]
        frames = encode_message(message)
        assert decode_message(frames, LIMITS) == message
        assert decode_message([memoryview(frame) for frame in frames], LIMITS) == message
        assert message_bytes(message) == sum(len(frame) for frame in frames)

    @pytest.mark.parametrize("name", sorted(MESSAGES))
    def test_missing_and_additional_frames_are_refused(self, name):
        frames = encode_message(MESSAGES[name])
        for count in range(len(frames)):
            refuse(frames[:count])
        refuse([*frames, b""])
        refuse([*frames, b"x" * 100])
        refuse(frames * 2)
        refuse([])

    @pytest.mark.parametrize("name", sorted(MESSAGES))
    def test_session_and_number_have_their_lengths(self, name):
        frames = encode_message(MESSAGES[name])
        for index in (0, 1, 2):
            for wrong in (b"", b"x", frames[index] + b"x", b"x" * 8, b"x" * 16):
                if len(wrong) != len(frames[index]):
                    refuse([*frames[:index], wrong, *frames[index + 1 :]], "bytes instead of")

    def test_another_version_is_told_from_garbage(self):
        frames = encode_message(MESSAGES["hello"])
        with pytest.raises(VersionMismatchError, match="version 2") as caught:
            decode_message([b"\x02\x01", *frames[1:]], LIMITS)
        assert caught.value.version == 2

    def test_a_hello_of_another_version_in_this_framing_is_readable(self):
        """A worker can answer it with REFUSE version_mismatch."""
        hello = dataclasses.replace(MESSAGES["hello"], protocol_version=7)
        assert decode_message(encode_message(hello), LIMITS).protocol_version == 7

    @pytest.mark.parametrize("kind", [0, 12, 255])
    def test_unknown_kinds_are_refused(self, kind):
        refuse([bytes((1, kind)), b"", b"", b"\x80"], f"unknown message kind {kind}")

    def test_payloads_are_passed_on_not_copied(self):
        frames = encode_message(REQUEST)
        assert all(
            frame is tensor.payload
            for frame, tensor in zip(frames[4:], REQUEST.tensors, strict=True)
        )
        decoded = decode_message(frames, LIMITS)
        assert all(
            frame is tensor.payload
            for frame, tensor in zip(frames[4:], decoded.tensors, strict=True)
        )

    def test_numbers_reach_over_the_whole_range(self):
        for number in (0, 1, 2**64 - 1):
            ping = Ping(SESSION, number)
            assert decode_message(encode_message(ping), LIMITS) == ping

    def test_texts_are_cut_and_on_one_line(self):
        failure = Failure(SESSION, 1, FailureCode.INFERENCE_FAILED, "a\nb\x1b[2J" + "c" * 5_000, 3)
        assert decode_message(encode_message(failure), LIMITS) == failure
        assert len(failure.text) == 1_000
        assert failure.text.startswith("a b [2Jccc")
        assert Goodbye(SESSION, "x\ny").reason == "x y"
        assert Refuse(RefusalCode.BUSY, "x\ty", None).text == "x y"


class TestLimits:
    def test_message_bytes(self):
        frames = encode_message(REQUEST)
        total = message_bytes(REQUEST)
        big = Request(SESSION, 1, None, (encode_tensor("x", noise(8_192), RawCodec()),))
        decode_message(frames, LIMITS)
        assert total < 8_192
        refuse(encode_message(big), "limit is 4096", Limits(message_bytes=4_096))

    def test_header_bytes(self):
        frontier = tuple(f"tensor {i} {'x' * 100}" for i in range(20))
        frames = encode_message(dataclasses.replace(MESSAGES["hello"], frontier=frontier))
        decode_message(frames, LIMITS)
        refuse(frames, "header of Hello has", Limits(header_bytes=1_024), LimitExceededError)

    def test_a_header_above_the_limit_is_not_even_parsed(self):
        # An array of empty maps takes 75 times its bytes once parsed.
        bomb = [b"\x01\x01", b"", b"", msgpack.packb([{}] * 2_000_000)]
        tracemalloc.start()
        try:
            refuse(bomb, "header of Hello", error=LimitExceededError)
            assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
        finally:
            tracemalloc.stop()

    def test_a_header_within_the_limit_stays_small_once_parsed(self):
        rows = [[{}] * 255] * 250
        bomb = [b"\x01\x01", b"", b"", msgpack.packb(rows)]
        assert len(bomb[3]) > 60_000
        tracemalloc.start()
        try:
            refuse(bomb)
            assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
        finally:
            tracemalloc.stop()

    def test_number_of_tensors(self):
        tensor = encode_tensor("x", np.zeros(1, np.int8), RawCodec())
        tensors = tuple(
            dataclasses.replace(tensor, spec=TensorSpec(f"x{i}", "int8", (1,))) for i in range(5)
        )
        frames = encode_message(Request(SESSION, 1, None, tensors))
        decode_message(frames, Limits(tensors=5))
        refuse(frames, limits=Limits(tensors=4))
        with pytest.raises(FrameError):
            encode_message(Request(SESSION, 1, None, tensors * 100))

    @pytest.mark.parametrize(
        "shape",
        [[2**28 + 1], [2**40], [2**20, 2**20], [0, 2**60], [2**63], [2**64 - 1], [1] * 17],
    )
    def test_tensors_that_claim_too_much(self, shape):
        def change(header):
            header["tensors"][0]["shape"] = shape

        tracemalloc.start()
        try:
            refuse(with_header(encode_message(REQUEST), change), error=LimitExceededError)
            assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
        finally:
            tracemalloc.stop()

    def test_many_tensors_that_claim_much_together(self):
        """Each of them is within its limit; all together they would take 64 GiB."""
        payload = RawCodec().encode(np.zeros(1, np.uint8))
        tensors = tuple(
            EncodedTensor(TensorSpec(f"x{i}", "uint8", (256 * 1024 * 1024,)), RawCodec(), payload)
            for i in range(256)
        )
        frames = encode_message(Request(SESSION, 1, None, tensors))
        refuse(frames, "once decoded", error=LimitExceededError)

    def test_a_payload_longer_than_its_codec_can_make(self):
        frames = encode_message(Request(SESSION, 1, None, (REQUEST.tensors[0],)))
        frames[4] = bytes(10_000)
        refuse(frames, "needs at most", error=LimitExceededError)

    @pytest.mark.parametrize("field", ["cut", "frontier", "results", "codecs"])
    def test_names(self, field):
        def lengthen(header):
            header[field] = "x" * 65 if field == "cut" else ["x" * 65]

        frames = with_header(encode_message(HELLO), lengthen)
        decode_message(frames, LIMITS)
        refuse(frames, f"Hello.{field}", Limits(name_characters=64), LimitExceededError)


def noise(elements):
    return np.random.default_rng(0).integers(0, 256, elements).astype(np.uint8)


WRONG_FOR_ALL = [
    b"",
    b"x" * 17,
    {},
    {"a": 1},
    [[]],
    [None],
    1.5,
    float("nan"),
    float("inf"),
    -1,
    2**64 - 1,
    True,
    msgpack.Timestamp(1, 2),
    msgpack.ExtType(5, b"data"),
    msgpack.ExtType(5, b""),
    "",
    "x" * 3_000,
]
# What some fields may really hold.
ALLOWED = {
    ("refuse", "text"): [""],
    ("failure", "text"): [""],
    ("goodbye", "reason"): [""],
}


@pytest.mark.parametrize("name", sorted(MESSAGES))
class TestHeaders:
    def test_every_field_refuses_values_of_wrong_type_or_range(self, name):
        frames = encode_message(MESSAGES[name])
        for key in msgpack.unpackb(frames[3]):
            for value in WRONG_FOR_ALL:
                if value in ALLOWED.get((name, key), []):
                    continue

                def change(header, key=key, value=value):
                    header[key] = value

                refuse(with_header(frames, change))

    def test_keys_are_a_closed_set(self, name):
        frames = encode_message(MESSAGES[name])
        keys = list(msgpack.unpackb(frames[3]))
        for key in keys:
            refuse(with_header(frames, lambda header, key=key: header.pop(key) and None), "keys")
        refuse(with_header(frames, lambda header: header.update(surprise=1)), "keys")
        refuse(with_header(frames, lambda header: {**header, 5: 1}))

    def test_what_is_no_map_is_refused(self, name):
        frames = encode_message(MESSAGES[name])
        for header in ([], None, 3, "x", [{}], True, 1.5):
            refuse(with_header(frames, lambda _, header=header: [header]))
            refuse([*frames[:3], msgpack.packb(header), *frames[4:]])

    def test_a_key_given_twice_is_refused(self, name):
        frames = encode_message(MESSAGES[name])
        header = bytes(frames[3])
        fields = header[0] & 0x0F
        twice = bytes([0x80 | 2 * fields]) + 2 * header[1:]
        assert 2 * fields < 32
        if 2 * fields > 15:
            twice = b"\xde" + (2 * fields).to_bytes(2, "big") + 2 * header[1:]
        if fields:
            refuse([*frames[:3], twice, *frames[4:]], "twice")

    def test_broken_msgpack_is_refused(self, name):
        frames = encode_message(MESSAGES[name])
        header = bytes(frames[3])
        for broken in (
            b"",
            header[:-1],
            header + b"\x00",
            b"\xc1",
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\xdb\xff\xff\xff\xff",
            b"\x81\xa1\xff\x01",
            b"\x81\x90\x01",
            b"\x91" * 500 + b"\xc0",
            b"\x91" * 5_000 + b"\xc0",
            b"\x91" * 60_000 + b"\xc0",
            b"\x81\xa1a" * 20_000 + b"\xc0",
        ):
            if broken != header:
                refuse([*frames[:3], broken, *frames[4:]], "header|Hello|must be")


class TestTensorHeaders:
    def refuse_change(self, match=None, **changes):
        def change(header):
            header["tensors"][0].update(changes)

        refuse(with_header(encode_message(REQUEST), change), match)

    @pytest.mark.parametrize("field", ["name", "dtype", "shape", "codec"])
    def test_every_field_refuses_values_of_wrong_type(self, field):
        for value in [None, *WRONG_FOR_ALL, [True], [1.5], ["1"], [-1]]:
            self.refuse_change(**{field: value})

    def test_dtypes_and_codecs_are_closed_sets(self):
        for dtype in ("bfloat16", "object", "<f4", "Float32", "string"):
            self.refuse_change("dtype must be one of", dtype=dtype)
        self.refuse_change("unknown codec 'gzip'", codec="gzip")
        self.refuse_change("jpeg90 takes", codec="jpeg90")

    def test_two_tensors_of_one_name_are_refused(self):
        def change(header):
            header["tensors"][1]["name"] = header["tensors"][0]["name"]

        refuse(with_header(encode_message(REQUEST), change), "one name")
        with pytest.raises(FrameError, match="one name"):
            encode_message(Request(SESSION, 1, None, REQUEST.tensors * 2))

    def test_payloads_and_descriptions_must_be_as_many(self):
        def change(header):
            header["tensors"].pop()

        refuse(with_header(encode_message(REQUEST), change), "describes 6 tensors and carries 7")

    def test_a_message_without_tensors_carries_no_payload(self):
        refuse([*encode_message(MESSAGES["ping"]), b"payload"], "describes 0 tensors")

    def test_a_preprocess_block_is_checked(self):
        def change(header):
            header["preprocess"]["hight"] = 3

        refuse(with_header(encode_message(HELLO), change), "did you mean 'height'")

    def test_durations_are_finite_and_not_negative(self):
        for value in (-0.5, float("nan"), float("inf"), 1e300, "1", None, True):

            def change(header, value=value):
                header["timings"]["queue_ms"] = value

            refuse(with_header(encode_message(MESSAGES["result"]), change), "queue_ms")


class TestOurOwnMistakes:
    """What a peer would refuse is not sent."""

    @pytest.mark.parametrize(
        "message",
        [
            Ping(b"short", 1),
            Ping(SESSION, -1),
            Ping(SESSION, 2**64),
            Ping(SESSION, True),
            Ping(SESSION, np.int64(3)),  # msgpack knows no numpy scalars
            dataclasses.replace(MESSAGES["result"], timings=Timings(np.float32(1), 0.0, 0.0, 0.0)),
            dataclasses.replace(HELLO, model="ABC"),
            dataclasses.replace(HELLO, model="A" * 64),
            dataclasses.replace(HELLO, frontier=("",)),
            dataclasses.replace(HELLO, incarnation=bytes(8)),
            dataclasses.replace(HELLO, preprocess={"height": 3}),
            dataclasses.replace(MESSAGES["welcome"], ping_interval_ms=0),
            dataclasses.replace(MESSAGES["request"], deadline_ms=0.5),
            dataclasses.replace(HELLO, results=tuple("x" * 500 + str(i) for i in range(200))),
        ],
    )
    def test_it_is_named(self, message):
        with pytest.raises(FrameError, match=type(message).__name__):
            encode_message(message)

    def test_messages_are_values(self):
        assert Welcome(**MESSAGES["welcome"].__dict__) == MESSAGES["welcome"]
        assert Hello(**MESSAGES["hello"].__dict__) == MESSAGES["hello"]
        with pytest.raises(dataclasses.FrozenInstanceError):
            MESSAGES["ping"].number = 3
