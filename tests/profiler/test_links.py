"""Links as people type them, and how long bytes take on them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.errors import LinkError
from profiler.links import Link, parse_link

RATES = st.floats(0.001, 1e6)


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("20mbps", Link(20, 20, 0)),
        ("20mbps/5mbps", Link(20, 5, 0)),
        ("20mbps,rtt=30ms", Link(20, 20, 30)),
        ("20mbps/5mbps,rtt=30ms", Link(20, 5, 30)),
        ("800kbps", Link(0.8, 0.8, 0)),
        ("1gbps/100mbps", Link(1000, 100, 0)),
        ("0.5Mbps", Link(0.5, 0.5, 0)),
        (".5mbps", Link(0.5, 0.5, 0)),
        ("1e3mbps", Link(1000, 1000, 0)),
        ("  20 MBPS / 5 kbps , RTT = 1.5 ms ", Link(20, 0.005, 1.5)),
        ("20mbps,rtt=0ms", Link(20, 20, 0)),
        ("20mbps\n", Link(20, 20, 0)),
    ],
)
def test_reads(text: str, link: Link) -> None:
    assert parse_link(text) == link


@pytest.mark.parametrize(
    "text",
    [
        "", "20", "mbps", "20mb", "20mbps/", "/20mbps", "20mbps/5", "20mbps,30ms", "20mbps,rtt=30",
        "20mbps,rtt=30s", "20mbps 5mbps", "20mbps/5mbps/1mbps", "fast", "20 m bps", "0x20mbps",
        "2,5mbps", "1.2.3mbps", "٢mbps",
    ],
)  # fmt: skip
def test_refuses_other_forms_and_shows_the_right_ones(text: str) -> None:
    with pytest.raises(LinkError, match=r"cannot read link .*write 20mbps, 20mbps/5mbps") as caught:
        parse_link(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0mbps", "the rate 0mbps is out of range; give 0.1kbps to 1000gbps"),
        ("-20mbps", "the rate -20mbps is out of range"),
        ("nanmbps", "the rate nanmbps is out of range"),
        ("1e308mbps", "the rate 1e308mbps is out of range"),
        ("5e-324mbps", "the rate 5e-324mbps is out of range"),
        ("20mbps/0mbps", "the rate 0mbps is out of range"),
        ("20mbps,rtt=-1ms", "rtt_ms is -1; it must be 0 to 3600000"),
        ("20mbps,rtt=1e308ms", "rtt_ms is 1e.308; it must be 0 to 3600000"),
        ("20mbps,rtt=infms", "'rtt=infms' is no round trip"),
    ],
)
def test_refuses_numbers_out_of_range(text: str, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        parse_link(text)


def test_a_link_made_in_code_keeps_to_the_same_range() -> None:
    for rates in ((0, 1), (1, 5e-324), (1e308, 1), (float("nan"), 1), (float("inf"), 1)):
        with pytest.raises(LinkError, match=r"link_mbps is .*; it must be 0\.0001 to 1e\+06"):
            Link(*rates)


def test_a_transfer_is_its_bits_and_half_the_round_trip() -> None:
    link = Link(uplink_mbps=20, downlink_mbps=5, rtt_ms=30)
    assert link.uplink_ms(25_000) == pytest.approx(10 + 15)
    assert link.downlink_ms(25_000) == pytest.approx(40 + 15)
    assert link.uplink_ms(0) + link.downlink_ms(0) == pytest.approx(30)


@given(RATES, RATES, st.floats(0, 1e5))
def test_survives_json(uplink: float, downlink: float, rtt: float) -> None:
    link = Link(uplink, downlink, rtt)
    assert Link.from_dict(link.to_dict()) == link


@given(st.text(max_size=30))
def test_any_text_is_a_link_or_a_link_error(text: str) -> None:
    try:
        link = parse_link(text)
    except LinkError:
        return
    assert link.uplink_mbps > 0
