"""The emulated device's process: an agent whose models run several times slower.

``python -m demos.device BUNDLE --cut ID --factor F --threads N --photos DIR --count N`` and, where
the cut needs one, ``--worker ADDRESS``. Prints one JSON line an answer, as ``device-agent`` does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from demos.profiles import IDLE_MS
from demos.slowed_engine import SlowedEngine
from device_agent import Agent, Frame, Patience, open_source
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from protocol.command import CommandParser, run_command
from splitter.bundle import open_bundle

# The first frame waits until the worker has loaded its tail, so that no frame is answered here.
_PATIENCE = Patience()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the process and return its exit code."""
    return run_command(_run, arguments)


def _run(arguments: Sequence[str] | None) -> int:
    parser = CommandParser(prog="python -m demos.device")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--cut", required=True)
    parser.add_argument("--factor", type=float, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--worker")
    options = parser.parse_args(arguments)

    bundle = open_bundle(options.bundle)
    engine = OnnxRuntimeEngine(EngineOptions(threads=options.threads))
    agent = Agent(
        bundle,
        worker=options.worker,
        cut=options.cut,
        engine=SlowedEngine(engine, options.factor),
        patience=_PATIENCE,
        notice=lambda text: print(f"warning: {text}", file=sys.stderr, flush=True),
    )
    with agent:
        source = open_source(str(options.photos), bundle, count=options.count)
        for answer in agent.answers(_paced(source)):
            print(json.dumps(answer.to_dict()), flush=True)
    return 0


def _paced(source: Iterable[Frame]) -> Iterator[Frame]:
    """Give each frame after a pause, as a camera does; a frame's time starts behind it."""
    for frame in source:
        time.sleep(IDLE_MS / 1000)
        yield frame


if __name__ == "__main__":
    sys.exit(main())
