"""Trace files: what a link made of one says, and which files are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from profiler.errors import LinkError
from profiler.links.parsing import parse_link
from profiler.links.traced import TracedLink, read_trace
from protocol.emulator import BandwidthTrace

MBYTE = 1_000_000


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def link(*rates: float, rtt_ms: float = 0.0) -> TracedLink:
    times = tuple(float(second) for second in range(len(rates)))
    return TracedLink(BandwidthTrace(times, rates), rtt_ms, "t.csv")


def test_times_are_expectations_with_half_a_round_trip() -> None:
    half = link(8.0, 0.0, rtt_ms=30)
    time = half.uplink_time(MBYTE / 2)
    assert time.expected_ms == pytest.approx(1000 + 15)
    assert time.p50_ms == pytest.approx(1000 + 15)
    assert time.p95_ms == pytest.approx(1500 + 15)
    assert half.uplink_ms(MBYTE / 2) == time.expected_ms


def test_an_answer_does_not_wait_for_an_outage_again() -> None:
    """Its request has, and it follows within moments."""
    half = link(8.0, 0.0, rtt_ms=30)
    waiting_ms = half.uplink_ms(1) - 15
    assert waiting_ms == pytest.approx(250, abs=1)
    assert half.downlink_ms(1) == pytest.approx(15, abs=0.01)
    assert half.downlink_ms(100_000) == pytest.approx(half.uplink_ms(100_000) - waiting_ms, abs=0.1)
    assert half.uplink_ms(0) == 15


def test_the_effective_rate_is_what_more_bytes_cost_in_expectation() -> None:
    half = link(8.0, 0.0, rtt_ms=30)
    first, last = half.uplink_ms(1), half.uplink_ms(100_000)
    assert first == pytest.approx(500 / 2 + 15, rel=1e-3)  # half of the time is half an outage away
    assert half.uplink_mbps == pytest.approx((100_000 - 1) * 8e-3 / (last - first))
    assert half.uplink_mbps == half.downlink_mbps
    assert half.mean_mbps == 4
    assert half.outage_share == 0.5
    # Sums with this rate come close to the exact time, where the mean rate does not.
    for size_bytes in (20_000, 50_000, 200_000):
        sum_ms = first + size_bytes * 8e-3 / half.uplink_mbps
        assert sum_ms == pytest.approx(half.uplink_ms(size_bytes), rel=0.05)


def test_a_steady_trace_is_a_steady_link() -> None:
    steady = link(8.0, 8.0, 8.0)
    assert steady.uplink_mbps == pytest.approx(8)
    assert steady.uplink_time(1000).p95_ms == pytest.approx(1)


def test_it_says_where_it_comes_from_in_json() -> None:
    data = json.loads(json.dumps(link(8.0, 0.0, rtt_ms=30).to_dict(), allow_nan=False))
    assert set(data) == {"uplink_mbps", "downlink_mbps", "rtt_ms", "source", "trace"}
    assert data["source"].startswith(
        "trace t.csv: mean 4 Mbit/s over 2 s, outages 50%; the rate above"
    )
    assert data["trace"] == {
        "name": "t.csv",
        "steps": 2,
        "period_s": 2.0,
        "mean_mbps": 4.0,
        "outage_share": 0.5,
    }


def test_gaps_are_told_and_bridged(tmp_path: Path) -> None:
    path = write(tmp_path / "gap.csv", "t_s,mbps\n0,8\n1,16\n2,4\n60,4\n61,8\n")
    made = parse_link(str(path))
    assert any(
        "1 gap of more than 10 times" in note and "58 s at 2 s" in note for note in made.notes
    )
    assert not any("gap" in note for note in link(1.0, 2.0, 3.0).notes)


def test_one_line_is_a_rate_for_ever(tmp_path: Path) -> None:
    made = parse_link(str(write(tmp_path / "one.csv", "t_s,mbps\n0,8\n")))
    assert made.uplink_mbps == pytest.approx(8)
    assert any("one line" in note for note in made.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no trace: its first line is '', and must be t_s,mbps"),
        ("t_s,mbps\n", "0 times, 0 rates"),
        ("time,rate\n0,1\n", "first line is 'time,rate', and must be t_s,mbps"),
        ("t_s,mbps\n0,8\nhello,8\n", "line 3: two numbers expected, found 'hello,8'"),
        ("t_s,mbps\n0,8\n1\n", "line 3: two numbers expected"),
        ("t_s,mbps\n0,8\n2,8\n1,8\n", "trace times must grow: 1.0 s follows 2.0 s"),
        ("t_s,mbps\n0,8\n0,8\n", "trace times must grow"),
        ("t_s,mbps\n5,8\n6,8\n", "a trace starts at 0 s, not at 5.0 s"),
        ("t_s,mbps\n0,-1\n1,8\n", "rates must be 0 or more"),
        ("t_s,mbps\n0,nan\n1,8\n", "finite numbers only"),
        ("t_s,mbps\n0,inf\n1,8\n", "finite numbers only"),
        ("t_s,mbps\n0,0\n1,0\n", "at least one above 0"),
        ("t_s,mbps\n0,1e9\n1,0\n", "out of range"),
    ],
)
def test_a_bad_trace_is_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(LinkError, match=message) as caught:
        parse_link(str(path))
    assert "bad.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_text_or_have_no_end_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    pipe = tmp_path / "p.csv"
    os.mkfifo(pipe)
    for path in (binary, pipe, tmp_path, tmp_path / "none.csv", Path("/dev/zero")):
        with pytest.raises(LinkError, match="cannot read the trace"):
            read_trace(path)


def test_huge_files_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "huge.csv", "t_s,mbps\n0,1\n")
    os.truncate(path, 2 << 20)
    with pytest.raises(LinkError, match=r"2,097,152 bytes; the limit is 1,048,576, give a part"):
        read_trace(path)
    lines = "".join(f"{second},1\n" for second in range(20_001))
    with pytest.raises(LinkError, match="20,001 steps; the limit is 20,000"):
        read_trace(write(tmp_path / "long.csv", f"t_s,mbps\n{lines}"))


def test_every_shared_trace_is_a_link(shared: Path) -> None:
    paths = sorted((shared / "data" / "traces").glob("*.csv"))
    assert paths
    for path in paths:
        made = parse_link(f"{path},rtt=50ms")
        time = made.uplink_time(50_000)
        assert 25 < time.p50_ms <= time.p95_ms
        assert time.expected_ms > 25
        # Most bytes go in good moments, most waiting is done in bad ones.
        assert isinstance(made, TracedLink)
        assert made.uplink_mbps < made.mean_mbps
