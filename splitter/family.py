"""The plan family: every cut that is the best for some uplink, round trip and load of the cloud.

Latency is linear in the time that a byte takes and in the multiplier that the cloud's load brings;
a round trip is paid by all cuts that use the link alike. So, the round trip apart, the cuts that
are best somewhere are an envelope of planes (:mod:`splitter.optimise.envelope`). A cut that uses
the link and is beaten by device-only even without any round trip is never the best with one.
Needs numpy and scipy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from profiler.links import SteadyLink
from protocol.rates import HIGHEST_MBPS, LONGEST_MS, LOWEST_MBPS
from splitter.errors import PlanError
from splitter.optimise.contraction import Contraction, contract, table_of
from splitter.optimise.envelope import Plane, Rectangle, lower_envelope, on_envelope
from splitter.optimise.min_cut import least_placement, placement_of
from splitter.optimise.problem import Allowed, Costs, Metric, Placement, footprint, is_allowed
from splitter.pricing import Pricing
from splitter.problems import pose
from splitter.weighing import Weighing, no_codecs, whole_on
from splitter.wishes import Limit

_BIT_MS = 8e-3  # milliseconds that a byte takes at 1 Mbit/s


@dataclass(frozen=True)
class Box:
    """Where a family is to be complete.

    Attributes:
        uplink_mbps: Least and highest rate.
        rtt_ms: Least and longest round trip.
        load: Least and highest load of the cloud by others, from 0 to below 1.
    """

    uplink_mbps: tuple[float, float]
    rtt_ms: tuple[float, float]
    load: tuple[float, float]

    def __post_init__(self) -> None:
        for name, low, high, limit in (
            ("uplink_mbps", *self.uplink_mbps, math.inf),
            ("rtt_ms", *self.rtt_ms, math.inf),
            ("load", *self.load, 1.0),
        ):
            if not 0 <= low <= high < limit:
                raise PlanError(
                    f"the range of {name} is {low:g} to {high:g}; give two numbers of 0 or more"
                    f"{' and below 1' if limit == 1 else ''}, the smaller first"
                )
        if self.uplink_mbps[0] <= 0:
            raise PlanError("the range of uplink_mbps begins at 0; give a rate above 0")

    @classmethod
    def around(cls, uplink_mbps: float, rtt_ms: float, load: float) -> Box:
        """Return a hundredfold range of rates, and what round trips and loads may come to."""
        return cls(
            (max(uplink_mbps / 10, LOWEST_MBPS), min(uplink_mbps * 10, HIGHEST_MBPS)),
            (0.0, min(max(4 * rtt_ms, 200.0), LONGEST_MS)),
            (0.0, max(load, 0.8)),
        )


@dataclass(frozen=True)
class Member:
    """A cut of the family, with a latency that anyone can compute for a moment.

    ``latency_ms = fixed_ms + uplink_bytes * 0.008 / uplink_mbps + cloud_ms * multiplier(load)``,
    and ``+ rtt_ms`` where ``uses_link``; see :func:`load_multiplier`.

    Attributes:
        cut: Its id.
        fixed_ms: What depends on neither rate, round trip nor load.
        uplink_bytes: What crosses.
        cloud_ms: What the cloud computes when it is idle.
        uses_link: Whether anything crosses.
        placement: Where everything runs.
    """

    cut: str
    fixed_ms: float
    uplink_bytes: float
    cloud_ms: float
    uses_link: bool
    placement: Placement

    def latency_ms(self, uplink_mbps: float, rtt_ms: float, load: float) -> float:
        """Return what a frame takes at this moment."""
        sending_ms = self.uplink_bytes * _BIT_MS / uplink_mbps
        waiting = load_multiplier(load)
        return self.fixed_ms + sending_ms + self.cloud_ms * waiting + rtt_ms * self.uses_link

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "cut": self.cut,
            "fixed_ms": self.fixed_ms,
            "uplink_bytes": self.uplink_bytes,
            "cloud_ms": self.cloud_ms,
            "uses_link": self.uses_link,
        }


@dataclass(frozen=True)
class Crossover:
    """Where, with a rising uplink, one cut takes over from another."""

    uplink_mbps: float
    slower: str
    faster: str


@dataclass(frozen=True)
class Family:
    """All cuts that are the best somewhere in a box.

    Attributes:
        box: Where they are complete.
        members: The cuts, best for the slowest uplink first as far as that orders them.
        crossovers: At the plan's own round trip and load, from slow to fast.
        rtt_ms: The plan's own round trip.
        load: The plan's own load.
    """

    box: Box
    members: tuple[Member, ...]
    crossovers: tuple[Crossover, ...]
    rtt_ms: float
    load: float

    def best(self, uplink_mbps: float, rtt_ms: float, load: float) -> Member:
        """Return the best cut for a moment."""
        return min(self.members, key=lambda item: item.latency_ms(uplink_mbps, rtt_ms, load))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "box": asdict(self.box),
            "members": [member.to_dict() for member in self.members],
            "crossovers": [asdict(crossover) for crossover in self.crossovers],
            "rtt_ms": self.rtt_ms,
            "load": self.load,
        }


def load_multiplier(load: float) -> float:
    """Return how much longer the cloud takes at this load by others, waiting included (M/D/1)."""
    return 1 + load / (2 * (1 - load))


def plan_family(weighing: Weighing, box: Box) -> Family:
    """Return every cut that is best in latency somewhere in the box, under the plan's rules.

    Limits on metrics do not bound a family: which of them bind changes with the link.

    Raises:
        PlanError: No placement keeps the rules.
    """
    weighing = _at_steady_rates(weighing)
    rules = [rule for rule in weighing.situation.wishes.rules if not isinstance(rule, Limit)]
    costs = _Costs(weighing.pricing)
    found: dict[str, Member] = {}
    alone = whole_on(weighing, 0, no_codecs(weighing))
    for problem in pose(weighing, rules).problems:
        # The envelope knows nothing of what the link costs once, so it may miss device-only.
        local = [alone] if is_allowed(problem, alone) else []
        for placement in (*_envelope(costs, problem.allowed, box), *local):
            member = costs.member(weighing.cut_id(placement.tiers), placement)
            known = found.get(member.cut)
            if known is None or member.uplink_bytes < known.uplink_bytes:
                found[member.cut] = member
    members = _winning(list(found.values()), box)
    rtt_ms, load = weighing.situation.link.rtt_ms, weighing.situation.wishes.load.factor
    crossovers = _crossovers(members, box, rtt_ms, load)
    return Family(box, tuple(members), crossovers, rtt_ms, load)


def _at_steady_rates(weighing: Weighing) -> Weighing:
    """The same with a link that only has rates: of one that varies, waiting is no fixed cost."""
    link = weighing.situation.link
    if isinstance(link, SteadyLink):
        return weighing
    steady = SteadyLink(link.uplink_mbps, link.downlink_mbps, link.rtt_ms)
    return Weighing(replace(weighing.situation, link=steady))


class _Costs:
    """Latency as metrics of each parameter."""

    def __init__(self, pricing: Pricing) -> None:
        self.pricing = pricing
        self.flow = pricing.flow
        link = pricing.situation.link
        self.up = pricing.up_bytes(0)
        self.cloud = pricing.cloud_ms
        self.total = pricing.latency_ms
        self._sending = _BIT_MS / link.uplink_mbps
        self._multiplier = pricing.load_multiplier if pricing.load_is_given else 1.0
        self._rtt_ms = link.rtt_ms

    def member(self, cut: str, placement: Placement) -> Member:
        used = footprint(self.flow, placement)
        up, cloud, total = (used.value(each) for each in (self.up, self.cloud, self.total))
        uses_link = bool(placement.tiers.max() > 0)
        fixed = total - up * self._sending - cloud * self._multiplier - self._rtt_ms * uses_link
        return Member(cut, max(0.0, fixed), up, cloud, uses_link, placement)

    def plane(self, placement: Placement) -> Plane:
        """Latency without what the first link costs once, by time per byte and multiplier."""
        used = footprint(self.flow, placement)
        free = replace(self.total, links=_without_first(self.total.links))
        up = replace(self.up, links=_without_first(self.up.links))
        total, sent, cloud = (used.value(each) for each in (free, up, self.cloud))
        return Plane(total - sent * self._sending - cloud * self._multiplier, sent, cloud)

    def at(self, byte_ms: float, multiplier: float) -> Metric:
        """Latency without what the first link costs once, at this point."""
        changes = ((self.up, byte_ms - self._sending), (self.cloud, multiplier - self._multiplier))
        metric = self.total
        for part, change in changes:
            metric = metric.plus(part.weighted(change))
        # Differences of equal numbers may come out a little below 0.
        units, tensors = (np.maximum(part, 0.0) for part in (metric.units, metric.tensors))
        links = _without_first(np.maximum(metric.links, 0.0))
        return replace(metric, units=units, tensors=tensors, links=links)


def _without_first(links: Costs) -> Costs:
    return np.concatenate([[0.0], links[1:]])


def _envelope(costs: _Costs, allowed: Allowed, box: Box) -> Sequence[Placement]:
    """The placements that are the best somewhere in the box, round trips apart."""
    area = _area(box)
    oracle = _Oracle(costs, allowed, area)
    planes = lower_envelope(area, oracle)
    return [oracle.placements[planes[number]] for number in on_envelope(planes, area)]


class _Oracle:
    """Finds the best placement at a point, on a network that shrinks with what was found."""

    def __init__(self, costs: _Costs, allowed: Allowed, area: Rectangle) -> None:
        self._costs, self._allowed, self._corners = costs, allowed, area.corners
        self._tables = [table_of(costs.at(x, y), allowed) for x, y in self._corners]
        self._contraction: Contraction | None = None
        self.placements: dict[Plane, Placement] = {}
        self._seen = 0

    def _contracted(self) -> Contraction:
        """The network without the borders that cannot win, by all that was found."""
        if len(self.placements) == self._seen and self._contraction is not None:
            return self._contraction
        self._seen = len(self.placements)
        values = [[plane.at(*corner) for corner in self._corners] for plane in self.placements]
        self._contraction = contract(
            self._costs.flow, self._tables, known=values, start=self._contraction
        )
        return self._contraction

    def __call__(self, x: float, y: float) -> Plane:
        metric = self._costs.at(x, y)
        contraction = self._contracted()
        small = contraction.allowed(self._allowed)
        found = least_placement(contraction.flow, contraction.metric(metric), small)
        if found is None:
            raise PlanError("no plan keeps the rules, so there is no plan family")
        placement = placement_of(contraction, found.tiers, metric, self._allowed)
        plane = self._costs.plane(placement)
        self.placements.setdefault(plane, placement)
        return plane


def _area(box: Box) -> Rectangle:
    """The box without round trips, as time per byte and multiplier of the cloud's time."""
    byte_ms = (_BIT_MS / box.uplink_mbps[1], _BIT_MS / box.uplink_mbps[0])
    return Rectangle(byte_ms, (load_multiplier(box.load[0]), load_multiplier(box.load[1])))


def _winning(members: list[Member], box: Box) -> list[Member]:
    """Those that are the best somewhere in the box, round trips included, slow uplinks first."""
    area = _area(box)
    linked = [member for member in members if member.uses_link]
    planes = [Plane(member.fixed_ms, member.uplink_bytes, member.cloud_ms) for member in linked]
    local = next((member for member in members if not member.uses_link), None)
    winning = []
    corners = on_envelope(planes, area) if planes else {}
    for number, points in corners.items():
        least = min(planes[number].at(*point) for point in points) + box.rtt_ms[0]
        if local is None or least <= local.fixed_ms:
            winning.append(linked[number])
    if local is not None:
        worst = min((plane.at(area.x[1], area.y[1]) for plane in planes), default=math.inf)
        if local.fixed_ms <= worst + box.rtt_ms[1]:
            winning.append(local)
    return sorted(winning, key=lambda member: (member.uplink_bytes, member.cut))


def _crossovers(
    members: Sequence[Member], box: Box, rtt_ms: float, load: float
) -> tuple[Crossover, ...]:
    """Where the best cut changes along the rate, exactly: where two lines meet."""
    waiting = load_multiplier(load)
    lines = [
        (m.fixed_ms + m.cloud_ms * waiting + rtt_ms * m.uses_link, m.uplink_bytes, m.cut)
        for m in members
    ]
    byte_ms = _BIT_MS / box.uplink_mbps[0]
    end = _BIT_MS / box.uplink_mbps[1]
    current = min(lines, key=lambda line: (line[0] + line[1] * byte_ms, line[0]))
    found: list[Crossover] = []
    while True:
        # Towards faster links a line that sends more catches up with one that sends less.
        meetings = [
            ((line[0] - current[0]) / (current[1] - line[1]), line)
            for line in lines
            if line[1] > current[1]
        ]
        reached = [(x, line) for x, line in meetings if end <= x <= byte_ms]
        if not reached:
            return tuple(found)
        byte_ms, following = max(reached, key=lambda item: (item[0], item[1][1]))
        found.append(Crossover(_BIT_MS / byte_ms, current[2], following[2]))
        current = following
