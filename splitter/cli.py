"""The command ``split-plan``."""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from profiler.graph.model import load_model
from profiler.profile_file import check_target
from protocol.command import run_command
from protocol.console import Progress
from protocol.files import replace_file
from protocol.text import quoted
from splitter.cuts import CutSpace
from splitter.errors import PlanError
from splitter.explanation import Explanation, plan_content
from splitter.explanation_text import explanation_text
from splitter.options import parse_options, request_of
from splitter.page import plan_page
from splitter.plans import Plan
from splitter.report import plan_text
from splitter.request import Planning
from splitter.workspace import bundle_workspace


@dataclass(frozen=True)
class _Results:
    """What was found.

    Attributes:
        plan: The decision.
        explanation: Why, if that was asked for.
        apart: How far the parts of each bundled split are from the whole.
        space: The graph that was planned.
    """

    plan: Plan
    explanation: Explanation | None
    apart: dict[str, float]
    space: CutSpace


def run(arguments: Sequence[str] | None) -> int:
    """Run the command's body and return its exit code."""
    options = parse_options(arguments)
    if options.report:
        check_target(options.report)
    with Progress("split-plan") as progress, _workspace(options.output) as folder:
        results = _results(options, folder, progress.advance)
    plan, explanation = results.plan, results.explanation
    if options.report:
        _write_page(plan_page(plan, results.space, explanation), options.report)
    if options.json:
        print(json.dumps(plan_content(plan, explanation), allow_nan=False))
        return 0
    print(plan_text(plan))
    if explanation is not None:
        print(f"\n{explanation_text(plan, explanation)}")
    if options.output:
        runs = "" if options.cut is None else f"; it runs {options.cut}"
        print(f"\nBundle written to {options.output}{runs}.")
        for cut, distance in results.apart.items():
            print(f"Head and tail of {cut}, without codec, are {distance:.1e} off the whole model.")
    if options.report:
        print(f"\nreport written to {options.report}")
    return 0


@contextmanager
def _workspace(output: Path | None) -> Iterator[Path]:
    if output is not None:
        with bundle_workspace(output) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="headtail-") as name:
        yield Path(name)


def _write_page(page: str, target: Path) -> None:
    try:
        replace_file(target, page)
    except OSError as error:
        raise PlanError(f"cannot write {quoted(str(target))}: {error.strerror}") from error


def _results(options: Namespace, folder: Path, progress: Callable[[str], None]) -> _Results:
    progress("loading")
    loaded = load_model(options.model)
    planning = Planning(request_of(options, progress), loaded, folder, progress)
    plan = planning.plan()
    explanation = planning.explanation(plan) if options.explain else None
    apart = planning.write(plan, options.output, options.cut) if options.output else {}
    return _Results(plan, explanation, apart, planning.situation.space)


if __name__ == "__main__":
    raise SystemExit(run_command(run))
