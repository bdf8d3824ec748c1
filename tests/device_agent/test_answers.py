"""What a frame comes back as."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from device_agent.answers import Answer, AnswerTimes, ComputedOn, Guess, Reason, top_guesses


def answer(outputs: dict[str, Any], labels: tuple[str, ...] = ()) -> Answer:
    return Answer(
        frame=3,
        source="cat.jpg",
        computed_on=ComputedOn.CLOUD,
        reason=Reason.PLANNED,
        cut="c1",
        times=AnswerTimes.of(10.0, 2.0, device_ms=3.0, network_ms=6.5),
        uplink_bytes=1000,
        downlink_bytes=100,
        deadline_missed=False,
        outputs=outputs,
        labels=labels,
    )


def test_the_parts_and_the_overhead_add_up_to_the_latency() -> None:
    times = AnswerTimes.of(10.0, 2.0, device_ms=3.0, network_ms=6.5)
    assert times.overhead_ms == pytest.approx(0.5)
    assert times.preprocess_ms == 2.0
    assert times.wait_ms == 0.0


class TestGuesses:
    def test_logits_become_the_five_likeliest_labels(self) -> None:
        logits = np.array([[0, 3, 1, 2, -1, 0.5]], np.float32)
        guesses = top_guesses({"logits": logits}, ("a", "b", "c", "d", "e", "f"))
        assert guesses is not None
        assert [guess.label for guess in guesses] == ["b", "d", "c", "f", "a"]
        powers = np.exp(logits[0].astype(float))
        assert guesses[0].score == pytest.approx(powers[1] / powers.sum())

    def test_probabilities_stay_as_they_are(self) -> None:
        guesses = top_guesses({"p": np.array([[0.25, 0.75]], np.float32)}, ("a", "b"))
        assert guesses == (Guess("b", 1, 0.75), Guess("a", 0, 0.25))

    def test_equals_come_in_the_order_of_their_index(self) -> None:
        guesses = top_guesses({"p": np.full(4, 0.25, np.float16)}, ("a", "b", "c", "d"))
        assert guesses is not None
        assert [guess.index for guess in guesses] == [0, 1, 2, 3]

    @pytest.mark.parametrize("shape", [(6,), (1, 6), (1, 6, 1, 1)])
    def test_one_axis_is_enough(self, shape: tuple[int, ...]) -> None:
        assert top_guesses({"p": np.zeros(shape, np.float32)}, tuple("abcdef")) is not None

    @pytest.mark.parametrize(
        ("outputs", "labels"),
        [
            ({"a": np.zeros((1, 4), np.float32), "b": np.zeros(1, np.float32)}, ()),
            ({"a": np.zeros((2, 4), np.float32)}, ()),
            ({"a": np.zeros((1, 4), np.int64)}, ()),
            ({"a": np.zeros((1, 1), np.float32)}, ()),
            ({"a": np.zeros((), np.float32)}, ()),
            ({"a": np.zeros((1, 0), np.float32)}, ()),
            ({"a": np.zeros((1, 4), np.float32)}, ("x", "y")),
            ({"embedding": np.zeros((1, 4), np.float32)}, ()),
            ({"a": np.array([[0.0, np.nan]], np.float32)}, ("x", "y")),
            ({}, ()),
        ],
    )
    def test_what_is_no_classifier(self, outputs: dict[str, Any], labels: tuple[str, ...]) -> None:
        assert top_guesses(outputs, labels) is None

    @given(
        hnp.arrays(
            st.sampled_from([np.float16, np.float32, np.float64]),
            st.tuples(st.just(1), st.integers(2, 50)),
            elements=st.floats(-1e4, 1e4, width=16),
        )
    )
    def test_scores_are_probabilities_in_falling_order(self, values: Any) -> None:
        guesses = top_guesses({"logits": values}, tuple(map(str, range(values.size))))
        assert guesses is not None
        scores = [guess.score for guess in guesses]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert guesses[0].index == int(np.argmax(values))


class TestLines:
    def test_a_classifiers_line(self) -> None:
        line = answer({"p": np.array([[0.25, 0.75]], np.float32)}, ("cat", "dog")).to_dict()
        assert json.loads(json.dumps(line, allow_nan=False)) == line
        assert line == {
            "frame": 3,
            "source": "cat.jpg",
            "computed_on": "cloud",
            "reason": "planned",
            "cut": "c1",
            "latency_ms": 10.0,
            "device_ms": 3.0,
            "encode_ms": 0.0,
            "network_ms": 6.5,
            "queue_ms": 0.0,
            "decode_ms": 0.0,
            "cloud_ms": 0.0,
            "cloud_encode_ms": 0.0,
            "wait_ms": 0.0,
            "finish_ms": 0.0,
            "overhead_ms": 0.5,
            "preprocess_ms": 2.0,
            "uplink_bytes": 1000,
            "downlink_bytes": 100,
            "deadline_missed": False,
            "top5": [
                {"label": "dog", "index": 1, "score": 0.75},
                {"label": "cat", "index": 0, "score": 0.25},
            ],
        }

    def test_other_outputs_are_digests(self) -> None:
        boxes = np.arange(12, dtype=np.float32).reshape(3, 4)
        line = answer({"boxes": boxes.T, "count": np.array(7)}).to_dict()
        assert "top5" not in line
        assert line["outputs"] == [
            {
                "name": "boxes",
                "dtype": "float32",
                "shape": [4, 3],
                "sha256": hashlib.sha256(boxes.T.tobytes()).hexdigest(),
            },
            {
                "name": "count",
                "dtype": "int64",
                "shape": [],
                "sha256": hashlib.sha256(np.array(7).tobytes()).hexdigest(),
            },
        ]

    def test_not_a_number_stays_out_of_the_json(self) -> None:
        line = answer({"p": np.array([[np.nan, np.inf]], np.float32)}).to_dict()
        json.dumps(line, allow_nan=False)
        assert line["outputs"][0]["name"] == "p"
