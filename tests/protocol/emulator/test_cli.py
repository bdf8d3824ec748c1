from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.emulator.cli import main

ROOT = Path(__file__).resolve().parents[3]


def test_the_process_says_where_it_listens_and_ends_when_told(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("t_s,mbps\n0,100\n1,0\n2,50\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        command = [sys.executable, "-m", "protocol.emulator", "--to", f"tcp://{host}:{port}"]
        options = ["--rate", "100mbps/50mbps", "--rtt", "2", "--jitter", "1"]
        traced = ["--trace", str(trace), "--trace-speed", "100"]
        with subprocess.Popen(
            [*command, *options, *traced], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            word, address, *rest = process.stdout.readline().split()
            assert word == "ready"
            assert rest == ["->", f"tcp://{host}:{port}"]
            link_host, link_port = address.removeprefix("tcp://").split(":")
            with socket.create_connection((link_host, int(link_port)), timeout=20) as agent:
                agent.sendall(b"hello")
                worker, _ = server.accept()
                with worker:
                    assert worker.recv(5) == b"hello"
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "--to"),
        (["--to", "nowhere"], "nowhere"),
        (["--to", "tcp://127.0.0.1:1", "--rate", "fast"], "fast"),
        (["--to", "tcp://127.0.0.1:1", "--rtt", "-3"], "rtt_ms"),
        (["--to", "tcp://127.0.0.1:1", "--rate", "5e-324mbps"], "out of range"),
        (["--to", "tcp://127.0.0.1:1", "--rate", "1mbps/1e308mbps"], "out of range"),
        (["--to", "tcp://127.0.0.1:1", "--rtt", "1e308"], "rtt_ms"),
        (["--to", "tcp://127.0.0.1:1", "--jitter", "nan"], "jitter_ms"),
        (["--to", "tcp://127.0.0.1:1", "--trace", "/dev/zero"], "it is a device, not a file"),
        (["--to", "tcp://127.0.0.1:1", "--trace", "missing.csv"], "missing.csv"),
        (["--to", "tcp://127.0.0.1:1", "--listen", "tcp://127.0.0.1:99999"], "99999"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_exit_code_2(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("error: ")
    assert word in printed.err
