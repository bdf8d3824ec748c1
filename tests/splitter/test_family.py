"""A family holds the best cut for every link and load in its box, and knows where they change."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from profiler.links import SteadyLink
from splitter.errors import PlanError
from splitter.family import Box, Family, load_multiplier, plan_family
from splitter.optimise.problem import metric_value
from splitter.situation import Situation
from splitter.weighing import Weighing
from splitter.wishes import Keep, Load, Wishes
from tests.splitter.test_planner import every_placement, situations, toy

BOX = Box((0.5, 200.0), (0.0, 60.0), (0.0, 0.7))


def moments(box: Box) -> list[tuple[float, float, float]]:
    return list(
        itertools.product(
            np.geomspace(*box.uplink_mbps, 5).tolist(), box.rtt_ms, (box.load[0], 0.35, box.load[1])
        )
    )


def best_of_all(situation: Situation, moment: tuple[float, float, float]) -> float:
    uplink, rtt_ms, load = moment
    link = SteadyLink(uplink, situation.link.downlink_mbps, rtt_ms)
    there = replace(situation, link=link, wishes=Wishes(load=Load(factor=load)))
    weighing = Weighing(there)
    latency = weighing.pricing.latency_ms
    return min(
        metric_value(weighing.flow, latency, placement) for placement in every_placement(weighing)
    )


@settings(max_examples=8, deadline=None)
@given(situations())
def test_the_best_of_the_family_is_the_best_of_all_cuts(situation: Situation) -> None:
    assume(not situation.space.unsendable.intersection(situation.space.graph.outputs))
    family = plan_family(Weighing(situation), BOX)
    for moment in moments(BOX):
        best = family.best(*moment).latency_ms(*moment)
        assert best == pytest.approx(best_of_all(situation, moment), rel=1e-5, abs=1e-9)


@settings(max_examples=8, deadline=None)
@given(situations(), st.floats(0, 0.7))
def test_crossovers_are_where_the_best_changes(situation: Situation, load: float) -> None:
    assume(not situation.space.unsendable.intersection(situation.space.graph.outputs))
    situation = replace(situation, wishes=Wishes(load=Load(factor=load)))
    family = plan_family(Weighing(situation), BOX)
    rtt_ms = situation.link.rtt_ms
    ends = (BOX.uplink_mbps[0], *(each.uplink_mbps for each in family.crossovers))
    ends = (*ends, BOX.uplink_mbps[1])
    cuts = cuts_of(family, rtt_ms, load)
    assert list(ends) == sorted(ends)
    for low, high, cut in zip(ends[:-1], ends[1:], cuts, strict=True):
        middle = (low * high) ** 0.5
        values = {each.cut: each.latency_ms(middle, rtt_ms, load) for each in family.members}
        assert values[cut] == pytest.approx(min(values.values()), rel=1e-6)
    by_cut = {member.cut: member for member in family.members}
    for each in family.crossovers:
        before, after = (
            by_cut[cut].latency_ms(each.uplink_mbps, rtt_ms, load)
            for cut in (each.slower, each.faster)
        )
        assert before == pytest.approx(after, rel=1e-6)


def cuts_of(family: Family, rtt_ms: float, load: float) -> list[str]:
    if not family.crossovers:
        return [family.best(BOX.uplink_mbps[0], rtt_ms, load).cut]
    return [family.crossovers[0].slower, *(each.faster for each in family.crossovers)]


def test_rules_hold_for_the_whole_family() -> None:
    situation = toy(wishes=Wishes(rules=(Keep("input"),)))
    family = plan_family(Weighing(situation), BOX)
    assert "cloud" not in {member.cut for member in family.members}
    free = plan_family(Weighing(replace(situation, wishes=Wishes())), BOX)
    assert "cloud" in {member.cut for member in free.members}


@pytest.mark.parametrize(
    "ranges",
    [
        ((0.0, 1.0), (0.0, 1.0), (0.0, 0.5)),
        ((2.0, 1.0), (0.0, 1.0), (0.0, 0.5)),
        ((1.0, 2.0), (-1.0, 1.0), (0.0, 0.5)),
        ((1.0, 2.0), (0.0, 1.0), (0.0, 1.0)),
        ((1.0, float("nan")), (0.0, 1.0), (0.0, 0.5)),
    ],
)
def test_boxes_that_are_none(ranges: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(PlanError, match="the range of"):
        Box(*ranges)


def test_load_multiplier_is_that_of_one_server_at_constant_service() -> None:
    assert load_multiplier(0.0) == 1.0
    assert load_multiplier(0.5) == pytest.approx(1.5)
    assert load_multiplier(0.9) == pytest.approx(5.5)
