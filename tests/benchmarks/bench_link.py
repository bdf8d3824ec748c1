"""How exact the link emulator is: rate, time of one message, processor time.

Method: the emulator runs in a process of its own (`python -m protocol.emulator`); this process is
both ends. A message is timed from its send to its last byte, with idle time before it; the stream
is timed from its first to its last byte at the receiver. The median of several goes each.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol.console import table

ROOT = Path(__file__).resolve().parents[2]
HEADERS = [
    "Mbit/s",
    "rtt ms",
    "message kB",
    "ideal ms",
    "late ms",
    "latest ms",
    "stream Mbit/s",
    "error",
    "CPU while streaming",
]
MESSAGES = 15
STREAMS = 3
IDLE_S = 0.01

# Mbit/s, round trip in ms, bytes of a message
LINKS = [
    (1, 30, 2_000),
    (5, 30, 20_000),
    (20, 10, 20_000),
    (20, 10, 200_000),
    (100, 10, 100_000),
    (200, 10, 100_000),
]


def run() -> None:
    """Print the table."""
    rows = [_row(mbps, rtt_ms, size) for mbps, rtt_ms, size in LINKS]
    print(table(rows, HEADERS))


def _row(mbps: float, rtt_ms: float, size: int) -> list[str]:
    with _emulated(mbps, rtt_ms) as (sender, receiver, processor_s):
        times_ms = [_message_ms(sender, receiver, size) for _ in range(MESSAGES)]
        before_s, start_s = processor_s(), time.monotonic()
        total = int(mbps * 125_000)
        rates = [_stream_mbps(sender, receiver, total) for _ in range(STREAMS)]
        share = (processor_s() - before_s) / (time.monotonic() - start_s)
    ideal_ms = size * 8 / mbps / 1000 + rtt_ms / 2
    late_ms = [time_ms - ideal_ms for time_ms in times_ms]
    rate = statistics.median(rates)
    return [
        f"{mbps}",
        f"{rtt_ms}",
        f"{size / 1000:.0f}",
        f"{ideal_ms:.2f}",
        f"{statistics.median(late_ms):.2f}",
        f"{max(late_ms):.2f}",
        f"{rate:.2f}",
        f"{rate / mbps - 1:+.1%}",
        f"{share:.1%}",
    ]


@contextmanager
def _emulated(mbps: float, rtt_ms: float) -> Iterator[tuple]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-m", "protocol.emulator", "--rtt", str(rtt_ms)]
        command += ["--to", f"tcp://127.0.0.1:{server.getsockname()[1]}", "--rate", f"{mbps}mbps"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            host, port = process.stdout.readline().split()[1].removeprefix("tcp://").split(":")
            with socket.create_connection((host, int(port))) as sender, server.accept()[0] as end:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                yield sender, end, lambda: _processor_s(process.pid)
            process.terminate()


def _processor_s(pid: int) -> float:
    """Seconds of processor time a process has used; /proc counts them in hundredths."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _message_ms(sender: socket.socket, receiver: socket.socket, size: int) -> float:
    time.sleep(IDLE_S)
    start_s = time.monotonic()
    sender.sendall(bytes(size))
    _receive(receiver, size)
    return (time.monotonic() - start_s) * 1000


def _stream_mbps(sender: socket.socket, receiver: socket.socket, size: int) -> float:
    thread = threading.Thread(target=sender.sendall, args=(bytes(size),))
    thread.start()
    first = len(receiver.recv(65_536))
    start_s = time.monotonic()
    _receive(receiver, size - first)
    elapsed_s = time.monotonic() - start_s
    thread.join()
    return (size - first) * 8 / elapsed_s / 1e6


def _receive(receiver: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(receiver.recv(65_536))


def main() -> None:
    """Run by hand."""
    run()


if __name__ == "__main__":
    main()
