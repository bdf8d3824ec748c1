"""Costs of each kind of work on many machines at once, shrunk towards those of similar machines.

A series' latencies are sums of ``amount * cost`` over the columns. The logarithms of a series'
costs are taken to scatter around the mean of its group: together by the machine's speed, each by a
little more. Residuals are those of logarithms too, with heavy tails (Student's t), since some
published rows are plain wrong: a network slower on four threads than on one.

The same few numbers hold for all machines. They were chosen by leaving out one network at a time
over all series of the table, see docs/decisions/0003-presets.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.fitting.amounts import COLUMNS, Amounts
from profiler.fitting.table import TENSORRT, VULKAN, Row, Series, Table

__all__ = ["Fit", "LeftOut", "fit_table", "leave_out"]

Array = NDArray[np.float64]

_RESIDUAL = 0.1  # scatter of log latencies around the model
_FREEDOM = 3.0  # degrees of freedom of Student's t
_COLUMN_SCATTER = 0.3  # of one log cost around its group's mean
_SPEED_SCATTER = 3.0  # of a machine's log speed: nothing is known before
# A GPU's speed is known from its data sheet, which the amounts are scaled with.
_GPU_SPEED_SCATTER = 0.3
# How far a group's mean follows its rows instead of what is expected of any machine, relative
# costs apart from speed: the machines ran the same fourteen networks, so that even fifty of them do
# not tell everything about a fifteenth.
_TRUST = 0.85
_STEPS = 60
_LONGEST_STEP = 0.5
# Expected of any machine, relative to each other: Winograd's method saves more than half of a 3x3
# convolution's time; a byte of a board's memory takes as long as two multiply-accumulates and more.
_START_MS = (0.1, 0.04, 0.1, 0.4, 0.1, 0.2, 0.4, 0.03)
_ENGINE_START_MS = {
    # Starting a kernel takes tens of microseconds, as long as millions of multiply-accumulates.
    VULKAN: (0.01, 0.004, 0.01, 0.04, 0.01, 0.02, 0.04, 0.05),
    # In units of what the data sheet says.
    TENSORRT: (2e-4, 2e-4, 2e-4, 2e-4, 2e-4, 1.0, 1.0, 5e-3),
}


@dataclass(frozen=True)
class Fit:
    """Milliseconds for each unit of work of one series.

    Attributes:
        ms: By column; a column that no row of the group uses is absent.
    """

    ms: Mapping[str, float]

    def predict_ms(self, amounts: Amounts) -> float:
        """Latency of a network; where no row is of a transformer, it counts as 1x1 convolutions."""
        stand_in = {"matmul": self.ms.get("conv1x1", 0.0)}
        costs = np.array([self.ms.get(name, stand_in.get(name, 0.0)) for name in COLUMNS])
        return float(amounts @ costs)


@dataclass(frozen=True)
class LeftOut:
    """A row predicted by a fit that has not seen its network, on any machine.

    Attributes:
        row: The row.
        error: Predicted over measured, minus 1.
    """

    row: Row
    error: float


def fit_table(table: Table) -> dict[Series, Fit]:
    """Fit all series of a table."""
    groups: dict[tuple[str, str, bool], list[Series]] = {}
    for series in table:
        groups.setdefault(series.group, []).append(series)
    fits: dict[Series, Fit] = {}
    for members in groups.values():
        fits |= _fit_group({series: table[series] for series in members})
    return fits


def leave_out(table: Table, folds: Iterable[Collection[str]]) -> dict[Series, list[LeftOut]]:
    """Predict the rows of each fold of networks from fits to all other networks.

    A series that has only networks of one fold is left out where that fold is.
    """
    left_out: dict[Series, list[LeftOut]] = {series: [] for series in table}
    for fold in folds:
        rest = {
            series: kept
            for series, rows in table.items()
            if (kept := [row for row in rows if row.model not in fold])
        }
        for series, fit in fit_table(rest).items():
            left_out[series].extend(
                LeftOut(row, fit.predict_ms(row.amounts) / row.latency_ms - 1)
                for row in table[series]
                if row.model in fold
            )
    return left_out


def _fit_group(table: Table) -> dict[Series, Fit]:
    """Fit the series of one group by damped Gauss-Newton steps, all at once."""
    amounts, latencies, present = _stacked(list(table.values()))
    used = np.flatnonzero(amounts.sum(axis=(0, 1)))
    amounts = amounts[:, :, used]
    engine = next(iter(table)).engine
    speed = _GPU_SPEED_SCATTER if engine == TENSORRT else _SPEED_SCATTER
    tie = np.linalg.inv(_COLUMN_SCATTER**2 * np.eye(len(used)) + speed**2)
    start = np.log(np.array(_ENGINE_START_MS.get(engine, _START_MS)))[used]
    mean = start
    costs = np.tile(mean, (len(table), 1))
    for _ in range(_STEPS):
        parts = amounts * np.exp(costs)[:, None, :]
        predicted = parts.sum(axis=2)
        slopes = parts / predicted[:, :, None]
        residuals = np.log(predicted / latencies)
        trust = (_FREEDOM + 1) / (_FREEDOM + (residuals / _RESIDUAL) ** 2) / _RESIDUAL**2
        weights = trust * present
        curvature = np.einsum("sr,sri,srj->sij", weights, slopes, slopes) + tie
        slope = np.einsum("sr,sri->si", weights * residuals, slopes) + (costs - mean) @ tie
        step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
        costs -= np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        shift = costs.mean(axis=0) - start
        mean = start + shift.mean() + _TRUST * (shift - shift.mean())
    names = [COLUMNS[index] for index in used]
    return {
        series: Fit(dict(zip(names, (float(cost) for cost in row), strict=True)))
        for series, row in zip(table, np.exp(costs), strict=True)
    }


def _stacked(series: Sequence[Sequence[Row]]) -> tuple[Array, Array, Array]:
    """Return amounts, latencies and which rows there are, filled up to the longest series."""
    longest = max(len(rows) for rows in series)
    amounts = np.ones((len(series), longest, len(COLUMNS)))
    latencies = np.ones((len(series), longest))
    present = np.zeros((len(series), longest))
    for index, rows in enumerate(series):
        amounts[index, : len(rows)] = [row.amounts for row in rows]
        amounts[index, len(rows) :] = rows[0].amounts
        latencies[index, : len(rows)] = [row.latency_ms for row in rows]
        present[index, : len(rows)] = 1
    return amounts, latencies, present
