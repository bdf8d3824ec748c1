"""Make a problem smaller without losing its optimum: join units that need never be separated.

Two rules, both after the idea of QDMP (Zhang et al., 2020) that most borders cannot win:

*Exchange.* Unit v needs only u. Where u is on the device and v is not, moving v down changes what v
costs, saves the tensors that only v reads of u, and sends those of v instead. If that is never
dearer, some best placement never separates the two. Likewise upwards, for a u that only v reads.
Moving down must be strictly cheaper, moving up may cost the same: so the moves end, and applying
all of them at once is safe.

*Bound.* A tensor whose crossing, with the cheapest choice for everything else, costs more than a
placement that is known never crosses in the best one.

A rule must hold in every table of costs that it is given: in each metric that counts, or, where the
costs are linear in some parameters, at each corner of the parameters' box and so within it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from splitter.optimise.dataflow import FED, Dataflow, Numbers
from splitter.optimise.problem import Allowed, Costs, Metric

_MOST_ROUNDS = 60
_ROOM = 1e-9  # rounding must not make a border lose that is as good as the best


@dataclass(frozen=True)
class Table:
    """Costs that a rule looks at; infinite where something is forbidden.

    Attributes:
        units: ``[tier, unit]``.
        least: Of each tensor on each link in its cheapest codec, ``[link, tensor]``.
        most: Likewise in its dearest that is allowed.
        results: ``[link, tensor]``.
        bound: The most that the best placement costs; infinite where nobody knows.
        fixed: The least that any placement that uses a link pays once.
    """

    units: Costs
    least: Costs
    most: Costs
    results: Costs
    bound: float = np.inf
    fixed: float = 0.0


@dataclass(frozen=True)
class Contraction:
    """A smaller problem, and which unit of it each unit has become.

    Attributes:
        group: Of each unit, its number in the smaller problem.
        tensors: Of each tensor of the smaller problem, its number in the larger.
        flow: Units and tensors of the smaller problem.
    """

    group: Numbers
    tensors: Numbers
    flow: Dataflow

    def metric(self, metric: Metric) -> Metric:
        """Return a metric of the smaller problem."""
        return Metric(
            units=_summed(metric.units, self.group, self.flow.unit_count),
            tensors=metric.tensors[:, self.tensors],
            results=metric.results[:, self.tensors],
            tiers=metric.tiers,
            links=metric.links,
        )

    def allowed(self, allowed: Allowed) -> Allowed:
        """Return what is allowed in the smaller problem."""
        forbidden = _summed((~allowed.units).astype(float), self.group, self.flow.unit_count)
        return Allowed(
            forbidden == 0, allowed.tensors[:, self.tensors], allowed.results[:, self.tensors]
        )


def table_of(metric: Metric, allowed: Allowed, bound: float = np.inf) -> Table:
    """Return a metric as a table."""
    priced = np.where(allowed.tensors, metric.tensors, np.inf)
    dear = np.where(allowed.tensors, metric.tensors, -np.inf).max(axis=2)
    least = priced.min(axis=2)
    return Table(
        units=np.where(allowed.units, metric.units, np.inf),
        least=least,
        most=np.where(np.isinf(least), np.inf, dear),
        results=np.where(allowed.results, metric.results, np.inf),
        bound=bound,
        fixed=float(metric.tiers.min()) + float(metric.links[:1].sum()),
    )


def contract(
    flow: Dataflow,
    tables: Sequence[Table],
    *,
    exchange: bool = True,
    known: Sequence[Sequence[float]] = (),
    start: Contraction | None = None,
) -> Contraction:
    """Return the problem without the borders that never win.

    Args:
        flow: The units and tensors.
        tables: Costs in each of which a rule must hold. With one table, tensors cross in their
            cheapest codec.
        exchange: Whether the tables are all that counts. Where they are not, as memory is not, only
            the bound can tell that a border never wins.
        known: Where the tables are the corners of a box of parameters, in which costs are linear:
            what placements that are known cost at each corner. A border that costs more than one of
            them at all corners does so everywhere, for the cheapest choice of the rest is concave.
        start: What is joined already.
    """
    single = len(tables) == 1
    contraction = start or untouched(flow)
    for _ in range(_MOST_ROUNDS):
        small = [_small(table, contraction) for table in tables]
        pairs = _bounds(contraction.flow, small, known)
        if exchange:
            exchanges = _exchanges(contraction.flow, small, single=single)
            pairs = np.hstack([pairs, exchanges])
        if not pairs.shape[1]:
            break
        contraction = _join(flow, contraction, pairs)
    return contraction


def untouched(flow: Dataflow) -> Contraction:
    """Return the contraction that joins nothing."""
    units, tensors = (np.arange(count) for count in (flow.unit_count, flow.tensor_count))
    return Contraction(units, tensors, flow)


def _small(table: Table, contraction: Contraction) -> Table:
    chosen = contraction.tensors
    return Table(
        _summed(table.units, contraction.group, contraction.flow.unit_count),
        table.least[:, chosen],
        table.most[:, chosen],
        table.results[:, chosen],
        table.bound,
        table.fixed,
    )


def _exchanges(flow: Dataflow, tables: Sequence[Table], *, single: bool) -> Numbers:
    """Pairs of units that need never be separated, by the exchange rule."""
    makers, readers = flow.edges
    lone_need = np.bincount(readers, minlength=flow.unit_count)[readers] == 1
    lone_reader = np.bincount(makers, minlength=flow.unit_count)[makers] == 1
    tensors, reading = flow.reads
    count = np.bincount(tensors, minlength=flow.tensor_count)
    made = flow.makers[tensors] != FED
    private = made & (count[tensors] == 1)
    keys = makers * flow.unit_count + readers
    saved_keys = flow.makers[tensors[private]] * flow.unit_count + reading[private]
    saved_edge = np.searchsorted(keys, saved_keys)
    down = lone_need.copy()
    up = lone_reader.copy()
    cheaper = np.zeros(len(makers), dtype=bool)
    for table in tables:
        added = table.least if single else table.most
        for link in range(added.shape[0]):
            saved = np.bincount(
                saved_edge, table.least[link, tensors[private]], minlength=len(makers)
            )
            sent = _by_maker(flow, np.where(count > 0, added[link], 0.0))
            returned = _by_maker(flow, table.results[link], results=True)
            taken = np.bincount(reading, added[link, tensors], minlength=flow.unit_count)
            lower, upper = table.units[link], table.units[link + 1]
            before = upper[readers] + saved + returned[readers]
            after = lower[readers] + sent[readers]
            down &= np.isfinite(after) & (after <= before)
            cheaper |= after < before
            before = lower[makers] + saved
            after = upper[makers] + taken[makers] + returned[makers]
            up &= np.isfinite(after) & (after <= before)
    down &= cheaper
    chosen = down | up
    return np.stack([makers[chosen], readers[chosen]])


def _by_maker(flow: Dataflow, costs: Costs, *, results: bool = False) -> Costs:
    """The sum over what each unit makes."""
    made = flow.makers != FED
    if results:
        made &= flow.is_result
    return np.bincount(flow.makers[made], costs[made], minlength=flow.unit_count).astype(np.float64)


def _bounds(flow: Dataflow, tables: Sequence[Table], known: Sequence[Sequence[float]]) -> Numbers:
    """Pairs of units whose separation costs more than a placement that is known."""
    never = np.ones(flow.tensor_count, dtype=bool)
    links = tables[0].least.shape[0]
    for link in range(links):
        costs = _least_costs(flow, tables, link)
        here = np.zeros(flow.tensor_count, dtype=bool)
        for table, cost in zip(tables, costs, strict=True):
            here |= (cost > table.bound * (1 + _ROOM)) | np.isinf(cost)
        for values in known:
            dearer = [cost > value * (1 + _ROOM) for cost, value in zip(costs, values, strict=True)]
            here |= np.logical_and.reduce(dearer)
        never &= here
    tensors, readers = flow.reads
    makers = flow.makers[tensors]
    chosen = never[tensors] & (makers != FED)
    return np.stack([makers[chosen], readers[chosen]])


def _least_costs(flow: Dataflow, tables: Sequence[Table], link: int) -> list[Costs]:
    """For each table, the least that any placement costs in which each tensor crosses a link.

    What leads to the tensor is below the link then, and what follows from one of its readers above
    it; of both only one path is counted, the same in all tables.
    """
    least = [table.units.min(axis=0) for table in tables]
    below = [_more(table.units[: link + 1], table.units) for table in tables]
    above = [_more(table.units[link + 1 :], table.units) for table in tables]
    makers, readers = (part.tolist() for part in flow.edges)
    upwards = range(flow.unit_count)
    before = _along(below, upwards, zip(makers, readers, strict=True))
    edges = sorted(zip(readers, makers, strict=True), reverse=True)
    after = _along(above, upwards[::-1], edges)
    tensors, reading = flow.reads
    costs = []
    for number, table in enumerate(tables):
        ends = np.full(flow.tensor_count, np.inf)
        np.minimum.at(ends, tensors, after[number][reading])
        begins = np.append(before[number], 0.0)[flow.makers]  # what is fed comes last: FED is -1
        rest = table.least[link] + least[number].sum() + table.fixed
        costs.append(np.where(np.isinf(ends), 0.0, rest + begins + ends))
    return costs


def _more(some: Costs, every: Costs) -> Costs:
    """How much more each unit costs at least on some tiers than on the best of all."""
    least = every.min(axis=0)
    more = np.zeros(len(least))
    np.subtract(some.min(axis=0), least, out=more, where=np.isfinite(least))
    return more


def _along(
    gains: Sequence[Costs], order: Sequence[int], edges: Iterable[tuple[int, int]]
) -> list[Costs]:
    """What a path to each unit adds up to in each table; the path that adds most over all tables.

    Args:
        gains: Of each unit in each table.
        order: The units, starts of paths first.
        edges: From the start of paths to their end, in that order of their starts.
    """
    total = np.sum(gains, axis=0).tolist()
    most = list(total)
    via = [-1] * len(total)
    for start, end in edges:
        if most[start] + total[end] > most[end]:
            most[end] = most[start] + total[end]
            via[end] = start
    sums = []
    for gain in gains:
        values = gain.tolist()
        for unit in order:
            if via[unit] >= 0:
                values[unit] += values[via[unit]]
        sums.append(np.array(values))
    return sums


def _join(flow: Dataflow, before: Contraction, pairs: Numbers) -> Contraction:
    """Join each pair, and whatever lies between its units: it must be on the same side."""
    units = before.flow.unit_count
    makers, readers = before.flow.edges
    starts = np.concatenate([makers, pairs[1]])
    ends = np.concatenate([readers, pairs[0]])
    graph = coo_array((np.ones(len(starts)), (starts, ends)), shape=(units, units))
    _, label = connected_components(graph, directed=True, connection="strong")
    label = label.astype(np.int64)
    order = _topological(label, makers, readers)
    group = order[label][before.group]
    return _contracted(flow, group)


def _topological(label: Numbers, makers: Numbers, readers: Numbers) -> Numbers:
    """Number components such that each comes after those that it needs."""
    count = int(label.max()) + 1
    starts, ends = label[makers], label[readers]
    # SciPy numbers components as it leaves them, so last ones first; it does not promise to.
    if (starts >= ends).all():
        return np.arange(count - 1, -1, -1)
    between = starts != ends
    pairs = np.unique(starts[between] * count + ends[between])
    starts, ends = pairs // count, pairs % count
    waiting = np.bincount(ends, minlength=count).tolist()
    begin = np.searchsorted(starts, np.arange(count + 1)).tolist()
    following = ends.tolist()
    ready = [component for component in range(count) if not waiting[component]]
    number = np.zeros(count, dtype=np.int64)
    number[_drain(ready, waiting, begin, following)] = np.arange(count)
    return number


def _drain(
    ready: list[int], waiting: list[int], begin: list[int], following: list[int]
) -> Sequence[int]:
    done = []
    while ready:
        component = ready.pop()
        done.append(component)
        for after in following[begin[component] : begin[component + 1]]:
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    return done


def _contracted(flow: Dataflow, group: Numbers) -> Contraction:
    tensors, readers = flow.reads
    units = int(group.max()) + 1
    grouped = np.where(flow.makers == FED, FED, group[flow.makers])
    inner = (grouped[tensors] == group[readers]) & (grouped[tensors] != FED)
    pairs = np.unique(tensors[~inner] * units + group[readers[~inner]])
    outer, reading = pairs // units, pairs % units
    wanted = flow.is_result.copy()
    wanted[outer] = True
    kept = np.flatnonzero(wanted)
    place = np.cumsum(wanted) - 1
    reads = (place[outer], reading)
    small = Dataflow(units, grouped[kept], reads, place[flow.results])
    return Contraction(group, kept, small)


def _summed(costs: Costs, group: Numbers, count: int) -> Costs:
    return np.stack([np.bincount(group, row, minlength=count) for row in costs])
