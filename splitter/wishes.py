"""What a user wants of a plan: objectives, limits, rules, prices and load. Light.

Users write these as short texts; this module says what they mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from protocol.text import did_you_mean, one_line
from splitter.errors import PlanError

MetricName = Literal[
    "latency_ms",
    "period_ms",
    "device_energy_mj",
    "usd_per_1000",
    "uplink_bytes",
    "device_ms",
    "cloud_ms",
    "device_memory_mb",
    "kl_nats",
]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
# A largest, a peak and a loss of answers are limits; the first is an objective by itself.
_NOT_SUMMED = frozenset({"period_ms", "device_memory_mb", "kl_nats"})
_SHORT: Mapping[str, tuple[MetricName, ...]] = {
    "latency": ("latency_ms",),
    "throughput": ("period_ms", "latency_ms"),
    "energy": ("device_energy_mj",),
    "money": ("usd_per_1000",),
}
OBJECTIVES = tuple(_SHORT)
_LIMIT = re.compile(r"\s*([A-Za-z_0-9]+)\s*(<=|>=|<|>|==|=)\s*(\S+)\s*\Z")
_TERM = re.compile(r"\s*(?:([^\s*]+)\s*\*\s*)?([A-Za-z_0-9]+)\s*\Z")
_MOST_CHARACTERS = 120


@dataclass(frozen=True)
class Objective:
    """A weighted sum of metrics that is to be as small as possible.

    Attributes:
        weights: Of each metric, above 0.
    """

    weights: Mapping[MetricName, float]

    def __str__(self) -> str:
        terms = (
            name if weight == 1 else f"{weight:g}*{name}" for name, weight in self.weights.items()
        )
        return " + ".join(terms)


@dataclass(frozen=True)
class Limit:
    """The most that a metric may be."""

    metric: MetricName
    most: float

    def __str__(self) -> str:
        return f"{self.metric}<={self.most:g}"


@dataclass(frozen=True)
class Keep:
    """A tensor that never crosses a link as it is, or nodes that stay on the device.

    Attributes:
        what: Name of a tensor or node, ``input``, or ``first:K``.
    """

    what: str

    def __str__(self) -> str:
        return f"--keep-on-device {self.what}"


@dataclass(frozen=True)
class Pin:
    """A node that runs on a named tier."""

    node: str
    tier: str

    def __str__(self) -> str:
        return f"--pin {self.node}={self.tier}"


@dataclass(frozen=True)
class Lack:
    """Operators that a tier cannot run, written ``Einsum`` or ``com.microsoft.Gelu``."""

    tier: str
    operators: tuple[str, ...]

    def __str__(self) -> str:
        return f"--cannot-run {self.tier}:{','.join(self.operators)}"


Rule = Limit | Keep | Pin | Lack


@dataclass(frozen=True)
class Prices:
    """What the cloud costs.

    Attributes:
        cloud_usd_per_hour: Of one worker while it computes.
        link_usd_per_gb: Of 10^9 bytes over the first link, either way.
    """

    cloud_usd_per_hour: float
    link_usd_per_gb: float = 0.0


@dataclass(frozen=True)
class Load:
    """How busy the cloud is.

    Attributes:
        factor: Share of the time in which the worker serves others; from 0 to below 1.
        devices: How many devices share the workers.
        workers: How many workers they share.
        fps: Frames a second of each device; ``None`` where that is not known.
    """

    factor: float = 0.0
    devices: int = 1
    workers: int = 1
    fps: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.factor < 1:
            raise PlanError(f"the cloud's load is {self.factor:g}; give 0 to below 1")
        if self.devices < 1 or self.workers < 1:
            raise PlanError(
                f"{self.devices} devices share {self.workers} workers; give 1 or more of each"
            )
        if self.fps is not None and not 0 < self.fps < math.inf:
            raise PlanError(f"fps is {self.fps:g}; give a number above 0")
        if self.fps is None and (self.devices, self.workers) != (1, 1):
            raise PlanError("devices that share workers load them by their frames; give --fps too")

    @property
    def frames_per_worker_s(self) -> float:
        """Frames a second that arrive at one worker; 0 where that is not known."""
        return 0.0 if self.fps is None else self.devices * self.fps / self.workers


@dataclass(frozen=True)
class Wishes:
    """Everything that a user wants of a plan.

    Attributes:
        objectives: What to minimise; each later one among the best by all earlier ones.
        rules: What a plan must keep.
        prices: What the cloud costs, where money counts.
        load: How busy it is.
    """

    objectives: tuple[Objective, ...] = (Objective({"latency_ms": 1.0}),)
    rules: tuple[Rule, ...] = ()
    prices: Prices | None = None
    load: Load = field(default_factory=Load)

    @property
    def objective_text(self) -> str:
        """The objectives in one line; a short name where there is one."""
        names = tuple(
            next(iter(objective.weights)) if len(objective.weights) == 1 else ""
            for objective in self.objectives
        )
        for short, metrics in _SHORT.items():
            if names == metrics:
                return short
        return ", ".join(map(str, self.objectives))


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """Return what ``latency``, ``latency_ms + 0.5*device_energy_mj`` or ``money, latency`` mean.

    Raises:
        PlanError: Naming what is not understood, and what is.
    """
    found: list[Objective] = []
    for part in text.split(","):
        name = part.strip()
        if name in _SHORT:
            found.extend(Objective({metric: 1.0}) for metric in _SHORT[name])
        else:
            found.append(_weighted(name))
    return tuple(found)


def parse_limit(text: str) -> Limit:
    """Return what ``latency_ms<=100`` or ``fps>=10`` means.

    Raises:
        PlanError: Naming what is not understood, and what is.
    """
    shown = one_line(text, _MOST_CHARACTERS)
    match = _LIMIT.match(text)
    if match is None:
        raise PlanError(f"constraint {shown!r} is not understood; write latency_ms<=100")
    name, sign, number = match.groups()
    value = _number(number, f"constraint {shown!r}")
    if name == "fps":
        if sign != ">=":
            raise PlanError(f"constraint {shown!r}: fps is wanted high; write fps>={value:g}")
        return Limit("period_ms", 1000 / value)
    if sign != "<=":
        raise PlanError(f"constraint {shown!r}: costs have an upper limit; write {name}<={value:g}")
    return Limit(_metric(name, f"constraint {shown!r}", "fps"), value)


def parse_pin(text: str) -> Pin:
    """Return what ``NODE=cloud`` means; names of nodes may hold ``=`` themselves.

    Raises:
        PlanError: There is no ``=``.
    """
    node, equals, tier = text.rpartition("=")
    if not equals or not node or not tier:
        raise PlanError(
            f"pin {one_line(text, _MOST_CHARACTERS)!r} is not NODE=TIER; write conv1=device"
        )
    return Pin(node, tier)


def parse_lack(text: str) -> Lack:
    """Return what ``device:Einsum,com.microsoft.Gelu`` means.

    Raises:
        PlanError: There is no ``:``, or nothing on one side of it.
    """
    tier, _, listed = text.partition(":")
    operators = tuple(filter(None, map(str.strip, listed.split(","))))
    if not tier or not operators:
        shown = one_line(text, _MOST_CHARACTERS)
        raise PlanError(f"{shown!r} is not TIER:OPERATOR,OPERATOR; write device:Einsum,LSTM")
    return Lack(tier, operators)


def _weighted(text: str) -> Objective:
    shown = one_line(text, _MOST_CHARACTERS)
    weights: dict[MetricName, float] = {}
    for term in text.split("+"):
        match = _TERM.match(term)
        if match is None:
            raise PlanError(
                f"objective {shown!r} is not understood; give {', '.join(OBJECTIVES)}, or a sum "
                "such as latency_ms + 0.5*device_energy_mj"
            )
        number, name = match.groups()
        metric = _metric(name, f"objective {shown!r}", *OBJECTIVES)
        if metric in _NOT_SUMMED and "+" in text:
            raise PlanError(f"objective {shown!r}: {metric} cannot be added to others; limit it")
        if metric in _NOT_SUMMED - {"period_ms"}:
            raise PlanError(f"objective {shown!r}: {metric} can be limited, not minimised")
        weight = 1.0 if number is None else _number(number, f"objective {shown!r}")
        weights[metric] = weights.get(metric, 0.0) + weight
    return Objective(weights)


def _metric(name: str, where: str, *others: str) -> MetricName:
    for metric in METRICS:
        if metric == name:
            return metric
    known: Sequence[str] = (*METRICS, *others)
    hint = did_you_mean(name, known)
    raise PlanError(f"{where}: no metric {name!r}{hint}; there are {', '.join(known)}")


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise PlanError(f"{where}: {one_line(text, 40)!r} is not a number above 0")
    return value
