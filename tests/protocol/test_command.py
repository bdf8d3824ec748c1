"""Exit codes and messages of commands, seen as a user sees them: from outside the process."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.command import CommandParser, run_command
from protocol.errors import HeadtailError, UsageError

ROOT = Path(__file__).resolve().parents[2]

BODY = """
import sys
from protocol.command import CommandParser, run_command
from protocol.errors import HeadtailError

def body(arguments):
    parser = CommandParser(prog="tool")
    parser.add_argument("--count", type=int)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("fly").add_argument("--height", required=True)
    options = parser.parse_args(arguments)
    {code}
    return 0

sys.exit(run_command(body))
"""


def run(code="", *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", BODY.format(code=code), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "HEADTAIL_DEBUG": "", **environment},
        check=False,
    )


class TestExitCodes:
    def test_done(self):
        done = run("print('fine')")
        assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")

    def test_the_code_of_the_body(self):
        assert run("return 7").returncode == 7

    def test_a_mistake_of_the_user_is_one_line(self):
        done = run("raise HeadtailError('no file\\n  named x\\x1b[31m')")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "error: no file named x [31m\n"

    def test_a_fault_is_one_line_with_a_hint(self):
        done = run("raise ValueError('broken\\ntwice')")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "fault: ValueError: broken twice (set HEADTAIL_DEBUG=1 for the traceback)\n"
        )

    def test_a_fault_without_text_is_named(self):
        assert run("raise MemoryError").stderr.startswith("fault: MemoryError (set HEADTAIL_DEBUG")

    def test_a_fault_shows_its_traceback_on_request(self):
        done = run("raise ValueError('broken')", HEADTAIL_DEBUG="1")
        assert done.returncode == 1
        assert "Traceback (most recent call last)" in done.stderr
        assert done.stderr.endswith("fault: ValueError: broken\n")

    def test_output_comes_before_the_complaint(self):
        merged = subprocess.run(
            [sys.executable, "-c", BODY.format(code="print('first'); raise HeadtailError('last')")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert merged.stdout == "first\nerror: last\n"

    def test_interrupted(self):
        done = run("import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()")
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

    @pytest.mark.parametrize("lines", [1, 100_000])
    def test_the_reader_went_away(self, lines):
        code = f"sys.stdin.read(); [print('x' * 80) for _ in range({lines})]"
        process = subprocess.Popen(
            [sys.executable, "-c", BODY.format(code=code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        process.stdout.close()
        _, complaint = process.communicate(b"")
        assert (process.returncode, complaint) == (141, b"")


class TestParser:
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--count", "many"], "argument --count: invalid int value: 'many'"),
            (["--nonsense"], "unrecognized arguments: --nonsense"),
            (["fly"], "the following arguments are required: --height"),
            (["swim"], "invalid choice: 'swim'"),
        ],
    )
    def test_complaints_are_one_line(self, arguments, complaint):
        done = run("", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
        assert complaint in done.stderr
        assert done.stderr.endswith("--help)\n")
        assert done.stderr.count("\n") == 1

    def test_help_is_no_mistake(self):
        done = run("", "--help")
        assert done.returncode == 0
        assert done.stdout.startswith("usage: tool")

    def test_without_run_command_a_complaint_is_an_error(self):
        with pytest.raises(UsageError, match=r"unrecognized arguments: x \(see tool --help\)"):
            CommandParser(prog="tool").parse_args(["x"])


def test_arguments_are_handed_on(capsys):
    def body(arguments):
        print(arguments)
        return 3

    assert run_command(body, ["a"]) == 3
    assert capsys.readouterr().out == "['a']\n"


def test_errors_are_told_on_standard_error(capsys):
    def body(arguments):
        raise HeadtailError("the thing is too large")

    assert run_command(body, []) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "error: the thing is too large\n")


CONSOLE = """
import sys
from protocol.console import Progress, paint, table
from protocol.testing import FakeClock
clock = FakeClock()
with Progress("frames", total=3, stream=sys.stdout, clock=clock) as progress:
    for note in ("a", "b", "c"):
        clock.advance(1)
        progress.advance(note)
print(paint("done", "green"))
print(table([["x", 1]], ["name", "n"]))
"""


def read_all(descriptor):
    chunks = []
    while True:
        try:
            chunk = os.read(descriptor, 4_096)
        except OSError:  # Linux says EIO when the other end of a terminal is closed
            break
        if not chunk:
            break
        chunks.append(chunk)
    return b"".join(chunks).decode()


def on_a_terminal(**environment):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CONSOLE],
        stdout=theirs,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment},
    )
    os.close(theirs)
    try:
        output = read_all(ours)
    finally:
        os.close(ours)
    assert process.wait() == 0
    return output


class TestConsole:
    def test_not_on_a_terminal_there_are_no_control_characters(self):
        done = subprocess.run(
            [sys.executable, "-c", CONSOLE], capture_output=True, text=True, cwd=ROOT, check=True
        )
        assert done.stdout == "done\nname  n\n----  -\nx     1\n"

    def test_on_a_terminal_progress_is_drawn_and_wiped(self):
        output = on_a_terminal()
        assert "\r\x1b[Kframes 1/3 a\r\x1b[Kframes 2/3 b\r\x1b[Kframes 3/3 c\r\x1b[K" in output
        assert "\x1b[32mdone\x1b[0m" in output

    def test_no_color_is_honoured(self):
        output = on_a_terminal(NO_COLOR="1")
        assert "\x1b[32m" not in output
        assert "frames 3/3 c" in output

    def test_a_dumb_terminal_gets_plain_text(self):
        assert "\x1b" not in on_a_terminal(TERM="dumb")


def test_signal_numbers_are_those_of_the_shell():
    from protocol import command

    assert signal.SIGINT + 128 == command.EXIT_INTERRUPTED == 130
    assert signal.SIGPIPE + 128 == command.EXIT_BROKEN_PIPE == 141


def test_a_missing_package_is_told_with_the_extra_that_brings_it(tmp_path):
    (tmp_path / "heavy.py").write_text("import surely_not_installed\n")
    script = "import sys\nfrom protocol.command import extra_command\n"
    script += "sys.exit(extra_command('heavy', 'plan')([]))\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: this command needs the package 'surely_not_installed': "
        "pip install 'headtail[plan]'\n"
    )
