"""Rates as people write them."""

from __future__ import annotations

import pytest

from protocol.rates import HIGHEST_MBPS, LOWEST_MBPS, parse_mbps


@pytest.mark.parametrize(
    ("text", "mbps"),
    [
        ("20mbps", 20),
        ("500kbps", 0.5),
        ("1gbps", 1000),
        ("2.5 Mbps", 2.5),
        (".5mbps", 0.5),
        (" 1e3mbps ", 1000),
        ("0.1kbps", LOWEST_MBPS),
        ("1000gbps", HIGHEST_MBPS),
        ("0" * 500 + "20mbps", 20),
    ],
)
def test_are_read(text: str, mbps: float) -> None:
    assert parse_mbps(text) == pytest.approx(mbps)


@pytest.mark.parametrize("text", ["", "20", "mbps", "20mb", "20mbps/", "fast", "٢mbps", "0x2mbps"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no rate; write 20mbps"):
        parse_mbps(text)


@pytest.mark.parametrize(
    "text",
    [
        "0mbps", "-1mbps", "5e-324mbps", "1e308mbps", "1e999gbps", "nanmbps", "infmbps",
        f"{'9' * 400}mbps", f"0.{'0' * 400}1mbps",
    ],
)  # fmt: skip
def test_absurd_rates_are_refused_with_the_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"out of range; give 0\.1kbps to 1000gbps") as caught:
        parse_mbps(text)
    assert len(str(caught.value)) < 150
