"""The command ``cloud-worker``."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING

from cloud_worker._log import Log
from cloud_worker._repository import read_folder
from cloud_worker._server import Worker
from cloud_worker._settings import WorkerSettings
from profiler.engines import ENGINES, make_engine
from profiler.machine import available_threads
from protocol import CommandParser, SystemClock, one_line, run_command

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIB = 1 << 20
# While a tail is cut in Python on another thread, a thread that wakes waits up to so long for its
# turn. Beside such a thread the slowest tenth of frames took 10 ms and more at the default of 5 ms,
# and 5 to 6 ms at this; without one there is no difference to be measured.
_SWITCH_INTERVAL_S = 0.0005
_LOG_CLOSE_S = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_run, arguments)


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    settings = WorkerSettings(
        name=options.name,
        credit_bytes=options.credit_mb * _MIB,
        run_limit_ms=options.run_limit_s * 1000,
    )
    # Shapes may vary from request to request, and an arena keeps the memory of the largest: after
    # one request for 2.4 GB it held them until the session was closed. Without one, a classifier
    # whose shapes stay the same was as fast as with it.
    threads = options.threads or available_threads()
    engine = make_engine(options.engine, threads, options.provider, arena=False)
    content = read_folder(options.models)
    for problem in content.problems:
        _say(f"not served: {problem}")
    _take_all_descriptors()
    log = Log(sys.stderr, SystemClock())
    worker = Worker(content.models, engine, bind=options.bind, settings=settings, log=log)
    if not _is_local(worker.address):
        _say(
            f"warning: {worker.address} can be reached from other machines, and the traffic is "
            "neither encrypted nor authenticated yet; use it on networks that you trust"
        )
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    _stop_on_signals(worker)
    with worker:
        count = len(content.models.entries())
        print(f"serving {count} model{'s' * (count != 1)} on {worker.address}", flush=True)
        worker.join()
    log.close(_LOG_CLOSE_S)
    return 0


def _parser() -> CommandParser:
    defaults = WorkerSettings()
    parser = CommandParser(
        prog="cloud-worker", description="Serve any cut of any model in a folder."
    )
    parser.add_argument(
        "--models",
        type=Path,
        required=True,
        metavar="PATH",
        help="folder of .onnx models and bundles, or one model",
    )
    parser.add_argument(
        "--bind",
        default="tcp://127.0.0.1:5555",
        metavar="ADDRESS",
        help="address to serve on; port 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=_count,
        metavar="N",
        help="threads for inference (default: those this process may use)",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="what runs the tails; a tail whose operators torch lacks is refused by name "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--provider",
        default="cpu",
        metavar="NAME",
        help="execution provider of ONNX Runtime, such as cpu or cuda, or torch's cpu or cuda "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--name",
        default=defaults.name,
        help="what the worker calls itself to agents (default: %(default)s)",
    )
    parser.add_argument(
        "--credit-mb",
        type=_count,
        default=defaults.credit_bytes // _MIB,
        metavar="N",
        help="MiB that one agent may have unanswered, and largest request, also once decoded "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--run-limit-s",
        type=_count,
        default=defaults.run_limit_ms // 1000,
        metavar="N",
        help="seconds after which a request is given up, whatever its deadline "
        "(default: %(default)s)",
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _take_all_descriptors() -> None:
    """Raise the soft limit of file descriptors, of which each connection takes one.

    At the limit, ZeroMQ's thread tries to accept a connection again and again, without a pause.
    """
    try:
        import resource
    except ImportError:
        return  # not on this system
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _stop_on_signals(worker: Worker) -> None:
    def stop(_number: int, _frame: object) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)  # the second one ends the process at once
        worker.stop()

    for number in _SIGNALS:
        signal.signal(number, stop)


def _is_local(address: str) -> bool:
    transport, _, place = address.partition("://")
    if transport != "tcp":
        return True
    try:
        return ipaddress.ip_address(place.rpartition(":")[0].strip("[]")).is_loopback
    except ValueError:
        return False


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
