"""Exit codes and messages of commands, seen as a user sees them: from outside the process."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from protocol import command
from protocol.command import CommandParser, run_command, whole_number
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

    def test_a_message_is_bounded(self):
        done = run("raise HeadtailError('x' * 100_000)")
        assert len(done.stderr) < 3000
        assert done.stderr.endswith("…\n")

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


class TestEndings:
    def test_terminated_like_interrupted(self):
        code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM); signal.pause()"
        done = run(code)
        assert (done.returncode, done.stdout, done.stderr) == (143, "", "")

    @pytest.mark.parametrize(("first", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
    def test_cleaning_up_is_not_broken_off_by_a_second_signal(self, first, code):
        done = run(
            f"""import os, signal
    try:
        os.kill(os.getpid(), signal.{first}); signal.pause()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        print("cleaned up")"""
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, "cleaned up\n", "")

    def test_what_is_ignored_stays_ignored(self):
        code = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        code += BODY.format(code="import os, signal; os.kill(os.getpid(), signal.SIGINT)")
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0

    def test_nothing_changes_for_the_caller(self):
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        assert run_command(lambda _: 0, []) == 0
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before

    def test_another_thread_may_run_a_command(self):
        codes = []
        thread = threading.Thread(target=lambda: codes.append(run_command(lambda _: 5, [])))
        thread.start()
        thread.join()
        assert codes == [5]


INTERRUPTING = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


class TestInterruptedImports:
    """A module that is imported interrupts the process, as a user does at that moment."""

    @pytest.mark.parametrize("module", ["zmq", "onnxruntime", "yaml"])
    @pytest.mark.parametrize("started", ["splitter.cli", "split-plan"])
    def test_end_at_once_without_a_traceback(self, tmp_path, module, started):
        (tmp_path / f"{module}.py").write_text(INTERRUPTING)
        script = tmp_path / "split-plan"
        script.write_text("import sys\nfrom splitter.command import main\nsys.exit(main())\n")
        words = [str(script)] if started == "split-plan" else ["-m", started]
        done = self.run(tmp_path, *words, "--help")
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")

    def test_the_emulator_too(self, tmp_path):
        (tmp_path / "zmq.py").write_text(INTERRUPTING)
        done = self.run(tmp_path, "-m", "protocol.emulator", "--help")
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")

    def test_other_programs_keep_their_own_way(self, tmp_path):
        (tmp_path / "zmq.py").write_text(INTERRUPTING)
        done = self.run(tmp_path, "-c", "import protocol")
        assert done.stderr.endswith("KeyboardInterrupt\n")

    def run(self, folder, *words):
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
            check=False,
        )


FULL = "error: cannot write all output: No space left on device\n"


class TestStreams:
    def shell(self, redirection, code="print('x' * 10)", *arguments, unbuffered=""):
        command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c"]
        return subprocess.run(
            [*command, BODY.format(code=code), *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )

    def test_closed_standard_output_is_refused_before_the_work(self):
        done = self.shell(">&-", "sys.stderr.write('worked')")
        assert done.returncode == 2
        assert done.stderr == (
            "error: standard output is closed; send it to a file or to /dev/null\n"
        )

    @pytest.mark.parametrize(
        ("code", "arguments"),
        [("print('x')", ()), ("print('x' * 1_000_000)", ()), ("", ("--help",))],
    )
    def test_a_full_disk_is_one_line(self, code, arguments):
        done = self.shell(">/dev/full", code, *arguments)
        assert done.returncode == 2
        assert done.stderr == FULL

    @pytest.mark.parametrize(("code", "arguments"), [("print('x')", ()), ("", ("--help",))])
    def test_a_full_disk_is_one_line_without_buffers_too(self, code, arguments):
        done = self.shell(">/dev/full", code, *arguments, unbuffered="1")
        assert (done.returncode, done.stderr) == (2, FULL)

    def test_a_mistake_is_told_though_the_disk_is_full(self):
        done = self.shell(">/dev/full", "print('x'); raise HeadtailError('no such model')")
        assert (done.returncode, done.stderr) == (2, "error: no such model\n")

    def test_the_help_has_no_reader(self):
        ours, theirs = os.pipe()
        os.close(ours)
        done = subprocess.run(
            [sys.executable, "-c", BODY.format(code=""), "--help"],
            stdout=theirs,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            check=False,
        )
        os.close(theirs)
        assert (done.returncode, done.stderr) == (141, b"")

    def test_without_standard_error_complaints_go_nowhere(self):
        done = self.shell("2>&-", "import os; os.write(2, b'native'); raise HeadtailError('x')")
        assert (done.returncode, done.stdout) == (2, "")

    def test_with_both_closed_the_code_still_tells(self):
        assert self.shell(">&- 2>&-").returncode == 2

    @pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
    def test_any_text_can_be_shown(self, encoding):
        done = run("print('b\\udcff ±')", PYTHONIOENCODING=encoding)
        assert done.returncode == 0
        assert done.stdout.startswith("b\\udcff ")


class TestWholeNumbers:
    def test_are_read(self):
        assert [whole_number(1, 20)(text) for text in ("1", "007", "20")] == [1, 7, 20]

    @pytest.mark.parametrize(
        "text", ["0", "21", "-3", "+3", "many", "", "3.0", "1e3", "٣", "9" * 20, "9" * 5000]
    )
    def test_others_are_refused_with_the_range(self, text):
        with pytest.raises(ArgumentTypeError, match="is not a whole number from 1 to 20") as caught:
            whole_number(1, 20)(text)
        assert len(str(caught.value)) < 100


class TestParser:
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--count", "many"], "argument --count: invalid int value: 'many'"),
            (["--nonsense"], "unrecognized arguments: --nonsense"),
            (["--count", "-5mbps"], "expected one argument, as --option=VALUE where the value b"),
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
        expected = r"unrecognized arguments: x; put a value with spaces .* \(see tool --help\)"
        with pytest.raises(UsageError, match=expected):
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
    assert signal.SIGINT + 128 == command.EXIT_INTERRUPTED == 130
    assert signal.SIGPIPE + 128 == command.EXIT_BROKEN_PIPE == 141


def missing(folder, content):
    """Start a command whose module lacks something."""
    (folder / "heavy.py").write_text(content)
    script = "import sys\nfrom protocol.command import extra_command\n"
    script += "sys.exit(extra_command('heavy', 'plan')([]))\n"
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        check=False,
    )


def test_a_missing_package_is_told_with_the_extra_that_brings_it(tmp_path):
    done = missing(tmp_path, "import surely_not_installed.below\n")
    assert done.returncode == 2
    assert done.stderr == (
        "error: this command needs the package 'surely_not_installed': "
        "run pip install '.[plan]' in the folder of headtail\n"
    )


def test_a_package_of_the_same_name_is_no_missing_package(tmp_path):
    (tmp_path / "profiler").mkdir()
    (tmp_path / "profiler" / "__init__.py").write_text("")
    done = missing(
        tmp_path, f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport profiler.cli\n"
    )
    assert done.returncode == 2
    assert "another package has the same name" in done.stderr
    assert str(tmp_path / "profiler" / "__init__.py") in done.stderr
    assert "pip install" not in done.stderr
