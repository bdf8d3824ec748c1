"""Policies on a trace: none beats who knows the future, and a family beats one cut for ever."""

from __future__ import annotations

import pytest

from profiler.links.traced import TracedLink
from protocol.emulator import BandwidthTrace
from splitter.family import Box, plan_family
from splitter.policy import trace_policies
from splitter.weighing import Weighing
from tests.splitter.test_planner import toy


def policies(trace: BandwidthTrace):  # type: ignore[no-untyped-def]
    link = TracedLink(trace, 5.0, "drawn.csv")
    weighing = Weighing(toy(link=link))
    family = plan_family(weighing, Box((0.001, 1000.0), (0.0, 100.0), (0.0, 0.5)))
    return {policy.name: policy for policy in trace_policies(family, link, 0.0)}


def test_who_knows_the_future_is_never_beaten() -> None:
    found = policies(BandwidthTrace((0.0, 2.0, 4.0), (100.0, 0.05, 0.0)))
    clairvoyant = found["clairvoyant"]
    assert clairvoyant.regret_ms == 0
    for policy in found.values():
        assert policy.latency_ms >= clairvoyant.latency_ms - 1e-9
        assert policy.regret_ms == pytest.approx(policy.latency_ms - clairvoyant.latency_ms)
        assert sum(policy.cuts.values()) == pytest.approx(1)
    assert len(found["static"].cuts) == 1
    assert found["by rate"].latency_ms < found["static"].latency_ms


def test_on_a_steady_link_all_are_the_same() -> None:
    found = policies(BandwidthTrace((0.0, 1.0), (20.0, 20.0)))
    for policy in found.values():
        assert policy.regret_ms == pytest.approx(0, abs=1e-6)
