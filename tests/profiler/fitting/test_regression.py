"""Known costs come back, also for machines with few rows, and wrong rows do not spoil them."""

from __future__ import annotations

import numpy as np
import pytest

from profiler.fitting.amounts import COLUMNS, amounts
from profiler.fitting.networks import BUILT_NETWORKS
from profiler.fitting.regression import Fit, fit_table, leave_out
from profiler.fitting.table import Row, Series, Table

TRUTH = Fit(
    {
        "conv1x1": 0.08,
        "conv3x3": 0.03,
        "conv": 0.09,
        "depthwise": 0.45,
        "matmul": 0.07,
        "megabyte": 0.22,
        "elementwise": 0.35,
        "layer": 0.03,
    }
)
MODELS = {name: 128 if name == "bert_base" else 224 for name in BUILT_NETWORKS}


def series_of(device: str) -> Series:
    return Series(device, "ncnn", "4", "float32")


def rows_of(speed: float, models: dict[str, int]) -> list[Row]:
    """What a machine would have published that is so many times as fast as the true costs."""
    rows = []
    for name, size in models.items():
        work = amounts(BUILT_NETWORKS[name](size), "float32")
        rows.append(Row(name, TRUTH.predict_ms(work) / speed, work))
    return rows


def machines() -> Table:
    return {series_of(f"board{speed}"): rows_of(speed, MODELS) for speed in (1, 2, 4, 8)}


def test_known_costs_come_back_at_any_speed() -> None:
    for series, fit in fit_table(machines()).items():
        speed = float(series.device.removeprefix("board"))
        for kind, cost in TRUTH.ms.items():
            assert fit.ms[kind] * speed == pytest.approx(cost, rel=0.25), kind


def test_a_network_left_out_is_predicted_by_the_others() -> None:
    for items in leave_out(machines(), [[model] for model in MODELS]).values():
        assert len(items) == len(MODELS)
        assert np.median([abs(item.error) for item in items]) < 0.02


def test_a_machine_with_two_rows_is_like_the_others() -> None:
    few = series_of("new")
    known = {name: MODELS[name] for name in ("resnet18", "mobilenet_v2")}
    fit = fit_table({**machines(), few: rows_of(3, known)})[few]
    for row in rows_of(3, MODELS):
        assert fit.predict_ms(row.amounts) == pytest.approx(row.latency_ms, rel=0.1)


def test_a_wrong_row_is_not_believed() -> None:
    table = machines()
    wrong = series_of("wrong")
    rows = rows_of(1, MODELS)
    rows[5] = Row(rows[5].model, 5 * rows[5].latency_ms, rows[5].amounts)
    fit = fit_table({**table, wrong: rows})[wrong]
    errors = [abs(fit.predict_ms(row.amounts) / row.latency_ms - 1) for row in rows_of(1, MODELS)]
    assert max(errors) < 0.1


def test_without_a_transformer_matrix_products_count_as_1x1_convolutions() -> None:
    work = np.zeros(len(COLUMNS))
    work[COLUMNS.index("matmul")] = 3
    assert Fit({"conv1x1": 2.0}).predict_ms(work) == 6
    assert Fit({"conv1x1": 2.0, "matmul": 1.0}).predict_ms(work) == 3
