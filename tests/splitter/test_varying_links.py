"""Plans for links that vary: candidates are ranked by what they take in expectation, exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from profiler.links.traced import TracedLink
from protocol.emulator import BandwidthTrace, TracePace
from splitter.planner import make_plan
from splitter.situation import Situation
from splitter.weighing import Weighing
from tests.splitter.test_planner import every_placement, situations, toy

# Two good seconds, two bad ones, an outage: the mean is 8.1 Mbit/s.
UNEVEN = TracedLink(BandwidthTrace((0.0, 2.0, 4.0), (20.0, 0.5, 0.0)), 20.0, "uneven.csv")


@st.composite
def traced_links(draw: st.DrawFn) -> TracedLink:
    rates = draw(st.lists(st.one_of(st.just(0.0), st.floats(0.2, 100)), min_size=1, max_size=6))
    rates[0] = draw(st.floats(0.2, 100))
    times = np.arange(len(rates)) * draw(st.floats(0.01, 2))
    return TracedLink(BandwidthTrace(tuple(times.tolist()), tuple(rates)), 10.0, "drawn.csv")


@settings(max_examples=60, deadline=None)
@given(situations(), traced_links())
def test_the_short_list_holds_a_cut_close_to_the_best_of_all(
    situation: Situation, link: TracedLink
) -> None:
    space = situation.space
    assume(not space.unsendable.intersection(space.graph.outputs))
    situation = replace(situation, link=link)
    plan = make_plan(situation)
    weighing = Weighing(situation)
    every = [
        weighing.candidate(placement).predicted.latency_ms
        for placement in every_placement(weighing)
    ]
    assert plan.chosen.predicted.latency_ms <= min(every) * 1.1
    latencies = [candidate.predicted.latency_ms for candidate in plan.candidates]
    assert latencies == sorted(latencies)


def test_times_on_the_link_are_those_of_the_whole_message() -> None:
    plan = make_plan(toy(link=UNEVEN))
    pace = TracePace(UNEVEN.trace, 0.0)
    starts_s = (np.arange(20_000) + 0.5) / 20_000 * UNEVEN.trace.period_s
    for candidate in plan.candidates:
        cost = candidate.predicted
        if candidate.decision == "device":
            assert cost.uplink_ms == cost.uplink_p50_ms == cost.uplink_p95_ms == 0
            continue
        # Both profiles take 0 ms for an exchange, so only the link is left.
        times_ms = 10 + 1e3 * np.array(
            [pace.finish_s(start_s, cost.uplink_bytes) - start_s for start_s in starts_s]
        )
        assert cost.uplink_ms == pytest.approx(times_ms.mean(), rel=1e-3)
        assert cost.uplink_p95_ms == pytest.approx(np.quantile(times_ms, 0.95), rel=5e-3)
        assert cost.uplink_p50_ms <= cost.uplink_p95_ms


def test_a_plan_tells_how_the_link_varies() -> None:
    situation = toy()
    slow_device = replace(situation.device, whole_ms=1e5)
    plan = make_plan(replace(situation, device=slow_device, link=UNEVEN))
    assert plan.chosen.decision != "device"
    assert any(note.startswith("The link varies: for ") for note in plan.notes)
    assert plan.to_dict()["link"] == UNEVEN.to_dict()
    steady = make_plan(replace(situation, device=slow_device))
    assert not any("varies" in note for note in steady.notes)
