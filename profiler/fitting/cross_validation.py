"""How far off predictions of networks are that a fit has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiler.fitting.conversion import significant
from profiler.fitting.regression import Fit, LeftOut, fit_table, leave_out
from profiler.fitting.table import Series, Table

__all__ = ["Errors", "Validation", "validate"]

# Left out together, for they share their kinds of layers; every other network is one by itself.
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "mobile": ("efficientnet", "mnasnet", "mobilenet", "proxylessnasnet", "ssd_mobilenet"),
    "residual": ("regnet", "resnet", "retinanet", "ssd_resnet"),
    "plain": ("alexnet", "vgg"),
    "branched": ("googlenet", "inception", "squeezenet", "ssd_squeezenet"),
    "transformer": ("bert", "vit"),
}


@dataclass(frozen=True)
class Errors:
    """Relative errors of the rows of some series, absolute values unless said otherwise.

    Attributes:
        rows: How many rows were predicted.
        networks: Of how many networks.
        fit_median: With the network among those fitted to.
        median: With the network left out, on every machine.
        p68: The same, what two rows of three stay below.
        p90: The same, what nine of ten stay below.
        worst: The row that is farthest off, signed.
        family_median: With the network's whole family left out; None where no row is of another.
    """

    rows: int
    networks: int
    fit_median: float
    median: float
    p68: float
    p90: float
    worst: str
    family_median: float | None


@dataclass(frozen=True)
class Validation:
    """Fits of all series, and predictions of what each fold left out."""

    table: Table
    fits: Mapping[Series, Fit]
    by_network: Mapping[Series, Sequence[LeftOut]]
    by_family: Mapping[Series, Sequence[LeftOut]]

    def errors(self, series: Sequence[Series]) -> Errors:
        """Sum up the errors of some series together."""
        seen = [
            abs(self.fits[one].predict_ms(row.amounts) / row.latency_ms - 1)
            for one in series
            for row in self.table[one]
        ]
        left_out = [item for one in series for item in self.by_network[one]]
        unseen = [abs(item.error) for item in left_out]
        worst = max(left_out, key=lambda item: abs(item.error))
        family = [abs(item.error) for one in series for item in self.by_family[one]]
        return Errors(
            rows=len(left_out),
            networks=len({item.row.model for item in left_out}),
            fit_median=significant(float(np.median(seen))),
            median=significant(float(np.median(unseen))),
            p68=significant(float(np.percentile(unseen, 68))),
            p90=significant(float(np.percentile(unseen, 90))),
            worst=f"{worst.row.model} {worst.error:+.0%}",
            family_median=significant(float(np.median(family))) if family else None,
        )


def validate(table: Table) -> Validation:
    """Fit all series of a table, then again without each network and each family."""
    models = sorted({row.model for rows in table.values() for row in rows})
    families: dict[str, list[str]] = {}
    for model in models:
        families.setdefault(_family(model), []).append(model)
    return Validation(
        table=table,
        fits=fit_table(table),
        by_network=leave_out(table, [[model] for model in models]),
        by_family=leave_out(table, families.values()),
    )


def _family(model: str) -> str:
    for family, beginnings in _FAMILIES.items():
        if model.startswith(beginnings):
            return family
    return model
