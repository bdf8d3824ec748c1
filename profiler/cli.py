"""The command ``split-profile``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.engine import EngineOptions
from profiler.engines import ENGINES, make_torch_engine
from profiler.feed_arguments import add_feed_arguments, feeds_of
from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.weights import store_model
from profiler.machine import available_threads, thread_count
from profiler.measurement import MeasureOptions, measure_profile
from profiler.profile_file import check_target, write_profile
from profiler.profile_trace import write_profile_trace
from profiler.providers import provider_name
from profiler.report import profile_text
from profiler.timing import Schedule
from protocol.command import CommandParser, run_command, whole_number
from protocol.console import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_RUNS = 10_000


def run(arguments: Sequence[str] | None) -> int:
    """Run the command's body and return its exit code."""
    options = _parser().parse_args(arguments)
    if options.output:
        check_target(options.output)
    if options.chrome_trace:
        check_target(options.chrome_trace)
    threads = options.threads or available_threads()
    if options.engine == "torch":
        engine = EngineOptions(threads, options.provider)
        make_torch_engine(threads, options.provider)  # what is lacking is said before it takes time
    else:
        engine = EngineOptions(threads, provider_name(options.provider))
    loaded = load_model(options.model)
    feeds, real = feeds_of(options, loaded.graph.inputs)
    with (
        tempfile.TemporaryDirectory(prefix="headtail-") as folder,
        Progress("split-profile") as progress,
    ):
        progress.advance("loading")
        stored = store_model(loaded, Path(folder))
        progress.advance("trying the model out")
        observation = observe(stored, feeds)
        measure = MeasureOptions(engine, _schedule(options.runs), runtime=options.engine)
        profile = measure_profile(stored, observation, measure, progress.advance)
    if options.output:
        write_profile(profile, options.output)
    if options.chrome_trace:
        write_profile_trace(profile, options.chrome_trace)
    if options.json:
        print(json.dumps(profile.to_dict(), allow_nan=False))
        return 0
    print(profile_text(profile))
    if not real:
        print("Inputs were made up; codec speeds depend on real values: give --feed FILE.npz.")
    if options.output:
        print(f"written to {options.output}")
    if options.chrome_trace:
        print(f"time line written to {options.chrome_trace}")
    return 0


def _schedule(runs: int | None) -> Schedule:
    return Schedule() if runs is None else Schedule(least=runs, most=runs)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="split-profile",
        description="Measure what each layer of a model costs on this machine.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx file")
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        help="threads inside one operator (default: those this process may use)",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="what runs the model (default: %(default)s)",
    )
    parser.add_argument(
        "--provider",
        default="cpu",
        metavar="NAME",
        help="execution provider of ONNX Runtime, such as cpu, cuda, xnnpack; or torch's cpu or "
        "cuda (default: cpu)",
    )
    parser.add_argument(
        "--runs",
        type=whole_number(1, _MOST_RUNS),
        metavar="N",
        help="counted runs (default: 7 to 100, about 3 s)",
    )
    add_feed_arguments(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PROFILE.json", help="write the profile to a file"
    )
    parser.add_argument(
        "--chrome-trace",
        type=Path,
        metavar="FILE",
        help="write the layers of one run on a time line, for Perfetto or chrome://tracing",
    )
    parser.add_argument("--json", action="store_true", help="print the profile as JSON")
    return parser


if __name__ == "__main__":
    raise SystemExit(run_command(run))
