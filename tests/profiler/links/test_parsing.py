"""Links as people type them, and links of constant rates."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.errors import LinkError
from profiler.links import SteadyLink, TransferTime
from profiler.links.parsing import parse_link

RATES = st.floats(0.001, 1e6)


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("20mbps", SteadyLink(20, 20, 0)),
        ("20mbps/5mbps", SteadyLink(20, 5, 0)),
        ("20mbps,rtt=30ms", SteadyLink(20, 20, 30)),
        ("20mbps/5mbps,rtt=30ms", SteadyLink(20, 5, 30)),
        ("800kbps", SteadyLink(0.8, 0.8, 0)),
        ("1gbps/100mbps", SteadyLink(1000, 100, 0)),
        ("0.5Mbps", SteadyLink(0.5, 0.5, 0)),
        (".5mbps", SteadyLink(0.5, 0.5, 0)),
        ("1e3mbps", SteadyLink(1000, 1000, 0)),
        ("  20 MBPS / 5 kbps , RTT = 1.5 ms ", SteadyLink(20, 0.005, 1.5)),
        ("20mbps,rtt=0ms", SteadyLink(20, 20, 0)),
        ("20mbps\n", SteadyLink(20, 20, 0)),
    ],
)
def test_reads(text: str, link: SteadyLink) -> None:
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


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("-5mbps", "5mbps"),
        ("20mb", "20mbps"),
        ("20", "20mbps"),
        ("20 Mbit/s", "20mbps"),
        ("2.5mb/s", "2.5mbps"),
        ("20mb/5mb", "20mbps/5mbps"),
        ("20mbps,30ms", "20mbps,rtt=30ms"),
        ("20mbps,rtt=30", "20mbps,rtt=30ms"),
        ("20mbps,rtt=0.5s", "20mbps,rtt=500ms"),
        ("20mbps rtt 30", "20mbps,rtt=30ms"),
        ("20mbps/5mbps;30ms", "20mbps/5mbps,rtt=30ms"),
        ("lte,30ms", "lte,rtt=30ms"),
        ("LTE rtt=30", "lte,rtt=30ms"),
    ],
)
def test_the_right_spelling_is_named(text: str, near: str) -> None:
    assert parse_link(near).uplink_mbps > 0
    with pytest.raises(LinkError, match=rf"cannot read link .* \(did you mean '{near}'\?\): "):
        parse_link(text)


@pytest.mark.parametrize("text", ["2,5mbps", "fast", "1/2/3", "no.csv", "0mbps", "20mbps 5mbps"])
def test_no_spelling_is_made_up(text: str) -> None:
    with pytest.raises(LinkError) as caught:
        parse_link(text)
    assert f"cannot read link {text!r} (did you mean" not in str(caught.value)


def test_a_link_made_in_code_keeps_to_the_same_range() -> None:
    for rates in ((0, 1), (1, 5e-324), (1e308, 1), (float("nan"), 1), (float("inf"), 1)):
        with pytest.raises(LinkError, match=r"link_mbps is .*; it must be 0\.0001 to 1e\+06"):
            SteadyLink(*rates)


def test_a_transfer_is_its_bits_and_half_the_round_trip() -> None:
    link = SteadyLink(uplink_mbps=20, downlink_mbps=5, rtt_ms=30)
    assert link.uplink_ms(25_000) == pytest.approx(10 + 15)
    assert link.downlink_ms(25_000) == pytest.approx(40 + 15)
    assert link.uplink_ms(0) + link.downlink_ms(0) == pytest.approx(30)


@given(RATES, RATES, st.floats(0, 1e5))
def test_survives_json(uplink: float, downlink: float, rtt: float) -> None:
    link = SteadyLink(uplink, downlink, rtt)
    assert SteadyLink.from_dict(link.to_dict()) == link
    preset = SteadyLink(uplink, downlink, rtt, "preset x", "lte")
    assert SteadyLink.from_dict(preset.to_dict()) == preset


def test_a_link_that_was_typed_has_rates_and_nothing_else() -> None:
    assert parse_link("20mbps").to_dict() == {"uplink_mbps": 20, "downlink_mbps": 20, "rtt_ms": 0}


def test_a_steady_link_takes_the_same_time_at_every_moment() -> None:
    link = SteadyLink(8, 8, 10)
    assert link.uplink_time(1000) == TransferTime(6, 6, 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ltee", r"no link preset 'ltee' \(did you mean 'lte'\?\); presets: 2g, 3g, .*wifi"),
        ("lte,rtt=5s", "'rtt=5s' is no round trip"),
        ("lte,rtt=-5ms", "rtt_ms is -5; it must be 0 to"),
        ("lte,5ms", "no link preset 'lte,5ms'"),
        ("lte,rtt=1ms,rtt=2ms", "is no round trip"),
    ],
)
def test_a_wrong_name_or_round_trip_is_told_with_the_right_forms(text: str, message: str) -> None:
    with pytest.raises(LinkError, match=rf"cannot read link .*{message}.*; write 20mbps"):
        parse_link(text)


@pytest.mark.parametrize(
    "text", ["no.csv", "./20mbps.csv", "traces/none", "..", "a\0.csv", "x" * 300 + ".csv", "2.5"]
)
def test_anything_else_with_a_dot_or_a_slash_names_a_trace(text: str) -> None:
    with pytest.raises(LinkError, match=r"trace .*") as caught:
        parse_link(text)
    assert "\n" not in str(caught.value)


def test_a_trace_takes_a_round_trip_and_a_name_with_commas(tmp_path: Path) -> None:
    path = tmp_path / "a,b.csv"
    path.write_text("t_s,mbps\n0,8\n1,8\n")
    assert parse_link(str(path)).rtt_ms == 0
    link = parse_link(f"{path}, RTT = 30 ms")
    assert link.rtt_ms == 30
    assert link.uplink_ms(1000) == pytest.approx(1 + 15)


@given(st.text(max_size=30))
def test_any_text_is_a_link_or_a_link_error(text: str) -> None:
    try:
        link = parse_link(text)
    except LinkError:
        return
    assert link.uplink_mbps > 0
