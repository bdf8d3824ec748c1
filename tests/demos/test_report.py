from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from demos.photos import Photo
from demos.report import (
    Measured,
    Mode,
    comparison,
    complaints,
    label_table,
    modes_of,
    verdict,
    wrong_photos,
)

PHOTOS = {
    "cat.jpg": Photo(Path("cat.jpg"), ("tabby", "tiger cat")),
    "cup.jpg": Photo(Path("cup.jpg"), ("espresso",)),
}
CLOUD = Mode("cloud-only (JPEG)", "cloud", 30.0, 16_000)


def answer(source: str, label: str, latency_ms: float = 30, on: str = "cloud") -> dict[str, Any]:
    return {
        "source": source,
        "latency_ms": latency_ms,
        "uplink_bytes": 16_100,
        "computed_on": on,
        "reason": "planned" if on == "cloud" else "late",
        "top5": [{"label": label}, {"label": "other"}],
    }


def test_modes_come_from_the_plan() -> None:
    def numbers(latency_ms: float, size: int) -> dict[str, float]:
        return {"latency_ms": latency_ms, "uplink_bytes": size}

    plan = {
        "baselines": {"device": numbers(80, 0), "cloud": numbers(30, 16_000)},
        "best_split": {"cut": "cut-1", "predicted": numbers(50, 9_000)},
    }
    device, cloud, split = modes_of(plan)
    assert (device.cut, device.latency_ms, device.uplink_bytes) == ("device", 80, 0)
    assert cloud == CLOUD
    assert split == Mode("best split", "cut-1", 50, 9_000)
    assert len(modes_of({**plan, "best_split": None})) == 2


def test_the_table_compares_medians_and_marks_the_choice() -> None:
    answers = [answer("cat.jpg", "tabby", ms) for ms in (20, 25, 900)]
    result = Measured(CLOUD, [*answers, answer("cup.jpg", "teapot", 25)])
    assert result.error == pytest.approx(0.2)
    *_, row = comparison([result], PHOTOS, chosen="cloud").splitlines()
    assert " ".join(row.split()) == "cloud-only (JPEG) * 30.0 25.0 +20.0% 16000 16100 1/2"


def test_a_label_counts_as_right_only_if_every_answer_is() -> None:
    result = Measured(
        CLOUD,
        [
            answer("cat.jpg", "tabby"),
            answer("cat.jpg", "tiger cat"),
            answer("cup.jpg", "espresso"),
            answer("cup.jpg", "teapot"),
        ],
    )
    assert wrong_photos(result, PHOTOS) == ["cup.jpg"]
    assert wrong_photos(Measured(CLOUD, []), PHOTOS) == ["cat.jpg", "cup.jpg"]
    text = label_table([result], PHOTOS)
    assert "tabby or tiger cat" in text
    assert "espresso, teapot" in text


def test_wrong_labels_and_answers_from_elsewhere_are_complained_about() -> None:
    fine = [answer("cat.jpg", "tabby"), answer("cup.jpg", "espresso")]
    assert complaints([Measured(CLOUD, fine)], PHOTOS) == []
    bad = [answer("cat.jpg", "dog"), answer("cup.jpg", "espresso", on="device")]
    assert complaints([Measured(CLOUD, bad)], PHOTOS) == [
        "cloud-only (JPEG): wrong label for cat.jpg",
        "cloud-only (JPEG): 1 answers not from the cloud (late)",
    ]


def test_the_verdict_names_predictions_that_are_far_off() -> None:
    near = Measured(CLOUD, [answer("cat.jpg", "tabby", 29)])
    far = Measured(Mode("best split", "cut-1", 50, 1), [answer("cat.jpg", "tabby", 30)])
    assert verdict([near]) == "All predictions are within 15% of the measurement."
    assert "best split (+66.7%)" in verdict([near, far])
