from __future__ import annotations

import os
from pathlib import Path

import pytest

from protocol.emulator import BandwidthTrace, LinkSettingsError


@pytest.mark.parametrize(
    ("times_s", "mbps", "word"),
    [
        ((), (), "one rate for each time"),
        ((0, 1), (5,), "one rate for each time"),
        ((1, 2), (5, 5), "starts at 0"),
        ((0, 2, 2), (5, 5, 5), "must grow"),
        ((0, 1), (5, -1), "0 or more"),
        ((0, 1), (0, 0), "at least one above 0"),
        ((0, 1), (5, float("inf")), "finite"),
        ((0, 1), (5, 1e-300), "out of range"),
        ((0, 1), (5, 1e300), "out of range"),
        ((0, 1e300), (5, 5), "lasts 1e.09 s at most"),
        ((0, float("nan")), (5, 5), "must grow"),
    ],
)
def test_impossible_traces_are_refused(
    times_s: tuple[float, ...], mbps: tuple[float, ...], word: str
) -> None:
    with pytest.raises(LinkSettingsError, match=word):
        BandwidthTrace(times_s, mbps)


def test_the_last_step_lasts_as_long_as_the_one_before_it() -> None:
    assert BandwidthTrace((0, 1, 3), (5, 0, 2)).period_s == 5
    assert BandwidthTrace((0,), (5,)).period_s == 1


def test_time_can_be_pressed_together() -> None:
    trace = BandwidthTrace((0, 1, 3), (5, 0, 2)).faster(10)
    assert trace.times_s == (0, 0.1, 0.3)
    assert trace.mbps == (5, 0, 2)
    with pytest.raises(LinkSettingsError, match="above 0"):
        trace.faster(0)


def test_csv_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("t_s,mbps\n0.0,9.5\n0.5,0.0\n1.0,12\n")
    assert BandwidthTrace.from_csv(path) == BandwidthTrace((0, 0.5, 1), (9.5, 0, 12))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "first line is '', and must be t_s,mbps"),
        ("0,1\n", "first line is '0,1', and must be t_s,mbps"),
        ("t_s,mbps\n\n0,1\n,\n", "line 4: two numbers expected, found ','"),
        ("t_s,mbps\n0,1\n\n\n2,slow\n", "line 5"),
        ("t_s,mbps\n", "one rate for each time"),
        ("t_s,mbps\n0,fast\n", "line 2"),
        ("t_s,mbps\n0,1\n1\n", "line 3"),
        ("t_s,mbps\n3,1\n", "starts at 0"),
    ],
)
def test_broken_csv_is_named(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(LinkSettingsError, match=word) as caught:
        BandwidthTrace.from_csv(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "t_s,mbps\n0,5\n1,6\n\n\n",
        "t_s,mbps\n\n0,5\n  \n1,6",
        "\n\r\nt_s,mbps\r\n0,5\r\n\r\n1,6\r\n",
    ],
)
def test_blank_lines_are_passed_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode())
    assert BandwidthTrace.from_csv(path) == BandwidthTrace((0, 1), (5, 6))


def test_what_has_no_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(LinkSettingsError, match=r"cannot read the trace .* not a file"):
            BandwidthTrace.from_csv(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LinkSettingsError, match=r"nowhere\.csv"):
        BandwidthTrace.from_csv(tmp_path / "nowhere.csv")


def test_real_traces_are_read(shared: Path) -> None:
    paths = sorted((shared / "data" / "traces").glob("*.csv"))
    assert paths
    for path in paths:
        trace = BandwidthTrace.from_csv(path)
        assert trace.period_s > 1
        assert 0 < trace.peak_mbps < 1000


def test_a_mark_before_the_first_line_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("t_s,mbps\n0,5\n1, 6.5\n", encoding="utf-8-sig")
    assert BandwidthTrace.from_csv(path).mbps == (5, 6.5)


@pytest.mark.parametrize("number", ["1_000", "\u0661", "0x10", ""])
def test_numbers_are_plain(number: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"t_s,mbps\n0,{number}\n", encoding="utf-8")
    with pytest.raises(LinkSettingsError, match="line 2: two numbers expected"):
        BandwidthTrace.from_csv(path)
