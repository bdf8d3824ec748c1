"""What users write of objectives, limits and rules, and what it means."""

from __future__ import annotations

import pytest

from splitter.errors import PlanError
from splitter.wishes import (
    Lack,
    Limit,
    Load,
    Objective,
    Pin,
    Wishes,
    parse_lack,
    parse_limit,
    parse_objectives,
    parse_pin,
)


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("latency", [{"latency_ms": 1.0}]),
        ("throughput", [{"period_ms": 1.0}, {"latency_ms": 1.0}]),
        ("energy , latency", [{"device_energy_mj": 1.0}, {"latency_ms": 1.0}]),
        ("latency_ms + 0.5*device_energy_mj", [{"latency_ms": 1.0, "device_energy_mj": 0.5}]),
        ("2 * cloud_ms+cloud_ms", [{"cloud_ms": 3.0}]),
        ("1e-3*uplink_bytes", [{"uplink_bytes": 1e-3}]),
    ],
)
def test_objectives(text: str, weights: list[dict[str, float]]) -> None:
    assert [objective.weights for objective in parse_objectives(text)] == weights


@pytest.mark.parametrize("short", ["latency", "throughput", "energy", "money"])
def test_short_names_come_back(short: str) -> None:
    assert Wishes(parse_objectives(short)).objective_text == short


def test_sums_come_back() -> None:
    text = "latency_ms + 0.5*device_energy_mj"
    assert Wishes(parse_objectives(f"{text}, cloud_ms")).objective_text == f"{text}, cloud_ms"
    assert str(Objective({"cloud_ms": 2.0})) == "2*cloud_ms"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not understood"),
        ("latency,", "is not understood"),
        ("latencyms", "did you mean 'latency_ms'"),
        ("-1*latency_ms", "'-1' is not a number above 0"),
        ("0*latency_ms", "'0' is not a number above 0"),
        ("nan*latency_ms", "'nan' is not a number above 0"),
        ("x*latency_ms", "'x' is not a number above 0"),
        ("period_ms + latency_ms", "period_ms cannot be added"),
        ("device_memory_mb", "can be limited, not minimised"),
        ("kl_nats", "can be limited, not minimised"),
        ("latency_ms - cloud_ms", "is not understood"),
    ],
)
def test_objectives_that_are_none(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message.replace("*", r"\*")):
        parse_objectives(text)


def test_limits() -> None:
    assert parse_limit("latency_ms<=100") == Limit("latency_ms", 100)
    assert parse_limit(" kl_nats <= 1e-2 ") == Limit("kl_nats", 0.01)
    assert parse_limit("fps>=10") == Limit("period_ms", 100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency_ms", "write latency_ms<=100"),
        ("latency_ms>=5", "write latency_ms<=5"),
        ("latency_ms<=100ms", "'100ms' is not a number above 0"),
        ("latency_ms<=inf", "'inf' is not a number above 0"),
        ("fps<=10", "write fps>=10"),
        ("energy<=5", "no metric 'energy'"),
        ("latency_ms<=1\n\x1b[31m", "latency_ms<=1"),
    ],
)
def test_limits_that_are_none(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        parse_limit(text)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_pins_and_lacks() -> None:
    assert parse_pin("a=b/conv=cloud") == Pin("a=b/conv", "cloud")
    assert parse_lack("device: Einsum, com.microsoft.Gelu") == Lack(
        "device", ("Einsum", "com.microsoft.Gelu")
    )
    for text in ("conv", "=cloud", "conv="):
        with pytest.raises(PlanError, match="is not NODE=TIER"):
            parse_pin(text)
    for text in ("device", ":Conv", "device:", "device: ,"):
        with pytest.raises(PlanError, match="is not TIER:OPERATOR"):
            parse_lack(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factor": 1.0}, "give 0 to below 1"),
        ({"factor": -0.1}, "give 0 to below 1"),
        ({"factor": float("nan")}, "give 0 to below 1"),
        ({"devices": 0, "fps": 1.0}, "give 1 or more"),
        ({"workers": 2}, "give --fps too"),
        ({"fps": 0.0}, "give a number above 0"),
    ],
)
def test_loads_that_are_none(changes: dict[str, float], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Load(**changes)  # type: ignore[arg-type]
