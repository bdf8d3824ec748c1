"""How far each input must move before another plan is better. Needs numpy and scipy.

An additive objective is linear in the time per byte, the round trip, and how slow a machine is. So
the value at which another placement takes over is found exactly, by the method of Newton: go to the
end of the range, see which placement is best there, go to where it meets the chosen one, and repeat
until the chosen one is the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from profiler.links import SteadyLink
from protocol.rates import HIGHEST_MBPS, LONGEST_MS, LOWEST_MBPS
from splitter.optimise.problem import Placement, Problem, Sum, footprint
from splitter.optimise.solver import solve
from splitter.problems import pose
from splitter.situation import Situation
from splitter.weighing import Weighing

Input = Literal["uplink_mbps", "downlink_mbps", "rtt_ms", "device_slowness", "cloud_slowness"]
_CLOSE = 1e-7
_MOST_STEPS = 60
_SLOWNESS = 20.0  # a machine that is so many times slower or faster is another machine
_RANGE = 100.0


@dataclass(frozen=True)
class Flip:
    """Where another plan takes over.

    Attributes:
        input: What moves.
        now: Its value.
        at: The value at which another plan is as good.
        cut: The id of that plan.
    """

    input: Input
    now: float
    at: float
    cut: str


@dataclass(frozen=True)
class _Axis:
    """An input as the solver sees it: costs are linear in it.

    Attributes:
        input: Its name.
        start: Where it is.
        ends: How far it is followed, down and up.
        situation: The situation at a value.
        shown: A value as users know it.
    """

    input: Input
    start: float
    ends: tuple[float, float]
    situation: Callable[[float], Situation]
    shown: Callable[[float], float]


def flips(situation: Situation, chosen: Placement, time_limit_s: float) -> tuple[Flip, ...] | None:
    """Return for each input and direction where another plan takes over, if one does.

    Of links that vary nothing is told; of objectives that are no sum, nothing at all: ``None``.
    """
    goals = pose(Weighing(situation), situation.wishes.rules).problems[0].goals
    if len(goals) != 1 or not isinstance(goals[0], Sum):
        return None
    found = (
        _flip(axis, end, chosen, time_limit_s)
        for axis in _axes(situation)
        for end in axis.ends
        if end != axis.start
    )
    return tuple(flip for flip in found if flip is not None)


def _flip(axis: _Axis, end: float, chosen: Placement, time_limit_s: float) -> Flip | None:
    x, rival = end, None
    for _ in range(_MOST_STEPS):
        weighing, best = _best_at(axis, x, chosen, time_limit_s)
        if best is None:
            break
        rival = weighing.cut_id(best.tiers)
        gap_start = _gap(axis.situation(axis.start), chosen, best)
        gap_here = _gap(axis.situation(x), chosen, best)
        meeting = axis.start + (x - axis.start) * gap_start / (gap_start - gap_here)
        if abs(meeting - x) <= _CLOSE * max(abs(x), abs(axis.start)):
            break
        x = meeting
    if rival is None:
        return None
    return Flip(axis.input, axis.shown(axis.start), axis.shown(x), rival)


def _best_at(
    axis: _Axis, x: float, chosen: Placement, time_limit_s: float
) -> tuple[Weighing, Placement | None]:
    """The best placement at a value, where it is better than the chosen one."""
    situation = axis.situation(x)
    weighing = Weighing(situation)
    best, least = None, _worth(weighing, chosen)
    room = _CLOSE * max(1.0, abs(least))
    for problem in pose(weighing, situation.wishes.rules).problems:
        found = solve(problem, time_limit_s)
        if found is not None and found.values[0] < least - room:
            best, least = found.placement, found.values[0]
    return weighing, best


def _gap(situation: Situation, chosen: Placement, other: Placement) -> float:
    """By how much the other is dearer."""
    weighing = Weighing(situation)
    return _worth(weighing, other) - _worth(weighing, chosen)


def _worth(weighing: Weighing, placement: Placement) -> float:
    problem: Problem = pose(weighing, ()).problems[0]
    (metric,) = problem.goal_metrics
    return footprint(weighing.flow, placement).value(metric)


def _axes(situation: Situation) -> Iterator[_Axis]:
    link = situation.link
    if isinstance(link, SteadyLink):
        yield from _link_axes(situation, link)
    sides: tuple[tuple[Input, str], ...] = (
        ("device_slowness", "device"),
        ("cloud_slowness", "cloud"),
    )
    for name, field in sides:

        def slower(factor: float, field: str = field) -> Situation:
            profile = getattr(situation, field)
            return replace(situation, **{field: profile.scaled(factor, profile.label)})

        yield _Axis(name, 1.0, (1 / _SLOWNESS, _SLOWNESS), slower, float)


def _link_axes(situation: Situation, link: SteadyLink) -> Iterator[_Axis]:
    rates: tuple[Input, ...] = ("uplink_mbps", "downlink_mbps")
    for name in rates:
        now = float(getattr(link, name))
        ends = (1 / min(now * _RANGE, HIGHEST_MBPS), 1 / max(now / _RANGE, LOWEST_MBPS))

        def at_rate(inverse: float, name: str = name) -> Situation:
            rates = {"uplink_mbps": link.uplink_mbps, "downlink_mbps": link.downlink_mbps}
            rates[name] = 1 / inverse
            up, down = rates["uplink_mbps"], rates["downlink_mbps"]
            return replace(situation, link=replace(link, uplink_mbps=up, downlink_mbps=down))

        yield _Axis(name, 1 / now, ends, at_rate, lambda inverse: 1 / inverse)

    def at_round_trip(rtt_ms: float) -> Situation:
        return replace(situation, link=replace(link, rtt_ms=rtt_ms))

    furthest = min(max(link.rtt_ms * _RANGE, 1000.0), LONGEST_MS)
    yield _Axis("rtt_ms", link.rtt_ms, (0.0, furthest), at_round_trip, float)
