"""``python -m protocol.emulator``: the emulated link in a process of its own."""

from __future__ import annotations

import contextlib
import resource
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from protocol.command import CommandParser, run_command
from protocol.emulator.link import EmulatedLink
from protocol.emulator.settings import LinkSettings, parse_rates
from protocol.emulator.trace import BandwidthTrace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_emulate, arguments)


def _emulate(arguments: Sequence[str] | None) -> int:
    parser = CommandParser(
        prog="python -m protocol.emulator",
        description="Stand between agents and a worker and behave like a slow, far link.",
    )
    parser.add_argument(
        "--to", required=True, metavar="ADDRESS", help="the worker, tcp://HOST:PORT"
    )
    parser.add_argument(
        "--listen",
        default="tcp://127.0.0.1:0",
        metavar="ADDRESS",
        help="where agents connect (default: %(default)s, a free port)",
    )
    parser.add_argument(
        "--rate", metavar="UP[/DOWN]", help="such as 20mbps or 20mbps/5mbps (default: unlimited)"
    )
    parser.add_argument("--rtt", type=float, default=0, metavar="MS", help="round-trip time")
    parser.add_argument("--jitter", type=float, default=0, metavar="MS", help="added or taken away")
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="CSV with the columns t_s,mbps; takes the place of the uplink rate, and repeats",
    )
    parser.add_argument(
        "--trace-speed", type=float, default=1, metavar="FACTOR", help="play the trace faster"
    )
    options = parser.parse_args(arguments)

    uplink: float | BandwidthTrace = float("inf")
    downlink = float("inf")
    if options.rate is not None:
        uplink, downlink = parse_rates(options.rate)
    if options.trace is not None:
        uplink = BandwidthTrace.from_csv(options.trace).faster(options.trace_speed)
    settings = LinkSettings(uplink, downlink, options.rtt, options.jitter)

    _allow_many_connections()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with EmulatedLink(options.to, settings, options.listen) as link:
        print(f"ready {link.address} -> {options.to}", flush=True)
        stop.wait()
    return 0


def _allow_many_connections() -> None:
    """Take as many descriptors as the system grants without asking; each connection needs two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # some systems say "unlimited" and mean less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
