"""From a request to its answer."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cloud_worker._compute import can_decode, compute
from cloud_worker._work import EXPIRED, Computed, Failed, Job, Tail
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.errors import RejectedError
from profiler.testing import FakeEngine, FakeModel
from profiler.values import TensorSlot
from protocol import (
    AffineCodec,
    EncodedTensor,
    FailureCode,
    Float16Codec,
    ImagePreprocess,
    JpegCodec,
    Limits,
    RawCodec,
    SystemClock,
    TensorSpec,
    encode_tensor,
)
from protocol.testing import FakeClock
from tests.cloud_worker.conftest import save_net
from tests.cloud_worker.support import KEY, LIMITS, X, arrays, doubling, tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from cloud_worker._work import Answer

PREPROCESS = ImagePreprocess(
    height=16, width=24, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), layout="NCHW"
)
PIXELS = np.random.default_rng(3).integers(0, 256, (16, 24, 3), np.uint8)


def job(model: FakeModel, *tensors: EncodedTensor, **changes: Any) -> Job:
    tail = Tail(KEY, FakeEngine({"tail": model}).load(Path("tail")))
    made = Job(
        ticket=1,
        tail=tail,
        tensors=tensors,
        results=tuple(slot.name for slot in model.outputs),
        max_result_bytes=1 << 28,
        preprocess=None,
        accepted_at=0.0,
        expires_at=math.inf,
    )
    return replace(made, **changes)


def run(made: Job, limits: Limits = LIMITS) -> Answer:
    return compute(made, SystemClock(), limits)


def good(answer: Answer) -> Mapping[str, NDArray[Any]]:
    assert isinstance(answer, Computed), answer
    return arrays(answer.tensors)


def bad(answer: Answer, code: FailureCode, *words: str) -> None:
    assert isinstance(answer, Failed), answer
    assert answer.code is code, answer
    for word in words:
        assert word in answer.text
    assert "\n" not in answer.text


def test_answer_holds_the_results() -> None:
    np.testing.assert_array_equal(good(run(job(doubling(), tensor(X))))["y"], X * 2)


def test_timings_are_those_of_the_parts() -> None:
    clock = FakeClock(10.0)

    def slowly(feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        clock.advance(0.25)
        return {"y": feeds["x"]}

    model = replace(doubling(), compute=slowly)
    answer = compute(job(model, tensor(X), accepted_at=9.5), clock, LIMITS)
    assert isinstance(answer, Computed)
    timings = answer.timings
    assert (timings.queue_ms, timings.inference_ms) == (500.0, 250.0)
    assert (timings.decode_ms, timings.encode_ms) == (0.0, 0.0)


def test_only_wanted_results_come_back_in_the_wanted_order() -> None:
    slots = tuple(TensorSlot(name, "float32", (1, 4)) for name in "abc")
    model = FakeModel(
        doubling().inputs,
        slots,
        lambda feeds: {name: feeds["x"] + index for index, name in enumerate("abc")},
    )
    found = good(run(job(model, tensor(X), results=("c", "a"))))
    assert list(found) == ["c", "a"]
    np.testing.assert_array_equal(found["c"], X + 2)


@pytest.mark.parametrize("codec", [RawCodec(), Float16Codec(), AffineCodec(8), AffineCodec(4)])
def test_every_tensor_codec_is_decoded(codec: Any) -> None:
    found = good(run(job(doubling(), encode_tensor("x", X, codec))))["y"]
    np.testing.assert_allclose(found, X * 2, atol=0.5)


def test_real_runtime_takes_what_was_decoded(tmp_path: Path) -> None:
    save_net(tmp_path / "net.onnx")
    session = OnnxRuntimeEngine(EngineOptions(threads=1)).load(tmp_path / "net.onnx")
    image = np.ones((1, 8), np.float32)
    made = job(doubling(), tensor(image, "image"), results=("answer",))
    found = good(run(replace(made, tail=Tail(KEY, session))))["answer"]
    expected = session.run({"image": image})["answer"]
    np.testing.assert_array_equal(found, expected)


class TestBadTensors:
    @pytest.mark.parametrize(
        ("sent", "words"),
        [
            ([tensor(X, "z")], ["'z'", "'x'"]),
            ([], ["[]", "'x'"]),
            ([tensor(X), tensor(X, "more")], ["'more'"]),
            ([tensor(X.astype(np.float64))], ["'x'", "float64[1, 4]", "float32[any, 4]"]),
            ([tensor(X.reshape(4))], ["float32[4]", "float32[any, 4]"]),
            ([tensor(X.reshape(4, 1))], ["float32[4, 1]", "float32[any, 4]"]),
            ([tensor(np.zeros((2, 2, 3), np.uint8))], ["uint8[2, 2, 3]"]),
        ],
    )
    def test_wrong_name_dtype_rank_or_axis(
        self, sent: list[EncodedTensor], words: list[str]
    ) -> None:
        made = job(doubling(), *sent)
        bad(run(made), FailureCode.BAD_TENSOR, *words)

    def test_free_axis_takes_any_length(self) -> None:
        assert good(run(job(doubling(), tensor(X.repeat(3, axis=0)))))["y"].shape == (3, 4)

    def test_damaged_payload(self) -> None:
        whole = tensor(X)
        damaged = replace(whole, payload=whole.payload[:-1])
        bad(run(job(doubling(), damaged)), FailureCode.BAD_TENSOR, "'x'")

    def test_tensor_above_the_limit_is_not_decoded(self) -> None:
        model = replace(doubling(), inputs=(TensorSlot("x", "float32", (None, None)),))
        big = EncodedTensor(TensorSpec("x", "float32", (1, 1 << 20)), RawCodec(), b"")
        limits = Limits(tensor_bytes=1 << 20)
        bad(run(job(model, big), limits), FailureCode.BAD_TENSOR, str(1 << 20))

    def test_input_of_undeclared_shape_takes_any_rank(self) -> None:
        # The runtime reports a scalar and a shape that was never declared alike.
        model = replace(doubling(), inputs=(TensorSlot("x", "float32", ()),))
        assert good(run(job(model, tensor(X))))["y"].shape == X.shape


class TestPictures:
    SLOT = TensorSlot("image", "float32", (1, 3, 16, 24))

    def model(self, slot: TensorSlot = SLOT) -> FakeModel:
        out = (replace(slot, name="y"),)
        return FakeModel((slot,), out, lambda feeds: {"y": feeds["image"]})

    @pytest.mark.parametrize("codec", [JpegCodec(90), RawCodec()])
    def test_pixels_are_normalised_as_declared(self, codec: Any) -> None:
        sent = encode_tensor("image", PIXELS, codec)
        received = codec.decode(sent.payload, sent.spec)
        found = good(run(job(self.model(), sent, preprocess=PREPROCESS)))["y"]
        np.testing.assert_array_equal(found, PREPROCESS.normalise(received))

    def test_pixels_of_another_size(self) -> None:
        sent = encode_tensor("image", PIXELS[:8], JpegCodec(90))
        answer = run(job(self.model(), sent, preprocess=PREPROCESS))
        bad(answer, FailureCode.BAD_TENSOR, "uint8[8, 24, 3]", "uint8[16, 24, 3]")

    def test_pixels_without_declared_preprocess(self) -> None:
        sent = encode_tensor("image", PIXELS, JpegCodec(90))
        bad(run(job(self.model(), sent)), FailureCode.BAD_TENSOR, "float32[1, 3, 16, 24]")

    def test_model_that_takes_pixels_gets_them_as_they_are(self) -> None:
        model = self.model(TensorSlot("image", "uint8", (16, 24, 3)))
        sent = encode_tensor("image", PIXELS, RawCodec())
        found = good(run(job(model, sent, preprocess=PREPROCESS)))["y"]
        np.testing.assert_array_equal(found, PIXELS)

    def test_declared_preprocess_for_another_input(self) -> None:
        model = self.model(TensorSlot("image", "float32", (1, 3, 32, 32)))
        sent = encode_tensor("image", PIXELS, RawCodec())
        answer = run(job(model, sent, preprocess=PREPROCESS))
        bad(answer, FailureCode.BAD_TENSOR, "image")

    def test_normalised_input_is_taken_too(self) -> None:
        values = PREPROCESS.normalise(PIXELS)
        made = job(self.model(), tensor(values, "image"), preprocess=PREPROCESS)
        np.testing.assert_array_equal(good(run(made))["y"], values)


class TestDeadline:
    def test_expired_work_is_not_decoded(self) -> None:
        garbage = replace(tensor(X), payload=b"never looked at")
        made = job(doubling(), garbage, expires_at=5.0)
        assert compute(made, FakeClock(5.0), LIMITS) is EXPIRED

    def test_work_that_expires_while_decoded_is_not_run(self) -> None:
        clock = FakeClock(0.0)

        class SlowCodec(RawCodec):
            def decode(self, payload: bytes | memoryview, spec: TensorSpec) -> NDArray[Any]:
                clock.advance(2.0)
                return super().decode(payload, spec)

        def never(feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            raise AssertionError("ran")

        made = job(
            replace(doubling(), compute=never),
            replace(tensor(X), codec=SlowCodec()),
            expires_at=1.0,
        )
        assert compute(made, clock, LIMITS) is EXPIRED

    def test_result_that_comes_too_late_is_not_encoded(self) -> None:
        clock = FakeClock(0.0)

        def slowly(feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            clock.advance(2.0)
            return {"y": np.array(["cannot be encoded"])}

        made = job(replace(doubling(), compute=slowly), tensor(X), expires_at=1.0)
        assert compute(made, clock, LIMITS) is EXPIRED


class TestFaults:
    def test_result_that_the_agent_does_not_take_is_not_encoded(self) -> None:
        zeros = np.broadcast_to(np.float32(0), (1, 1 << 20))
        model = replace(doubling(), compute=lambda _feeds: {"y": zeros})
        answer = run(job(model, tensor(X), max_result_bytes=1 << 20))
        bad(answer, FailureCode.TOO_LARGE, str(4 << 20), str(1 << 20))

    def test_exception_in_the_model(self) -> None:
        def fail(feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            raise RuntimeError("line one\nline two")

        answer = run(job(replace(doubling(), compute=fail), tensor(X)))
        bad(answer, FailureCode.INFERENCE_FAILED, "line one line two")

    def test_values_that_the_model_rejects(self) -> None:
        def reject(feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            raise RejectedError("Gather: index 9 is out of bounds" + "!" * 5000)

        answer = run(job(replace(doubling(), compute=reject), tensor(X)))
        bad(answer, FailureCode.REJECTED, "index 9")
        assert isinstance(answer, Failed)
        assert len(answer.text) <= 500

    def test_output_that_cannot_be_sent(self) -> None:
        model = replace(doubling(), compute=lambda _feeds: {"y": np.array(["text"])})
        bad(run(job(model, tensor(X))), FailureCode.INFERENCE_FAILED, "'y'")

    def test_missing_output(self) -> None:
        made = job(doubling(), tensor(X), results=("z",))
        bad(run(made), FailureCode.INFERENCE_FAILED)


@pytest.mark.parametrize(
    ("codec", "known"),
    [("raw", True), ("affine4", True), ("jpeg90", True), ("jpeg55", True), ("gif", False)],
)
def test_known_codecs(codec: str, known: bool) -> None:
    assert can_decode(codec) is known


def test_pictures_need_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert not can_decode("jpeg90")
    assert can_decode("raw")
