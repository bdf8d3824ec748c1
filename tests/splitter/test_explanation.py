"""An explanation tells true neighbours, true prices of rules, and the exact place of each flip."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from profiler.links import SteadyLink
from splitter.explanation import explain
from splitter.explanation_text import explanation_text
from splitter.planner import make_plan
from splitter.situation import Situation
from splitter.wishes import Keep, Limit, Wishes, parse_objectives
from tests.splitter.test_planner import situations, toy


def moved(situation: Situation, name: str, value: float) -> Situation:
    if name.endswith("slowness"):
        side = name.removesuffix("_slowness")
        profile = getattr(situation, side)
        return replace(situation, **{side: profile.scaled(value, profile.label)})
    return replace(situation, link=replace(situation.link, **{name: value}))


@settings(max_examples=8, deadline=None)
@given(situations())
def test_decisions_change_where_they_are_said_to(situation: Situation) -> None:
    assume(not situation.space.unsendable.intersection(situation.space.graph.outputs))
    plan = make_plan(situation)
    explanation = explain(situation, plan)
    assert explanation.flips is not None
    for flip in explanation.flips:
        assume(flip.now and abs(flip.at / flip.now - 1) > 1e-3)
        before = make_plan(moved(situation, flip.input, flip.now + (flip.at - flip.now) * 0.999))
        there = {item.cut: item.predicted.latency_ms for item in before.candidates}
        least = min(there.values())
        assert there.get(plan.chosen.cut, least) == pytest.approx(least, rel=1e-6)
        after = make_plan(moved(situation, flip.input, flip.now + (flip.at - flip.now) * 1.001))
        chosen = {item.cut: item.predicted.latency_ms for item in after.candidates}
        if plan.chosen.cut in chosen:
            assert chosen[plan.chosen.cut] > after.chosen.predicted.latency_ms


@settings(max_examples=8, deadline=None)
@given(situations())
def test_no_neighbour_is_better(situation: Situation) -> None:
    assume(not situation.space.unsendable.intersection(situation.space.graph.outputs))
    plan = make_plan(situation)
    explanation = explain(situation, plan)
    for neighbour in explanation.neighbours:
        assert len(neighbour.candidate.units ^ plan.chosen.units) == 1
        assert neighbour.values[0] >= explanation.values[0] * (1 - 1e-6)


def test_rules_that_bind_are_told_with_their_price() -> None:
    rules = (Keep("input"), Limit("latency_ms", 1e6))
    situation = toy(link=SteadyLink(1e4, 1e4), wishes=Wishes(rules=rules))
    plan = make_plan(situation)
    keep, limit = explain(situation, plan).bindings
    free = make_plan(replace(situation, wishes=Wishes()))
    assert keep.binds
    assert keep.without[0] == pytest.approx(free.chosen.predicted.latency_ms, rel=1e-6)
    assert not limit.binds
    text = explanation_text(plan, explain(situation, plan))
    assert "--keep-on-device input binds: without it" in text
    assert "latency_ms<=1e+06 does not bind" in text


def test_what_is_not_known_is_said() -> None:
    situation = toy(wishes=Wishes(parse_objectives("throughput")))
    plan = make_plan(situation)
    explanation = explain(situation, plan)
    assert explanation.flips is None
    assert "only known for an objective that is one sum" in explanation_text(plan, explanation)
