"""Any goal under any limits, exactly, as a mixed-integer linear problem. Needs scipy (HiGHS).

One binary variable says for each link whether a unit runs below it; a variable for each tensor,
link and codec says whether it crosses so. The former must be integers, and where there are several
codecs the latter: of one codec, what crosses follows from where the units run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from splitter.errors import PlanError
from splitter.optimise.contraction import Contraction
from splitter.optimise.dataflow import FED
from splitter.optimise.problem import (
    NO_CODEC,
    Goal,
    Metric,
    Placement,
    Problem,
    Sum,
    crossing,
)
from splitter.optimise.queueing import Queue

_INFEASIBLE = 2
_TIME_LIMIT = 1
_GAP = 1e-9  # relative; the solver's own default of 1e-4 would stop at the second best

Row = dict[int, float]


@dataclass(frozen=True)
class Solved:
    """What the solver found.

    Attributes:
        placement: The best placement that it found.
        gap: By which part of its value a better one may be better; 0 where it is proven the best.
    """

    placement: Placement
    gap: float


def solve_mixed_integer(
    problem: Problem,
    goal: Goal,
    contraction: Contraction,
    tangents: Sequence[tuple[float, float]],
    time_limit_s: float,
) -> Solved | None:
    """Return the best placement by one goal; ``None`` where the limits allow none.

    Args:
        problem: What is to be placed, contracted; its own goals are not looked at.
        goal: What is minimised.
        contraction: How it was contracted.
        tangents: Slopes and intercepts of lines below the waiting time.
        time_limit_s: When to stop with what was found by then.

    Raises:
        PlanError: Nothing was found in that time.
    """
    model = _Model(problem, tangents)
    model.minimise(goal)
    for name, limit in problem.limits.items():
        row, constant = model.named_row(name)
        model.at_most(row, limit - constant)
    if problem.memory is not None:
        model.limit_memory(contraction)
    result = model.solve(time_limit_s)
    if result.status == _INFEASIBLE:
        return None
    if result.x is None:
        what = "in its time limit" if result.status == _TIME_LIMIT else f"({result.message})"
        raise PlanError(
            f"no plan was found {what}; give more seconds with --time-limit-s, or fewer constraints"
        )
    gap = result.mip_gap if result.status == _TIME_LIMIT else 0.0
    return Solved(model.placement(result.x), float(gap or 0.0))


@dataclass
class _Variables:
    """Bounds and kinds of the variables so far."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)

    def add(self, *, upper: float = 1.0, integer: bool = False) -> int:
        self.lower.append(0.0)
        self.upper.append(upper)
        self.integer.append(int(integer))
        self.cost.append(0.0)
        return len(self.lower) - 1


class _Model:
    """The problem as rows over variables."""

    def __init__(self, problem: Problem, tangents: Sequence[tuple[float, float]]) -> None:
        self._problem = problem
        self._flow = problem.flow
        self._links = problem.tier_count - 1
        self._variables = _Variables()
        self._rows: list[tuple[Row, float]] = []
        self._below = [
            [self._variables.add(integer=True) for _ in range(self._flow.unit_count)]
            for _ in range(self._links)
        ]
        self._order_units()
        self._crossing = [self._crossings(link) for link in range(self._links)]
        self._forbid()
        self._tier_used: dict[int, int] = {}
        self._link_used: dict[int, int] = {}
        self._wait = self._waiting(problem.queue, tangents)

    def _order_units(self) -> None:
        for makers, readers in [[part.tolist() for part in self._flow.edges]]:
            for below in self._below:
                for maker, reader in zip(makers, readers, strict=True):
                    self.at_most({below[reader]: 1.0, below[maker]: -1.0}, 0.0)
        for lower, upper in zip(self._below, self._below[1:], strict=False):
            for low, high in zip(lower, upper, strict=True):
                self.at_most({low: 1.0, high: -1.0}, 0.0)

    def _crossings(self, link: int) -> dict[tuple[int, int], int]:
        """A variable for each tensor and each codec in which it may cross, with its rows."""
        found: dict[tuple[int, int], int] = {}
        allowed = self._problem.allowed.tensors[link]
        below = self._below[link]
        for tensor, (maker, readers) in enumerate(
            zip(self._flow.makers.tolist(), self._flow.readers, strict=True)
        ):
            if not readers:
                continue
            codecs = np.flatnonzero(allowed[tensor]).tolist()
            for codec in codecs:
                found[tensor, codec] = self._variables.add(integer=len(codecs) > 1)
            sent = {found[tensor, codec]: -1.0 for codec in codecs}
            for reader in readers:
                # below[maker] - below[reader] <= how it crosses; what is fed is below every link
                row = {**sent, below[reader]: -1.0}
                if maker != FED:
                    row[below[maker]] = 1.0
                self.at_most(row, 0.0 if maker != FED else -1.0)
        return found

    def _forbid(self) -> None:
        """Where units may not run, and over which links results may not come."""
        allowed = self._problem.allowed
        for unit in range(self._flow.unit_count):
            for tier in np.flatnonzero(~allowed.units[:, unit]).tolist():
                row, constant = self._on_tier(unit, tier)
                self.at_most(row, -constant)
        for link, below in enumerate(self._below):
            for tensor in self._flow.results.tolist():
                if not allowed.results[link, tensor]:
                    self.at_most({below[int(self._flow.makers[tensor])]: -1.0}, -1.0)

    def _on_tier(self, unit: int, tier: int) -> tuple[Row, float]:
        """1 where a unit runs on a tier, else 0; as a row and a constant."""
        row: Row = {}
        constant = 0.0
        if tier < self._links:
            row[self._below[tier][unit]] = 1.0
        else:
            constant = 1.0
        if tier > 0:
            row[self._below[tier - 1][unit]] = -1.0
        return row, constant

    def _use_tier(self, tier: int) -> int:
        """The variable that is 1 where a tier runs anything."""
        if tier not in self._tier_used:
            used = self._variables.add()
            self._tier_used[tier] = used
            for unit in range(self._flow.unit_count):
                row, constant = self._on_tier(unit, tier)
                self.at_most({**row, used: -1.0}, -constant)
        return self._tier_used[tier]

    def _use_link(self, link: int) -> int:
        """The variable that is 1 where anything runs above a link."""
        if link not in self._link_used:
            used = self._variables.add()
            self._link_used[link] = used
            for unit in self._flow.sinks.tolist():
                self.at_most({self._below[link][unit]: -1.0, used: -1.0}, -1.0)
        return self._link_used[link]

    def _waiting(self, queue: Queue | None, tangents: Sequence[tuple[float, float]]) -> int | None:
        """The variable that is at least the waiting time, in ms, as far as the tangents tell."""
        if queue is None:
            return None
        wait = self._variables.add(upper=math.inf)
        row, constant = self.metric_row(self._problem.metrics[queue.service])
        for slope, intercept in tangents:
            steep = {variable: slope * cost for variable, cost in row.items()}
            self.at_most({**steep, wait: -1.0}, -intercept - slope * constant)
        if math.isfinite(queue.longest_service_ms):
            self.at_most(row, queue.longest_service_ms - constant)
        return wait

    def named_row(self, name: str) -> tuple[Row, float]:
        """A metric, waiting included, as a row and a constant."""
        row, constant = self.metric_row(self._problem.metrics[name])
        queue = self._problem.queue
        if queue is not None and self._wait is not None and queue.weights.get(name):
            row[self._wait] = queue.weights[name]
        return row, constant

    def metric_row(self, metric: Metric) -> tuple[Row, float]:
        """A metric as a row and a constant."""
        row: Row = {}
        constant = 0.0

        def add(variable: int, cost: float) -> None:
            if cost:
                row[variable] = row.get(variable, 0.0) + cost

        for tier, costs in enumerate(metric.units):
            for unit, cost in enumerate(costs.tolist()):
                part, share = self._on_tier(unit, tier)
                for variable, factor in part.items():
                    add(variable, factor * cost)
                constant += share * cost
        for link, crossings in enumerate(self._crossing):
            for (tensor, codec), variable in crossings.items():
                add(variable, float(metric.tensors[link, tensor, codec]))
            for tensor in self._flow.results.tolist():
                cost = float(metric.results[link, tensor])
                add(self._below[link][int(self._flow.makers[tensor])], -cost)
                constant += cost
        for tier, cost in enumerate(metric.tiers.tolist()):
            if cost:
                add(self._use_tier(tier), cost)
        for link, cost in enumerate(metric.links.tolist()):
            if cost:
                add(self._use_link(link), cost)
        return row, constant

    def minimise(self, goal: Goal) -> None:
        """Say what is minimised."""
        if isinstance(goal, Sum):
            for name, weight in goal.weights.items():
                row, _ = self.named_row(name)
                for variable, cost in row.items():
                    self._variables.cost[variable] += weight * cost
            largest = max(map(abs, self._variables.cost), default=0.0) or 1.0
            self._variables.cost = [cost / largest for cost in self._variables.cost]
            return
        rows = [self.named_row(name) for name in goal.metrics]
        scale = max((abs(cost) for row, _ in rows for cost in row.values()), default=1.0)
        most = self._variables.add(upper=math.inf)
        self._variables.cost[most] = 1.0
        for row, constant in rows:
            self.at_most({**row, most: -scale}, -constant)

    def limit_memory(self, contraction: Contraction) -> None:
        """Keep the peak on tier 0 within its limit; see :func:`problem.memory_bytes`."""
        memory = self._problem.memory
        assert memory is not None  # noqa: S101 (the caller looked)
        below = [self._below[0][group] for group in contraction.group.tolist()]
        used = self._use_tier(0)
        base: Row = {}
        held = [self._variables.add() for _ in memory.weight_bytes]
        for weight, unit in zip(
            memory.used_weights.tolist(), memory.using_units.tolist(), strict=True
        ):
            self.at_most({below[unit]: 1.0, held[weight]: -1.0}, 0.0)
            base[held[weight]] = float(memory.weight_bytes[weight])
        # Where nothing runs here, nothing is held: then the rows must not bind.
        slack = float(memory.tensor_bytes.sum()) + memory.fixed_bytes
        room = self._problem.memory_limit_bytes - memory.fixed_bytes
        sent = self._sent_by_number(contraction)
        last = memory.flow.last_readers.tolist()
        ends = {*last, memory.flow.unit_count - 1}
        for unit in sorted(ends - {-1}):  # elsewhere nothing is dropped: the next holds no less
            row, constant = dict(base), 0.0
            for tensor, maker in enumerate(memory.flow.makers.tolist()):
                if maker > unit:
                    continue
                size = float(memory.tensor_bytes[tensor])
                here = last[tensor] >= unit or maker == unit or bool(memory.flow.is_result[tensor])
                if here and maker == FED:
                    constant += size
                for variable in [below[maker]] if here and maker != FED else []:
                    row[variable] = row.get(variable, 0.0) + size
                for variable in [] if here else sent.get(tensor, []):
                    row[variable] = row.get(variable, 0.0) + size
            self.at_most({**row, used: row.get(used, 0.0) + slack}, room - constant + slack)

    def _sent_by_number(self, contraction: Contraction) -> dict[int, list[int]]:
        """Variables of each tensor, by its number in the larger problem, that crosses link 0."""
        sent: dict[int, list[int]] = {}
        for (tensor, _), variable in self._crossing[0].items():
            sent.setdefault(int(contraction.tensors[tensor]), []).append(variable)
        return sent

    def at_most(self, row: Row, limit: float) -> None:
        """Add a constraint."""
        self._rows.append((row, limit))

    def solve(self, time_limit_s: float) -> Any:
        """Run the solver. Rows are scaled: it allows each a violation of 1e-6."""
        data: list[float] = []
        columns: list[int] = []
        starts, limits = [0], []
        for row, limit in self._rows:
            scale = max((abs(cost) for cost in row.values()), default=1.0) or 1.0
            data.extend(cost / scale for cost in row.values())
            columns.extend(row)
            starts.append(len(columns))
            limits.append(limit / scale)
        count = len(self._variables.lower)
        matrix = csr_array((data, columns, starts), shape=(len(limits), count))
        return milp(
            np.array(self._variables.cost),
            integrality=np.array(self._variables.integer),
            bounds=Bounds(self._variables.lower, self._variables.upper),
            constraints=LinearConstraint(matrix, ub=np.array(limits)),
            options={"mip_rel_gap": _GAP, "time_limit": time_limit_s},
        )

    def placement(self, values: NDArray[np.float64]) -> Placement:
        """Read a solution."""
        below = np.array([[values[variable] for variable in row] for row in self._below])
        tiers = (self._links - (below > 0.5).sum(axis=0)).astype(np.int64)
        codecs = np.full((self._links, self._flow.tensor_count), NO_CODEC, dtype=np.int64)
        for link, crossings in enumerate(self._crossing):
            sent = crossing(self._flow, tiers, link)
            most: dict[int, float] = {}
            for (tensor, codec), variable in crossings.items():
                if sent[tensor] and values[variable] > most.get(tensor, -1.0):
                    most[tensor] = float(values[variable])
                    codecs[link, tensor] = codec
        return Placement(tiers, codecs)
