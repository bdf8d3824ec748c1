"""What the worker says while it runs."""

from __future__ import annotations

import io

from cloud_worker._log import Log
from protocol.testing import FakeClock

WAIT_S = 30.0


def lines(log: Log, stream: io.StringIO) -> list[str]:
    log.close(WAIT_S)
    return stream.getvalue().splitlines()


def log(stream: io.StringIO, clock: FakeClock) -> Log:
    return Log(stream, clock, lambda: "12:00")


def test_lines_begin_with_the_time() -> None:
    stream = io.StringIO()
    writer = log(stream, FakeClock())
    writer("agent joined")
    assert lines(writer, stream) == ["12:00 agent joined"]


def test_time_of_day_is_that_of_the_machine() -> None:
    stream = io.StringIO()
    writer = Log(stream, FakeClock())
    writer("x")
    [line] = lines(writer, stream)
    assert line[4] == "-"
    assert line.endswith(" x")


def test_control_characters_of_peers_do_not_reach_the_terminal() -> None:
    stream = io.StringIO()
    writer = log(stream, FakeClock())
    writer("agent left: \x1b[2J\x07done\r\nfault: forged\u202e" + "x" * 1000)
    [line] = lines(writer, stream)
    assert line.isprintable()
    assert line.startswith("12:00 agent left: [2J done fault: forged x")
    assert len(line) < 320


def test_flood_is_left_out_and_counted() -> None:
    stream, clock = io.StringIO(), FakeClock()
    writer = log(stream, clock)
    for number in range(1000):
        writer(f"line {number}")
    clock.advance(2.0)
    for number in range(1000, 1010):
        writer(f"line {number}")
    written = lines(writer, stream)
    assert len(written) == 52
    assert written[49] == "12:00 line 49"
    assert written[50] == "12:00 line 1000 (950 lines before this one were left out)"
    assert written[51] == "12:00 line 1001"


def test_closed_stream_harms_nobody() -> None:
    stream = io.StringIO()
    stream.close()
    writer = log(stream, FakeClock())
    writer("x")
    writer.close(WAIT_S)
