from __future__ import annotations

import io

import pytest

from protocol.console import Progress, is_terminal, paint, table
from protocol.testing import FakeClock


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)


class TestTable:
    def test_numbers_stand_right_and_texts_left(self):
        text = table(
            [["device", "12.5", "-"], ["cloud, JPEG", 7, "1,024 B"], ["split", "~130 ms", "3.1x"]],
            ["mode", "latency", "bytes"],
        )
        assert text.splitlines() == [
            "mode         latency    bytes",
            "-----------  -------  -------",
            "device          12.5        -",
            "cloud, JPEG        7  1,024 B",
            "split        ~130 ms     3.1x",
        ]

    def test_no_rows_leave_the_headers(self):
        assert table([], ["a", "bc"]) == "a  bc\n-  --"

    def test_cells_cannot_steer_the_terminal(self):
        assert "\x1b" not in table([["a\x1b[2J\nb"]], ["x"])
        assert len(table([["a\nb"]], ["x"]).splitlines()) == 3

    def test_rows_of_another_length_are_refused(self):
        with pytest.raises(ValueError, match="argument"):
            table([["a", "b"]], ["x"])


class TestPaint:
    def test_only_on_terminals(self):
        assert paint("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
        assert paint("x", "red", io.StringIO()) == "x"

    def test_not_with_no_color(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        assert paint("x", "red", Terminal()) == "x"

    def test_not_on_a_dumb_terminal(self, monkeypatch):
        monkeypatch.setenv("TERM", "dumb")
        assert paint("x", "red", Terminal()) == "x"
        assert not is_terminal(Terminal())


class TestProgress:
    def test_not_on_a_terminal_nothing_is_written(self):
        stream = io.StringIO()
        with Progress("frames", 2, stream, FakeClock()) as progress:
            progress.advance()
            progress.advance()
        assert stream.getvalue() == ""

    def test_it_redraws_ten_times_a_second_and_at_the_end(self):
        stream, clock = Terminal(), FakeClock()
        with Progress("frames", 100, stream, clock) as progress:
            for _ in range(100):
                progress.advance()
                clock.advance(0.01)
        drawn = stream.getvalue().split("\r\x1b[K")
        assert drawn[0] == drawn[-1] == ""
        assert drawn[1] == "frames 1/100"
        assert drawn[-2] == "frames 100/100"
        assert 10 <= len(drawn) <= 14

    def test_without_a_total_it_only_counts(self):
        stream = Terminal()
        with Progress("frames", stream=stream, clock=FakeClock()) as progress:
            progress.advance("local")
        assert stream.getvalue() == "\r\x1b[Kframes 1 local\r\x1b[K"

    def test_it_stays_on_one_line(self):
        stream = Terminal()
        with Progress("frames", stream=stream, clock=FakeClock()) as progress:
            progress.advance("a\nb" + "c" * 100)
        assert stream.getvalue().split("\r\x1b[K")[1] == "frames 1 a b" + "c" * 17
        assert "\n" not in stream.getvalue()
