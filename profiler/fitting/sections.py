"""The sections of a preset file that come out of a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from profiler.errors import PresetError
from profiler.fitting.amounts import Gpu
from profiler.fitting.conversion import (
    FALLBACKS,
    EngineFactor,
    compare,
    gpu_rates,
    plain,
    rates,
    significant,
)
from profiler.fitting.cross_validation import Errors, Validation
from profiler.fitting.table import TENSORRT, Series, Table

__all__ = ["fitted_sections", "fitted_series"]

_ONNX_RUNTIME = "onnxruntime"
_FALLBACK_UNCERTAINTY = 0.75
_WIDEST = 0.95


def fitted_sections(
    data: Mapping[str, Any], validation: Validation, anchors: Table, gpus: Mapping[str, Gpu]
) -> dict[str, Any]:
    """Return the sections of a preset file that come out of the fit.

    Args:
        data: The preset file; its first series in ``fitted_to`` is what is predicted, all count
            for the errors.
        validation: Fits and errors of the whole table.
        anchors: The rows of ONNX Runtime.
        gpus: Data sheets.
    """
    series = fitted_series(data, validation.table)
    main_series, precision = series[0], data["engine"]["precision"]
    measured, errors = validation.fits[main_series], validation.errors(series)
    fit = measured
    factor = _factor(data["engine_factor"], validation, anchors)
    if main_series.engine == TENSORRT:
        predicted = gpu_rates(fit, gpus[main_series.device], precision)
    else:
        if data["engine"]["name"] == _ONNX_RUNTIME:
            fit = plain(measured, main_series.precision, precision)
        predicted = rates(fit, factor.value, precision)
    absent = [kind for kind in FALLBACKS if kind not in fit.ms]
    if main_series.engine == TENSORRT:
        absent.remove("matmul")  # BERT is among the rows; all arithmetic is one column
    return {
        "engine_factor": data["engine_factor"]
        | {"value": significant(factor.value), "spread": significant(factor.spread)},
        "fit": {"ms": {name: significant(cost) for name, cost in measured.ms.items()}},
        "error": _error(errors),
        "uncertainty": _band(errors, factor),
        "fallbacks": {
            "classes": {kind: FALLBACKS[kind] for kind in absent},
            "uncertainty": max(_FALLBACK_UNCERTAINTY, _band(errors, factor)["value"]),
        },
        "rates": predicted,
    }


def fitted_series(data: Mapping[str, Any], table: Table) -> list[Series]:
    """Return the series that a preset is fitted to.

    Raises:
        PresetError: The table has no row of one of them.
    """
    series = [Series(**entry) for entry in data["fitted_to"]]
    for one in series:
        if one not in table:
            raise PresetError(f"the table has no row of {one}")
    return series


def _factor(section: Mapping[str, Any], validation: Validation, anchors: Table) -> EngineFactor:
    """Compare with rows of ONNX Runtime where the preset names them, else take what it says."""
    if "compared" not in section:
        return EngineFactor(section["value"], section["spread"])
    compared, measured = (Series(**section["compared"][key]) for key in ("fit", "rows"))
    converted = plain(validation.fits[compared], compared.precision, measured.precision)
    return compare(converted, anchors[measured])


def _error(errors: Errors) -> dict[str, Any]:
    family = errors.family_median
    return {
        "rows": errors.rows,
        "networks": errors.networks,
        "fit_median": errors.fit_median,
        "leave_one_network_out_median": errors.median,
        "leave_one_network_out_p90": errors.p90,
        "worst": errors.worst,
    } | ({} if family is None else {"leave_one_family_out_median": family})


def _band(errors: Errors, factor: EngineFactor) -> dict[str, Any]:
    value = min(math.ceil(20 * math.hypot(errors.p68, factor.spread)) / 20, _WIDEST)
    return {
        "value": value,
        "source": (
            f"Two unseen networks of three were off by less than {errors.p68:.0%} under the engine "
            f"measured, and the step to the engine predicted is uncertain by {factor.spread:.0%}; "
            "squares added, rounded up to 5 %."
        ),
    }
