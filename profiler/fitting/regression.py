"""Rates from whole-network latencies, by least squares of relative errors. Needs scipy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from profiler.costs import OperatorClass
from profiler.fitting.table import Measured

__all__ = ["Fit", "LeftOut", "fit_rates", "leave_one_network_out"]

_CLASSES: tuple[OperatorClass, ...] = ("conv1x1", "conv", "depthwise")
# One engine transforms 3x3 convolutions (Winograd) and passes the chip's peak in plain
# multiply-accumulates; another does not. Layers start at different cost, too. These two are fitted
# for each engine, all else is shared.
_OF_ENGINE = ("conv3x3", "layer")


@dataclass(frozen=True)
class Fit:
    """Milliseconds for each unit of work: a megamac, a megabyte, a layer.

    Attributes:
        ms_by_column: By name; ``conv3x3`` and ``layer`` are followed by ``@`` and the engine. 0
            where other columns explain the times as well.
    """

    ms_by_column: dict[str, float]

    def gmacs_s(self, column: str) -> float | None:
        """Rate of an operator class, in 10^9 multiply-accumulates a second; None if not bound."""
        cost = self.ms_by_column[column]
        return 1 / cost if cost else None

    def predict_ms(self, row: Measured) -> float:
        """Latency that the fit gives for a row."""
        columns = tuple(self.ms_by_column)
        return float(_features(row, columns) @ np.array(list(self.ms_by_column.values())))


@dataclass(frozen=True)
class LeftOut:
    """A row predicted by a fit that has not seen its network.

    Attributes:
        row: The row.
        error: Predicted over measured, minus 1.
    """

    row: Measured
    error: float


def fit_rates(rows: Sequence[Measured]) -> Fit:
    """Fit non-negative costs; every row counts by its relative error."""
    engines = sorted({row.engine for row in rows})
    own = [f"{column}@{engine}" for column in _OF_ENGINE for engine in engines]
    columns = (*_CLASSES, "megabyte", *own)
    measured = np.array([row.latency_ms for row in rows])
    matrix = np.array([_features(row, columns) for row in rows])
    solution, _ = nnls(matrix / measured[:, None], np.ones(len(rows)))
    return Fit({column: float(cost) for column, cost in zip(columns, solution, strict=True)})


def leave_one_network_out(rows: Sequence[Measured]) -> list[LeftOut]:
    """Predict the rows of each network from a fit to those of all others, under either engine."""
    left_out: list[LeftOut] = []
    for model in sorted({row.model for row in rows}):
        fit = fit_rates([row for row in rows if row.model != model])
        left_out.extend(
            LeftOut(row, fit.predict_ms(row) / row.latency_ms - 1)
            for row in rows
            if row.model == model
        )
    return left_out


def _features(row: Measured, columns: Sequence[str]) -> NDArray[np.float64]:
    amounts: dict[str, float] = {"megabyte": 0.0, f"layer@{row.engine}": 0.0}
    for work in row.network:
        for kind, macs in work.macs.items():
            column = f"{kind}@{row.engine}" if kind in _OF_ENGINE else kind
            amounts[column] = amounts.get(column, 0.0) + macs / 1e6
        amounts["megabyte"] += work.moved_bytes / 1e6
        amounts[f"layer@{row.engine}"] += 1
    return np.array([amounts.get(column, 0.0) for column in columns])
