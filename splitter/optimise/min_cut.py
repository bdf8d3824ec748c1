"""The placement of least cost, exactly, by one minimum s-t cut over layers. Needs scipy.

Each link has a copy of the units; a unit is on the source side of copy ``l`` if it runs on a tier
up to ``l``. For one link this is the construction of DADS (Hu et al., INFOCOM 2019) with two
corrections: a tensor that several units read crosses once, through a node of its own; and a unit
above a link can never feed one below it, which takes an infinite reverse arc. Further links follow
Ishikawa's construction for ordered labels (IEEE TPAMI 2003).

What is paid once, if a tier or a link is used at all, no cut can charge. So each set of tiers that
may be used is tried with all of its fixed costs charged: for the set that the best placement uses
that is its true cost, and for no set is it too low.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from splitter.optimise.contraction import Contraction, contract, table_of, untouched
from splitter.optimise.dataflow import FED, Dataflow
from splitter.optimise.problem import (
    NO_CODEC,
    Allowed,
    Costs,
    Metric,
    Placement,
    crossing,
    metric_value,
    returning,
)

# maximum_flow computes with 32-bit integers and overflows silently, whatever the dtype it is given
# (seen with SciPy 1.17.1: a capacity of 2**31 + 5 in int64 carries no flow at all). So costs are
# scaled such that a placement known beforehand costs this much; the best has no dearer arc.
_KNOWN = 1 << 28
_INFINITE = 1 << 29


# Contracting takes as long as the cut itself where there is so little to be cut.
_SMALL = 400


def least_placement(flow: Dataflow, metric: Metric, allowed: Allowed) -> Placement | None:
    """Return the placement of least cost; ``None`` where nothing is allowed.

    Of several that cost the same, up to rounding each cost by 2**-29 of the best, it is the one
    that runs least on the lower tiers.
    """
    known = [*_pure(flow, metric, allowed), *_best_prefixes(flow, metric, allowed)]
    bound = min((metric_value(flow, metric, placement) for placement in known), default=math.inf)
    tables = [table_of(metric, allowed, bound)]
    contraction = contract(flow, tables) if flow.unit_count > _SMALL else untouched(flow)
    small = Layers(contraction.flow, contraction.metric(metric), contraction.allowed(allowed))
    found = [placement_of(contraction, tiers, metric, allowed) for tiers in small.placements(bound)]
    return min(
        (*found, *known),
        key=lambda placement: (metric_value(flow, metric, placement), placement.tiers.sum() * -1),
        default=None,
    )


def placement_of(
    contraction: Contraction, tiers: NDArray[np.int64], metric: Metric, allowed: Allowed
) -> Placement:
    """Return a placement of the larger problem, each tensor in its cheapest codec."""
    return with_codecs(tiers[contraction.group], metric, allowed)


def with_codecs(tiers: NDArray[np.int64], metric: Metric, allowed: Allowed) -> Placement:
    """Return where units run with the cheapest codec of each tensor."""
    priced = np.where(allowed.tensors, metric.tensors, np.inf)
    codecs = np.where(allowed.tensors.any(axis=2), priced.argmin(axis=2), NO_CODEC)
    return Placement(tiers, codecs)


def prefix_costs(flow: Dataflow, metric: Metric, allowed: Allowed, lower: int, upper: int) -> Costs:
    """Return what it costs to run each number of units on one tier and the rest on a higher one.

    Item 0 runs everything above, the last one everything below; infinite where it is not allowed.
    """
    table = table_of(metric, allowed)
    end = flow.unit_count + 1
    change = np.zeros(end + 1)
    forbidden = np.zeros(end + 1)

    def add(first: NDArray[np.int64], after: NDArray[np.int64], costs: Costs) -> None:
        finite = np.isfinite(costs)
        for target, values in (
            (change, np.where(finite, costs, 0.0)),
            (forbidden, (~finite).astype(float)),
        ):
            np.add.at(target, first, values)
            np.add.at(target, after, -values)

    units = np.arange(flow.unit_count)
    add(units + 1, np.full(flow.unit_count, end), table.units[lower])
    add(np.zeros(flow.unit_count, dtype=np.int64), units + 1, table.units[upper])
    last = flow.last_readers
    read = np.flatnonzero(last >= 0)
    fed = flow.makers == FED
    for link in range(upper):
        below = link < lower  # all units are above it, for what is fed must come up to them
        sent = read[fed[read]] if below else read
        stop = np.full(len(sent), end) if below else last[sent] + 1
        add(np.where(fed[sent], 0, flow.makers[sent] + 1), stop, table.least[link, sent])
        made = flow.results
        stop = np.full(len(made), end) if below else flow.makers[made] + 1
        add(np.zeros(len(made), dtype=np.int64), stop, table.results[link, made])
    totals: Costs = np.cumsum(change)[:end]
    totals[1:] += metric.tiers[lower]
    totals[:-1] += metric.tiers[upper]
    totals += metric.links[:lower].sum()
    totals[:-1] += metric.links[lower:upper].sum()
    # Everything on the lower tier: what is fed and what is made crosses only the links below it.
    totals[np.cumsum(forbidden)[:end] > 0.5] = np.inf
    return totals


class Layers:
    """A flow network with a copy of the units for each link.

    Args:
        flow: The units and tensors.
        metric: What is minimised.
        allowed: What may happen.
    """

    def __init__(self, flow: Dataflow, metric: Metric, allowed: Allowed) -> None:
        self._flow, self._metric, self._allowed = flow, metric, allowed
        self._table = table_of(metric, allowed)
        self._links = metric.links.shape[0]

    def placements(self, bound: float) -> Iterator[NDArray[np.int64]]:
        """Yield the best placement of each set of two tiers or more that may hold the best."""
        everything = tuple(range(self._links + 1))
        free = self._variable_bound()
        for count in range(len(everything), 1, -1):
            for tiers in combinations(everything, count):
                fixed = float(self._metric.tiers[list(tiers)].sum())
                fixed += float(self._metric.links[: tiers[-1]].sum())
                if free + fixed > bound:
                    continue
                found = self._least(tiers, bound)
                if found is None:
                    continue
                yield found
                value = self._value(found)
                bound = min(bound, value)
                if count == len(everything):
                    free = max(free, self._variable(found) * (1 - 1e-6))

    def _variable_bound(self) -> float:
        return float(self._table.units.min(axis=0).sum())

    def _variable(self, tiers: NDArray[np.int64]) -> float:
        used = sorted(set(tiers.tolist()))
        fixed = float(self._metric.tiers[used].sum() + self._metric.links[: used[-1]].sum())
        return self._value(tiers) - fixed

    def _value(self, tiers: NDArray[np.int64]) -> float:
        placement = with_codecs(tiers, self._metric, self._allowed)
        return metric_value(self._flow, self._metric, placement)

    def _least(self, tiers: tuple[int, ...], bound: float) -> NDArray[np.int64] | None:
        """The best placement on these tiers without fixed costs, or ``None`` if none is allowed."""
        if not math.isfinite(bound):
            # Costs of nothing in particular: the sum of all that is finite is above every placement
            bound = self._everything()
        found = self._cut(tiers, bound)
        if found is None or bound <= 0:
            return found
        value = self._variable(found)
        if value < bound / 16:  # the first scale was coarse
            found = self._cut(tiers, max(value, np.finfo(float).tiny))
        return found

    def _everything(self) -> float:
        parts = (self._table.units, self._table.least, self._table.results)
        total = sum(float(part[np.isfinite(part)].sum()) for part in parts)
        return max(total, 1.0)

    def _cut(self, tiers: tuple[int, ...], bound: float) -> NDArray[np.int64] | None:
        arcs = Arcs(self._links * self._flow.unit_count, bound)
        self._add_units(arcs, tiers)
        makers, readers = self._flow.edges
        for link in range(self._links):
            start = link * self._flow.unit_count
            arcs.add(start + readers, start + makers, np.full(len(makers), np.inf))
            self._add_tensors(arcs, link)
        below = arcs.source_side().reshape(self._links, self._flow.unit_count)
        placed: NDArray[np.int64] = self._links - below.sum(axis=0)
        return placed if self._is_allowed(placed, tiers) else None

    def _add_units(self, arcs: Arcs, tiers: tuple[int, ...]) -> None:
        units = np.arange(self._flow.unit_count)
        for tier in range(self._links + 1):
            costs = self._table.units[tier] if tier in tiers else np.full(len(units), np.inf)
            starts = (
                np.full(len(units), arcs.source)
                if tier == self._links
                else tier * len(units) + units
            )
            ends = np.full(len(units), arcs.sink) if tier == 0 else (tier - 1) * len(units) + units
            arcs.add(starts, ends, costs)
            if 0 < tier < self._links:
                arcs.add(ends, starts, np.full(len(units), np.inf))

    def _add_tensors(self, arcs: Arcs, link: int) -> None:
        flow, start = self._flow, link * self._flow.unit_count
        made = np.where(flow.makers == FED, arcs.source, start + flow.makers)
        results = flow.results
        arcs.add(
            np.full(len(results), arcs.source), made[results], self._table.results[link, results]
        )
        tensors, readers = flow.reads
        count = np.bincount(tensors, minlength=flow.tensor_count)
        lone = count[tensors] == 1
        costs = self._table.least[link]
        arcs.add(made[tensors[lone]], start + readers[lone], costs[tensors[lone]])
        shared = np.flatnonzero(count > 1)
        nodes = np.zeros(flow.tensor_count, dtype=np.int64)
        nodes[shared] = arcs.new_nodes(len(shared))
        arcs.add(made[shared], nodes[shared], costs[shared])
        arcs.add(nodes[tensors[~lone]], start + readers[~lone], np.full((~lone).sum(), np.inf))

    def _is_allowed(self, placed: NDArray[np.int64], tiers: tuple[int, ...]) -> bool:
        if not set(placed.tolist()) <= set(tiers):
            return False
        flow = self._flow
        if not np.isfinite(self._table.units[placed, np.arange(flow.unit_count)]).all():
            return False
        return flow.placement_is_legal(placed) and all(
            np.isfinite(self._table.least[link, crossing(flow, placed, link)]).all()
            and np.isfinite(self._table.results[link, returning(flow, placed, link)]).all()
            for link in range(self._links)
        )


class Arcs:
    """Arcs of a flow network whose first nodes are copies of units.

    Args:
        copies: How many of these nodes there are.
        bound: Costs above it count as infinite.
    """

    def __init__(self, copies: int, bound: float) -> None:
        self.source, self.sink = copies, copies + 1
        self._copies = copies
        self._nodes = copies + 2
        self._scale = _KNOWN / bound if bound > 0 else 1.0
        self._bound = bound
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []

    def new_nodes(self, count: int) -> NDArray[np.int64]:
        """Return the numbers of further nodes."""
        self._nodes += count
        return np.arange(self._nodes - count, self._nodes)

    def add(self, starts: NDArray[np.int64], ends: NDArray[np.int64], costs: Costs) -> None:
        """Add arcs; what joins the same nodes adds up."""
        within = costs <= self._bound
        capacities = np.full(len(costs), _INFINITE, dtype=np.int64)
        capacities[within] = np.rint(costs[within] * self._scale)
        self._parts.append((starts, ends, capacities))

    def source_side(self) -> NDArray[np.bool_]:
        """Return which copies are on the source side of the minimum cut that has the fewest."""
        starts, ends, capacities = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        shape = (self._nodes, self._nodes)
        summed = coo_array((capacities, (starts, ends)), shape=shape).tocsr()
        summed.eliminate_zeros()
        # Older SciPy wants 32-bit indices, too, and takes those of the arrays.
        capacity = csr_array(
            (
                np.minimum(summed.data, _INFINITE).astype(np.int32),
                summed.indices.astype(np.int32),
                summed.indptr.astype(np.int32),
            ),
            shape=shape,
        )
        flow = maximum_flow(capacity, self.source, self.sink).flow
        residual = csr_array(capacity - flow)
        residual.eliminate_zeros()
        reached = breadth_first_order(residual, self.source, return_predecessors=False)
        side = np.zeros(self._nodes, dtype=bool)
        side[reached] = True
        copies: NDArray[np.bool_] = side[: self._copies]
        return copies


def _pure(flow: Dataflow, metric: Metric, allowed: Allowed) -> Iterator[Placement]:
    """Everything on one tier, where that is allowed."""
    table = table_of(metric, allowed)
    for tier in range(metric.tiers.shape[0]):
        tiers = np.full(flow.unit_count, tier, dtype=np.int64)
        if np.isfinite(table.units[tier]).all() and all(
            np.isfinite(table.least[link, crossing(flow, tiers, link)]).all()
            and np.isfinite(table.results[link, returning(flow, tiers, link)]).all()
            for link in range(tier)
        ):
            yield with_codecs(tiers, metric, allowed)


def _best_prefixes(flow: Dataflow, metric: Metric, allowed: Allowed) -> Iterator[Placement]:
    """The best prefix of each pair of tiers; a good bound in one pass."""
    for lower, upper in combinations(range(metric.tiers.shape[0]), 2):
        totals = prefix_costs(flow, metric, allowed, lower, upper)
        end = int(totals.argmin())
        if np.isfinite(totals[end]):
            tiers = np.where(np.arange(flow.unit_count) < end, lower, upper)
            yield with_codecs(tiers, metric, allowed)
