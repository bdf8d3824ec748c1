"""The command ``device-agent``."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from device_agent._outputs import OutputFolder
from device_agent._sources import open_source
from device_agent._summary import Summary
from device_agent._timeline import open_timeline
from device_agent.agent import DEFAULT_DEADLINE_MS, Agent
from device_agent.errors import OptionError, UnansweredError
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.machine import available_threads, thread_count
from protocol import CommandParser, Progress, SystemClock, is_terminal, one_line, run_command
from protocol.command import whole_number
from splitter.bundle import open_bundle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from device_agent._timeline import Timeline
    from device_agent.answers import Answer, Unanswered

_STDOUT = "-"
_MOST_FRAMES = 10**9
_LONGEST_DEADLINE_MS = 3_600_000
_EPILOG = """\
latency_ms runs from the model's inputs being ready to its outputs being ready, and is the sum of
the parts beside it; reading, resizing and normalising the input is preprocess_ms, and not in it.
A frame that cannot be read or does not fit the model is named, counted and left out; the exit code
is then 2.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_run, arguments)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="device-agent",
        description="Run the head of a bundle here, the tail on a worker, and answer every frame.",
        epilog=_EPILOG,
    )
    parser.add_argument("bundle", help="a folder that split-plan -o has written")
    parser.add_argument("--worker", metavar="tcp://HOST:PORT", help="where cloud-worker listens")
    parser.add_argument(
        "--source",
        required=True,
        metavar="DIR|PICTURE|FILE.npz|bench",
        help="a folder of pictures, or one; a .npz file whose keys are the model's input names"
        " (__slash__ stands for /), one frame or frames along an extra first axis; or bench",
    )
    parser.add_argument(
        "--count",
        type=whole_number(1, _MOST_FRAMES),
        help="stop after so many frames, beginning again if there are fewer (bench: 50)",
    )
    parser.add_argument(
        "--jsonl",
        metavar="FILE",
        help="write one JSON line a frame; - is standard output, and the summary then goes to"
        " standard error",
    )
    parser.add_argument(
        "--chrome-trace",
        type=Path,
        metavar="FILE",
        help="write where each frame's time went, on device, link and cloud, as a time line for"
        " Perfetto or chrome://tracing",
    )
    parser.add_argument(
        "--outputs", metavar="DIR", help="save each frame's outputs there, one .npz file a frame"
    )
    parser.add_argument(
        "--cut", metavar="ID|device|cloud", help="a cut of the bundle (the plan's choice)"
    )
    parser.add_argument(
        "--threads",
        type=thread_count,
        help="threads for inference (as many as this process may use)",
    )
    parser.add_argument(
        "--deadline-ms",
        type=whole_number(1, _LONGEST_DEADLINE_MS),
        default=DEFAULT_DEADLINE_MS,
        help="answer each frame in this time, a quarter of which is kept for finishing it here"
        " (%(default)s)",
    )
    return parser


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    bundle = open_bundle(options.bundle)
    threads = available_threads() if options.threads is None else options.threads
    agent = Agent(
        bundle,
        worker=options.worker,
        cut=options.cut,
        deadline_ms=options.deadline_ms,
        engine=OnnxRuntimeEngine(EngineOptions(threads=threads)),
        notice=_warn,
    )
    source = open_source(
        options.source, bundle, count=options.count, clock=SystemClock(), notice=_warn
    )
    outputs = None if options.outputs is None else OutputFolder(Path(options.outputs))
    summary = Summary()
    try:
        with (
            _lines(options.jsonl) as lines,
            _timeline(options.chrome_trace) as timeline,
            agent,
            Progress("frames", source.length) as progress,
        ):
            for answer in agent.answers(source, partial(_write_line, lines)):
                if timeline is not None:
                    timeline.add(answer)
                summary.add(answer)
                if outputs is not None:
                    outputs.save(answer)
                _write_line(lines, answer)
                progress.advance(f"{answer.computed_on.value} {answer.times.latency_ms:.1f} ms")
    finally:
        # Whatever ended the run, what was done until then counts.
        if summary.frames:
            text = summary.text(agent.cut.id, source.skipped, agent.unanswered, agent.counters)
            print(text, file=sys.stderr if options.jsonl == _STDOUT else sys.stdout, flush=True)
    lost = source.skipped + agent.unanswered
    if lost:
        raise UnansweredError(
            f"{lost} of {lost + summary.frames} frames have no answer: {source.skipped} could not"
            f" be read, {agent.unanswered} do not fit the model; the warnings above name each"
        )
    return 0


def _lines(path: str | None) -> AbstractContextManager[TextIO | None]:
    """Open where the JSON lines go."""
    if path is None:
        return nullcontext()
    if path == _STDOUT:
        return nullcontext(sys.stdout)
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"cannot write --jsonl {path}: {error.strerror}") from error


def _timeline(path: Path | None) -> AbstractContextManager[Timeline | None]:
    """Open where the time line goes."""
    return nullcontext() if path is None else open_timeline(path, SystemClock())


def _write_line(lines: TextIO | None, what: Answer | Unanswered) -> None:
    if lines is not None:
        lines.write(json.dumps(what.to_dict(), allow_nan=False) + "\n")
        lines.flush()


def _warn(text: str) -> None:
    clear = "\r\x1b[K" if is_terminal(sys.stderr) else ""  # the progress line may stand there
    print(f"{clear}warning: {one_line(text)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
