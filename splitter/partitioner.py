"""The cut of least latency, exactly, by a minimum s-t cut. Needs scipy.

The construction follows DADS (Hu et al., INFOCOM 2019) with two corrections: a tensor that several
units read crosses once, through a node of its own; and a unit in the cloud can never feed a unit
on the device, which takes an infinite reverse arc.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from splitter.cuts import Cut, CutSpace
from splitter.errors import PlanError

# maximum_flow computes with 32-bit integers and overflows silently, whatever the dtype it is given
# (seen with SciPy 1.17.1: a capacity of 2**31 + 5 in int64 carries no flow at all). So costs are
# scaled such that a cut known beforehand costs this much; the best cut has no dearer arc.
_KNOWN_CUT = 1 << 28
_INFINITE = 1 << 29


@dataclass(frozen=True)
class CutCosts:
    """What each part of a cut costs, in milliseconds.

    Attributes:
        device_ms: Of each unit on the device.
        cloud_ms: Of each unit in the cloud.
        transfer_ms: Of each tensor that may cross: encode, send, decode. Infinite if it may not.
        result_ms: Of each output that the cloud makes and sends back; infinite likewise.
        cloud_fixed_ms: Paid once by every cut that uses the cloud: round trip, queue, overheads.
        device_fixed_ms: Paid once by every cut that runs anything on the device.
    """

    device_ms: Sequence[float]
    cloud_ms: Sequence[float]
    transfer_ms: Mapping[str, float]
    result_ms: Mapping[str, float]
    cloud_fixed_ms: float = 0.0
    device_fixed_ms: float = 0.0


def cut_cost_ms(space: CutSpace, cut: Cut, costs: CutCosts) -> float:
    """Return the latency of one cut under these costs."""
    device = math.fsum(costs.device_ms[index] for index in cut.units)
    cloud = math.fsum(
        costs.cloud_ms[unit.index] for unit in space.units if unit.index not in cut.units
    )
    crossing = math.fsum(costs.transfer_ms[name] for name in cut.frontier)
    results = math.fsum(costs.result_ms[name] for name in cut.results)
    fixed = (costs.device_fixed_ms if cut.units else 0.0) + (
        costs.cloud_fixed_ms if len(cut.units) < len(space.units) else 0.0
    )
    return device + cloud + crossing + results + fixed


def prefix_costs_ms(space: CutSpace, costs: CutCosts) -> list[float]:
    """Return what the cut after each number of units costs, in topological order.

    Item 0 is cloud-only, the last one device-only; infinite where the cut is not legal. This is
    :func:`cut_cost_ms` of all prefixes in one pass, up to rounding.
    """
    waiting = {name: len(readers) for name, readers in space.readers.items()}
    crossing = {name for name in waiting if name not in space.maker}
    results = {name for name in space.graph.outputs if name in space.maker}
    device_ms, cloud_ms = 0.0, math.fsum(costs.cloud_ms)
    totals = []
    for end, unit in enumerate((*space.units, None)):
        sent = crossing | results
        fixed = (costs.device_fixed_ms if end else 0.0) + (costs.cloud_fixed_ms if unit else 0.0)
        moving = sum(costs.transfer_ms[name] for name in crossing)
        moving += sum(costs.result_ms[name] for name in results)
        legal = space.unsendable.isdisjoint(sent)
        totals.append(device_ms + cloud_ms + moving + fixed if legal else math.inf)
        if unit is None:
            break
        device_ms += costs.device_ms[end]
        cloud_ms -= costs.cloud_ms[end]
        results.difference_update(unit.outputs)
        crossing.update(name for name in unit.outputs if waiting.get(name))
        for name in unit.inputs:
            waiting[name] -= 1
            if not waiting[name]:
                crossing.discard(name)
    return totals


def minimum_cut(space: CutSpace, costs: CutCosts) -> Cut:
    """Return a cut of least latency over all legal cuts, device-only and cloud-only included.

    Exact up to rounding of each cost by 2**-29 of the cheaper of device-only and cloud-only, unless
    more tensors cross the best cut than a message carries; then the better of those two.

    Raises:
        PlanError: A cost is negative or not a number.
    """
    _check(costs)
    known = list(filter(None, map(space.legal, (frozenset(range(len(space.units))), frozenset()))))
    bound_ms = min(cut_cost_ms(space, cut, costs) for cut in known)
    # Fixed costs depend only on whether a side is used at all. The best cut without them is the
    # best of those that pay both; the two that pay one are compared beside it.
    least = space.legal(_least(space, costs, bound_ms)) if bound_ms else None
    return min(filter(None, (least, *known)), key=lambda cut: cut_cost_ms(space, cut, costs))


def best_split(space: CutSpace, costs: CutCosts) -> Cut | None:
    """Return a legal cut of least latency among those that run something on both sides.

    Every such cut has some unit without predecessors on the device and some unit without successors
    in the cloud, so the best one is found by pinning each of the former, and where that pulls
    everything to the device, each of the latter as well.
    """
    _check(costs)
    everything = frozenset(range(len(space.units)))
    # No cut costs more than everything together; a tighter bound would need a split to begin with.
    every = (
        *costs.device_ms,
        *costs.cloud_ms,
        *costs.transfer_ms.values(),
        *costs.result_ms.values(),
    )
    bound_ms = math.fsum(cost for cost in every if math.isfinite(cost)) or 1.0
    first = [unit.index for unit in space.units if not space.needs[unit.index]]
    last = everything - frozenset().union(*space.needs)
    found: list[Cut] = []
    for start in first:
        sides = [_least(space, costs, bound_ms, device=start)]
        if sides[0] == everything:
            sides = [_least(space, costs, bound_ms, device=start, cloud=end) for end in last]
        cuts = (space.legal(side) for side in sides if side and side != everything)
        found.extend(cut for cut in cuts if cut is not None)
    return min(found, key=lambda cut: cut_cost_ms(space, cut, costs), default=None)


def _check(costs: CutCosts) -> None:
    every = (
        *costs.device_ms,
        *costs.cloud_ms,
        *costs.transfer_ms.values(),
        *costs.result_ms.values(),
        costs.cloud_fixed_ms,
        costs.device_fixed_ms,
    )
    for cost_ms in every:
        if math.isnan(cost_ms) or cost_ms < 0:
            raise PlanError(f"a cost of {cost_ms} ms cannot be planned with; costs are 0 or more")


def _least(
    space: CutSpace,
    costs: CutCosts,
    bound_ms: float,
    device: int | None = None,
    cloud: int | None = None,
) -> frozenset[int]:
    """Return the device side of a minimum s-t cut without the fixed costs.

    Args:
        space: The legal cuts.
        costs: What is minimised.
        bound_ms: Costs above it count as infinite; some cut that is allowed must cost no more.
        device: A unit that stays on the device.
        cloud: A unit that stays in the cloud.
    """
    arcs = _Arcs(len(space.units), bound_ms)
    for unit in space.units:
        results = (costs.result_ms[name] for name in unit.outputs if name in costs.result_ms)
        on_device_ms = math.inf if unit.index == cloud else costs.device_ms[unit.index]
        in_cloud_ms = costs.cloud_ms[unit.index] + math.fsum(results)
        arcs.add(unit.index, arcs.sink, on_device_ms)
        arcs.add(arcs.source, unit.index, math.inf if unit.index == device else in_cloud_ms)
        for need in space.needs[unit.index]:
            arcs.add(unit.index, need, math.inf)
    for name, readers in space.readers.items():
        crossing = arcs.new_node()
        transfer = math.inf if name in space.unsendable else costs.transfer_ms[name]
        arcs.add(space.maker.get(name, arcs.source), crossing, transfer)
        for reader in readers:
            arcs.add(crossing, reader, math.inf)
    return arcs.source_side() & frozenset(range(len(space.units)))


class _Arcs:
    """Arcs of a flow network whose first nodes are the units; no two join the same nodes."""

    def __init__(self, units: int, bound_ms: float) -> None:
        self.source = units
        self.sink = units + 1
        self._nodes = units + 2
        self._bound_ms = bound_ms
        self._arcs: list[tuple[int, int, int]] = []

    def new_node(self) -> int:
        self._nodes += 1
        return self._nodes - 1

    def add(self, start: int, end: int, cost_ms: float) -> None:
        within = cost_ms <= self._bound_ms
        capacity = round(cost_ms / self._bound_ms * _KNOWN_CUT) if within else _INFINITE
        self._arcs.append((start, end, capacity))

    def source_side(self) -> frozenset[int]:
        starts, ends, capacities = zip(*self._arcs, strict=True)
        shape = (self._nodes, self._nodes)
        values = np.array(capacities, dtype=np.int32)
        # Older SciPy wants 32-bit indices, too, and takes those of the arrays.
        places = (np.array(starts, dtype=np.int32), np.array(ends, dtype=np.int32))
        capacity = csr_array(coo_array((values, places), shape=shape))
        flow = maximum_flow(capacity, self.source, self.sink).flow
        residual = csr_array(capacity - flow)
        residual.eliminate_zeros()
        reached = breadth_first_order(residual, self.source, return_predecessors=False)
        return frozenset(int(node) for node in reached)
