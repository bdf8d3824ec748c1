"""Fit device presets to published latencies: print their errors, or write their constants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from profiler.fitting.cross_validation import Errors, validate
from profiler.fitting.sections import fitted_sections, fitted_series
from profiler.fitting.table import read_gpus, read_table
from profiler.presets import preset_file, preset_names
from protocol.command import CommandParser, run_command

__all__ = ["main"]

_HEAD = """\
| device | rows | networks | fit | one network out | 90th percentile | worst | one family out |
|---|---|---|---|---|---|---|---|"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit presets and print, or write, their constants and errors."""
    return run_command(_run, arguments)


def _run(arguments: Sequence[str] | None) -> int:
    parser = CommandParser(prog="python -m profiler.fitting", description=__doc__)
    parser.add_argument("--table", type=Path, required=True, metavar="DIR")
    parser.add_argument("--preset", choices=preset_names(), help="default: all")
    parser.add_argument("--write", action="store_true", help="write into the preset's file")
    options = parser.parse_args(arguments)
    validation = validate(read_table(options.table))
    anchors = read_table(options.table, ["onnxruntime"])
    gpus = read_gpus(options.table)
    print(_HEAD)
    for name in [options.preset] if options.preset else preset_names():
        path = preset_file(name)
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        sections = fitted_sections(data, validation, anchors, gpus)
        series = fitted_series(data, validation.table)
        print(_line(name, validation.errors(series)))
        for one in series if len(series) > 1 else ():
            words = (
                one.device,
                one.engine,
                one.precision,
                one.threads and f"{one.threads} threads",
            )
            print(_line("... " + " ".join(filter(None, words)), validation.errors([one])))
        if options.write:
            text = yaml.safe_dump(data | sections, sort_keys=False, width=100, allow_unicode=True)
            path.write_text(text, encoding="utf-8")
    return 0


def _line(name: str, errors: Errors) -> str:
    family = "" if errors.family_median is None else f"{errors.family_median:.1%}"
    return (
        f"| {name} | {errors.rows} | {errors.networks} | {errors.fit_median:.1%} "
        f"| {errors.median:.1%} | {errors.p90:.0%} | {errors.worst} | {family} |"
    )
