"""What the demo prints: one table, the labels, and what it makes of them. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demos.photos import Photo
from protocol.console import table

TOLERATED_ERROR = 0.15


@dataclass(frozen=True)
class Mode:
    """One way to run the network, with what the plan predicts for it.

    Attributes:
        title: For people.
        cut: The id of its cut in the bundle.
        latency_ms: Predicted, for one frame.
        uplink_bytes: Predicted, for one frame.
    """

    title: str
    cut: str
    latency_ms: float
    uplink_bytes: int


@dataclass(frozen=True)
class Measured:
    """A mode and the answers that it gave.

    Attributes:
        mode: The mode.
        answers: One JSON object an answer, as ``device-agent --jsonl`` writes them.
    """

    mode: Mode
    answers: Sequence[Mapping[str, Any]]

    @property
    def latency_ms(self) -> float:
        """Median over all answers."""
        return statistics.median(float(answer["latency_ms"]) for answer in self.answers)

    @property
    def uplink_bytes(self) -> float:
        """Median over all answers."""
        return statistics.median(float(answer["uplink_bytes"]) for answer in self.answers)

    @property
    def error(self) -> float:
        """How far the prediction is from the measurement, as a share of the measurement."""
        return self.mode.latency_ms / self.latency_ms - 1

    def labels(self) -> dict[str, set[str]]:
        """First guesses for each photo; more than one where answers differ."""
        found: dict[str, set[str]] = {}
        for answer in self.answers:
            found.setdefault(answer["source"], set()).add(answer["top5"][0]["label"])
        return found


def modes_of(plan: Mapping[str, Any]) -> list[Mode]:
    """Read the three modes from a plan's JSON: device-only, cloud-only and the best split."""
    baselines, split = plan["baselines"], plan["best_split"]
    found = [
        ("device-only", "device", baselines["device"]),
        ("cloud-only (JPEG)", "cloud", baselines["cloud"]),
    ]
    if split is not None:
        found.append(("best split", split["cut"], split["predicted"]))
    return [
        Mode(title, cut, predicted["latency_ms"], predicted["uplink_bytes"])
        for title, cut, predicted in found
    ]


def comparison(results: Sequence[Measured], photos: Mapping[str, Photo], chosen: str) -> str:
    """The table: predicted against measured.

    Args:
        results: The modes with their answers.
        photos: What they were asked about.
        chosen: The cut that the planner chose.
    """
    rows = [
        (
            result.mode.title + (" *" if result.mode.cut == chosen else ""),
            f"{result.mode.latency_ms:.1f}",
            f"{result.latency_ms:.1f}",
            f"{result.error:+.1%}",
            f"{result.mode.uplink_bytes}",
            f"{result.uplink_bytes:.0f}",
            f"{len(photos) - len(wrong_photos(result, photos))}/{len(photos)}",
        )
        for result in results
    ]
    headers = (
        "mode",
        "predicted ms",
        "measured ms",
        "error",
        "predicted bytes up",
        "measured bytes up",
        "right labels",
    )
    return table(rows, headers)


def label_table(results: Sequence[Measured], photos: Mapping[str, Photo]) -> str:
    """What each mode saw in each photo."""
    rows = []
    for name, photo in photos.items():
        seen = (", ".join(sorted(result.labels().get(name, {"-"}))) for result in results)
        rows.append((name, " or ".join(photo.right), *seen))
    return table(rows, ("photo", "right", *(result.mode.title for result in results)))


def wrong_photos(result: Measured, photos: Mapping[str, Photo]) -> list[str]:
    """Photos for which any first guess is wrong, or which have no answer."""
    labels = result.labels()
    return [
        name
        for name, photo in photos.items()
        if not labels.get(name) or labels[name] - {*photo.right}
    ]


def complaints(results: Sequence[Measured], photos: Mapping[str, Photo]) -> list[str]:
    """What must not be: wrong labels, and answers that were not computed where the mode says."""
    found = []
    for result in results:
        title = result.mode.title
        found += [f"{title}: wrong label for {name}" for name in wrong_photos(result, photos)]
        where = "device" if result.mode.cut == "device" else "cloud"
        astray = [answer for answer in result.answers if answer["computed_on"] != where]
        if astray:
            reasons = ", ".join(sorted({answer["reason"] for answer in astray}))
            found.append(f"{title}: {len(astray)} answers not from the {where} ({reasons})")
    return found


def verdict(results: Sequence[Measured]) -> str:
    """One sentence about the predictions."""
    far = [
        f"{result.mode.title} ({result.error:+.1%})"
        for result in results
        if abs(result.error) > TOLERATED_ERROR
    ]
    if not far:
        return f"All predictions are within {TOLERATED_ERROR:.0%} of the measurement."
    return (
        f"Further than {TOLERATED_ERROR:.0%} from the measurement: {', '.join(far)}. "
        "If the machine is busy with other things, run the demo again when it is not."
    )
