"""A placement problem: what is minimised, what is limited, and what one placement costs. Pure.

Units run on an ordered chain of tiers, joined by links; link ``l`` lies between the tiers ``l`` and
``l + 1``. Data flows upwards only, and results come back down to tier 0. A tensor crosses every
link between its maker and its farthest reader, each link once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splitter.optimise.dataflow import FED, Dataflow
from splitter.optimise.queueing import Queue

Costs = NDArray[np.float64]
NO_CODEC = -1


@dataclass(frozen=True)
class Metric:
    """A cost that adds up over what runs where and what crosses. All parts are 0 or more.

    Attributes:
        units: Of each unit on each tier, ``[tier, unit]``.
        tensors: Of each tensor that crosses a link in some codec, ``[link, tensor, codec]``.
        results: Of each result that comes back over a link, ``[link, tensor]``; elsewhere 0.
        tiers: Of each tier that runs anything.
        links: Of each link that is used.
    """

    units: Costs
    tensors: Costs
    results: Costs
    tiers: Costs
    links: Costs

    def weighted(self, weight: float) -> Metric:
        """Return this cost in another unit."""
        return Metric(*(weight * part for part in self._parts))

    def plus(self, other: Metric) -> Metric:
        """Return the sum of two costs."""
        return Metric(*(a + b for a, b in zip(self._parts, other._parts, strict=True)))

    @property
    def _parts(self) -> tuple[Costs, ...]:
        return (self.units, self.tensors, self.results, self.tiers, self.links)

    def is_valid(self) -> bool:
        """Whether all parts are finite and 0 or more."""
        return all(bool(np.all((part >= 0) & (part < math.inf))) for part in self._parts)


@dataclass(frozen=True)
class Allowed:
    """What may happen at all.

    Attributes:
        units: Whether a unit may run on a tier, ``[tier, unit]``.
        tensors: Whether a tensor may cross a link in a codec, ``[link, tensor, codec]``.
        results: Whether a result may come back over a link, ``[link, tensor]``.
    """

    units: NDArray[np.bool_]
    tensors: NDArray[np.bool_]
    results: NDArray[np.bool_]


@dataclass(frozen=True)
class Memory:
    """What the units on tier 0 hold at once, in the order of the units.

    The peak is the weights of all units there, and the most that is alive at any of them: tensors
    that are read at it or later, that cross, or that are results.

    Attributes:
        flow: The units, in the order in which they run.
        tensor_bytes: Of each tensor.
        weight_bytes: Of each weight; a weight that several units use is held once.
        used_weights: All pairs of a weight and a unit that uses it: the weights.
        using_units: The units of these pairs.
        fixed_bytes: What running anything takes.
    """

    flow: Dataflow
    tensor_bytes: Costs
    weight_bytes: Costs
    used_weights: NDArray[np.int64]
    using_units: NDArray[np.int64]
    fixed_bytes: float = 0.0


@dataclass(frozen=True)
class Sum:
    """Minimise a weighted sum of metrics."""

    weights: Mapping[str, float]


@dataclass(frozen=True)
class Largest:
    """Minimise the largest of several metrics."""

    metrics: tuple[str, ...]


Goal = Sum | Largest


@dataclass(frozen=True)
class Placement:
    """Where everything runs and how it travels.

    Attributes:
        tiers: The tier of each unit.
        codecs: The codec of each tensor on each link, ``[link, tensor]``, or :data:`NO_CODEC`.
    """

    tiers: NDArray[np.int64]
    codecs: NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """What is to be placed, and what counts.

    Attributes:
        flow: The units and tensors.
        metrics: Costs by name.
        goals: What to minimise; each later goal among the best by all earlier ones.
        allowed: What may happen.
        limits: The most that a metric may be.
        memory: What tier 0 holds, where it is limited.
        memory_limit_bytes: How much that may be.
        queue: What waits for a shared worker; ``None`` where the waiting is in the metrics.
    """

    flow: Dataflow
    metrics: Mapping[str, Metric]
    goals: tuple[Goal, ...]
    allowed: Allowed
    limits: Mapping[str, float]
    memory: Memory | None = None
    memory_limit_bytes: float = math.inf
    queue: Queue | None = None

    @property
    def tier_count(self) -> int:
        """How many tiers there are."""
        return len(self.allowed.units)

    @property
    def goal_metrics(self) -> tuple[Metric, ...]:
        """What the first goal adds up, or takes the largest of."""
        goal = self.goals[0]
        if isinstance(goal, Sum):
            return (self.table(goal),)
        return tuple(self.metrics[name] for name in goal.metrics)

    def table(self, goal: Sum) -> Metric:
        """Return a weighted sum as one metric."""
        parts = [self.metrics[name].weighted(weight) for name, weight in goal.weights.items()]
        total = parts[0]
        for part in parts[1:]:
            total = total.plus(part)
        return total


def crossing(flow: Dataflow, tiers: NDArray[np.int64], link: int) -> NDArray[np.bool_]:
    """Return which tensors cross a link upwards."""
    tensors, readers = flow.reads
    wanted = np.zeros(flow.tensor_count, dtype=bool)
    wanted[tensors[tiers[readers] > link]] = True
    return wanted & _made_at_most(flow, tiers, link)


def returning(flow: Dataflow, tiers: NDArray[np.int64], link: int) -> NDArray[np.bool_]:
    """Return which results come back over a link."""
    return flow.is_result & ~_made_at_most(flow, tiers, link)


def _made_at_most(flow: Dataflow, tiers: NDArray[np.int64], tier: int) -> NDArray[np.bool_]:
    padded = np.append(tiers, 0)  # what is fed lies on tier 0: FED is the last index
    made: NDArray[np.bool_] = padded[flow.makers] <= tier
    return made


@dataclass(frozen=True)
class Footprint:
    """What a placement uses.

    Attributes:
        tiers: The tier of each unit.
        used: Tiers that run anything.
        sent: Numbers of the tensors that cross each link, and of their codecs.
        returned: Numbers of the results that come back over each link.
    """

    tiers: NDArray[np.int64]
    used: NDArray[np.int64]
    sent: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]
    returned: tuple[NDArray[np.int64], ...]

    def value(self, metric: Metric) -> float:
        """Return what the placement costs by one metric."""
        total = metric.units[self.tiers, np.arange(len(self.tiers))].sum()
        total += metric.tiers[self.used].sum()
        for link, (tensors, codecs) in enumerate(self.sent):
            if self.used[-1] > link:
                total += metric.links[link]
                total += metric.tensors[link, tensors, codecs].sum()
                total += metric.results[link, self.returned[link]].sum()
        return float(total)


def footprint(flow: Dataflow, placement: Placement) -> Footprint:
    """Return what a placement uses."""
    tiers = placement.tiers
    links = range(placement.codecs.shape[0])
    sent = [np.flatnonzero(crossing(flow, tiers, link)) for link in links]
    return Footprint(
        tiers,
        np.unique(tiers),
        tuple((numbers, placement.codecs[link, numbers]) for link, numbers in enumerate(sent)),
        tuple(np.flatnonzero(returning(flow, tiers, link)) for link in links),
    )


def metric_value(flow: Dataflow, metric: Metric, placement: Placement) -> float:
    """Return what a placement costs by one metric."""
    return footprint(flow, placement).value(metric)


def value_of(problem: Problem, name: str, placement: Placement) -> float:
    """Return what a placement costs by one metric, waiting included."""
    value = metric_value(problem.flow, problem.metrics[name], placement)
    queue = problem.queue
    if queue is None or not queue.weights.get(name):
        return value
    return value + queue.weights[name] * wait_ms(problem, placement)


def wait_ms(problem: Problem, placement: Placement) -> float:
    """Return how long a placement waits for a shared worker."""
    if problem.queue is None:
        return 0.0
    service = problem.metrics[problem.queue.service]
    return problem.queue.wait_ms(metric_value(problem.flow, service, placement))


def goal_value(problem: Problem, goal: Goal, placement: Placement) -> float:
    """Return what a placement is worth by a goal; less is better."""
    if isinstance(goal, Sum):
        return math.fsum(
            weight * value_of(problem, name, placement) for name, weight in goal.weights.items()
        )
    return max(value_of(problem, name, placement) for name in goal.metrics)


def memory_bytes(memory: Memory, tiers: NDArray[np.int64]) -> float:
    """Return the peak on tier 0; nothing where nothing runs there."""
    flow, here = memory.flow, tiers == 0
    if not here.any():
        return 0.0
    held = np.unique(memory.used_weights[here[memory.using_units]])
    weights = float(memory.weight_bytes[held].sum())
    made = flow.makers
    mine = np.flatnonzero((made == FED) | here[made])
    stays = flow.is_result
    if tiers.max() > 0:
        stays = stays | crossing(flow, tiers, 0)
    last = np.where(stays, flow.unit_count - 1, np.maximum(flow.last_readers, made))
    change = np.zeros(flow.unit_count + 1)
    np.add.at(change, np.maximum(made[mine], 0), memory.tensor_bytes[mine])
    np.add.at(change, last[mine] + 1, -memory.tensor_bytes[mine])
    alive = np.cumsum(change[:-1])
    return memory.fixed_bytes + weights + float(alive[here].max())


def violation(problem: Problem, placement: Placement) -> float:
    """Return by which part of itself the most violated limit is exceeded; 0 where none is.

    It is infinite where a shared worker cannot keep up.
    """
    worst = 0.0 if math.isfinite(wait_ms(problem, placement)) else math.inf
    for name, limit in problem.limits.items():
        worst = max(worst, _excess(value_of(problem, name, placement), limit))
    if problem.memory is not None:
        peak = memory_bytes(problem.memory, placement.tiers)
        worst = max(worst, _excess(peak, problem.memory_limit_bytes))
    return worst


def is_allowed(problem: Problem, placement: Placement) -> bool:
    """Whether a placement is legal and nothing in it is forbidden; limits apart."""
    flow, allowed, tiers = problem.flow, problem.allowed, placement.tiers
    if not flow.placement_is_legal(tiers):
        return False
    if not allowed.units[tiers, np.arange(flow.unit_count)].all():
        return False
    for link in range(problem.tier_count - 1):
        sent = np.flatnonzero(crossing(flow, tiers, link))
        codecs = placement.codecs[link, sent]
        if (codecs == NO_CODEC).any() or not allowed.tensors[link, sent, codecs].all():
            return False
        if not allowed.results[link, returning(flow, tiers, link)].all():
            return False
    return True


def _excess(value: float, limit: float) -> float:
    if value <= limit:
        return 0.0
    return (value - limit) / max(abs(limit), 1e-9)
