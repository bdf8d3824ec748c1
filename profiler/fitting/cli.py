"""Fit device presets to published latencies: print their constants and errors, or write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from profiler.fitting.regression import Fit, LeftOut, fit_rates, leave_one_network_out
from profiler.fitting.table import Measured, Selection, read_rows
from profiler.presets import preset_file, preset_names
from protocol.command import CommandParser, run_command

__all__ = ["fitted_sections", "main"]

# No published row is of a recurrent network. ONNX Runtime's LSTM on one EPYC core, 27 GMAC/s, is
# three quarters as fast as the 1x1 convolutions there; smaller caches will do a little worse.
_RECURRENT_SLOWDOWN = 1.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit presets and print, or write, their constants and errors."""
    return run_command(_run, arguments)


def _run(arguments: Sequence[str] | None) -> int:
    parser = CommandParser(prog="python -m profiler.fitting", description=__doc__)
    parser.add_argument("--table", type=Path, required=True, metavar="DIR")
    parser.add_argument("--preset", choices=preset_names(), help="default: all")
    parser.add_argument("--write", action="store_true", help="write into the preset's file")
    options = parser.parse_args(arguments)
    for name in [options.preset] if options.preset else preset_names():
        path = preset_file(name)
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        selections = [Selection(**entry) for entry in data["fitted_to"]]
        rows = read_rows(options.table, selections)
        sections = fitted_sections(rows, float(data["engine_factor"]["value"]))
        print(f"{name}: {len(rows)} rows")
        print(yaml.safe_dump(sections, sort_keys=False), end="")
        if options.write:
            text = yaml.safe_dump(data | sections, sort_keys=False, width=100, allow_unicode=True)
            path.write_text(text, encoding="utf-8")
    return 0


def fitted_sections(rows: Sequence[Measured], engine_factor: float) -> dict[str, Any]:
    """Return the sections of a preset file that come out of a fit.

    Args:
        rows: Published latencies.
        engine_factor: How many times as slow ONNX Runtime is taken to be.
    """
    fit = fit_rates(rows)
    return {
        "fit": _constants(fit),
        "error": _errors(rows, fit, leave_one_network_out(rows)),
        "rates": _rates(fit, engine_factor),
    }


def _rates(fit: Fit, engine_factor: float) -> dict[str, Any]:
    """What ONNX Runtime is taken to reach.

    It lowers convolutions of any kernel to the matrix product behind 1x1 convolutions, without the
    Winograd transform that lifts the fitted 3x3 rate above the chip's peak.
    """
    products = fit.gmacs_s("conv1x1") or math.inf
    rates = {
        "conv1x1": products,
        "conv3x3": products,
        "conv": min(products, fit.gmacs_s("conv") or math.inf),
        "depthwise": fit.gmacs_s("depthwise") or products,
        "matmul": products,
        "recurrent": products / _RECURRENT_SLOWDOWN,
    }
    layers_us = [
        cost * 1e3 for column, cost in fit.ms_by_column.items() if column.startswith("layer@")
    ]
    return {
        "gmacs_s": {kind: round(rate / engine_factor, 2) for kind, rate in rates.items()},
        "bandwidth_gb_s": round(1 / fit.ms_by_column["megabyte"] / engine_factor, 2),
        "layer_us": round(sum(layers_us) / len(layers_us) * engine_factor, 1),
    }


def _constants(fit: Fit) -> dict[str, Any]:
    constants: dict[str, Any] = {"gmacs_s": {}, "layer_us": {}}
    for column, cost in fit.ms_by_column.items():
        if column == "megabyte":
            constants["bandwidth_gb_s"] = round(1 / cost, 2)
        elif column.startswith("layer@"):
            constants["layer_us"][column.removeprefix("layer@")] = round(cost * 1e3, 1)
        elif (rate := fit.gmacs_s(column)) is not None:
            constants["gmacs_s"][column] = round(rate, 2)
    return constants


def _errors(rows: Sequence[Measured], fit: Fit, left_out: Sequence[LeftOut]) -> dict[str, Any]:
    seen = [abs(fit.predict_ms(row) / row.latency_ms - 1) for row in rows]
    unseen = [abs(item.error) for item in left_out]
    worst = max(left_out, key=lambda item: abs(item.error))
    return {
        "rows": len(rows),
        "networks": len({row.model for row in rows}),
        "fit_median": _rounded(np.median(seen)),
        "leave_one_network_out_median": _rounded(np.median(unseen)),
        "leave_one_network_out_p90": _rounded(np.percentile(unseen, 90)),
        "worst": f"{worst.row.model} with {worst.row.engine}: {worst.error:+.0%}",
    }


def _rounded(value: Any) -> float:
    return round(float(value), 3)


if __name__ == "__main__":
    raise SystemExit(main())
