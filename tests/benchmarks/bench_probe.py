"""How exactly `--link probe:...` measures a link, and what that costs.

Method: the real worker and the link emulator before it, each in a process of its
own, at rates set for both directions and 20 ms round trip; this process probes. Each line is the
median of several goes; the worst error is the largest of both directions and all goes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from profiler.links.probe import ProbedLink, probe_link
from protocol.console import table

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "demos" / "models"
RATES_MBPS = (1, 5, 20, 50, 100, 200)
RTT_MS = 20
GOES = 5
HEADERS = ["Mbit/s", "up", "error", "down", "error", "worst", "rtt ms", "seconds", "kB"]

_WORKER = "import sys; from cloud_worker.cli import main; sys.exit(main())"


def run() -> None:
    """Print the table."""
    print(table([_row(mbps) for mbps in RATES_MBPS], HEADERS))


def _row(mbps: float) -> list[str]:
    probed = [_probe(mbps) for _ in range(GOES)]
    up, down = (
        [getattr(one.link, f"{way}_mbps") for one in probed] for way in ("uplink", "downlink")
    )
    return [
        f"{mbps:g}",
        f"{statistics.median(up):.1f}",
        f"{statistics.median(up) / mbps - 1:+.1%}",
        f"{statistics.median(down):.1f}",
        f"{statistics.median(down) / mbps - 1:+.1%}",
        f"{max(abs(rate / mbps - 1) for rate in (*up, *down)):.1%}",
        f"{statistics.median(one.link.rtt_ms for one in probed):.1f}",
        f"{statistics.median(one.seconds for one in probed):.2f}",
        f"{statistics.median(one.size_bytes for one in probed) / 1e3:.0f}",
    ]


def _probe(mbps: float) -> ProbedLink:
    """A worker of its own for each go: one that has just been probed would soon refuse."""
    serve = [sys.executable, "-c", _WORKER, "--models", str(MODELS), "--bind", "tcp://127.0.0.1:0"]
    with _process(serve) as line:
        emulate = [sys.executable, "-m", "protocol.emulator", "--to", line.split()[-1]]
        with _process([*emulate, "--rate", f"{mbps}mbps", "--rtt", str(RTT_MS)]) as ready:
            return probe_link(ready.split()[1])


@contextmanager
def _process(command: list[str]) -> Iterator[str]:
    """A process, and the line in which it says that it is ready."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline()
        process.terminate()


def main() -> None:
    """Run by hand."""
    run()


if __name__ == "__main__":
    main()
