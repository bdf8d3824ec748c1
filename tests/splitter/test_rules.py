"""Rules are kept by every candidate, and those that conflict are named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from profiler.graph.graph import build_graph
from profiler.links import SteadyLink
from protocol.codecs import parse_codec
from splitter.copies import copies_of
from splitter.errors import PlanError
from splitter.planner import make_plan
from splitter.situation import Situation
from splitter.wishes import Keep, Lack, Limit, Pin, Prices, Rule, Wishes, parse_objectives
from tests.splitter.test_planner import situations, toy

FAST = SteadyLink(1e4, 1e4)


def planned(situation: Situation, *rules: Rule, objective: str = "latency") -> object:
    wishes = Wishes(parse_objectives(objective), rules, Prices(1.0, 1.0))
    return make_plan(replace(situation, wishes=wishes))


@settings(max_examples=25, deadline=None)
@given(situations(), st.data())
def test_what_is_kept_never_crosses_nor_is_made_elsewhere(
    situation: Situation, data: st.DataObject
) -> None:
    graph = situation.space.graph
    assume(not situation.space.unsendable.intersection(graph.outputs))
    name = data.draw(st.sampled_from([*graph.producer, *sorted(graph.input_names)]))
    plan = make_plan(replace(situation, wishes=Wishes(rules=(Keep(name),))))
    for candidate in plan.candidates:
        assert name not in {tensor.name for tensor in candidate.tensors}
        maker = graph.producer.get(name)
        if maker is not None:
            assert situation.space.unit_of[maker.name] in candidate.units
        for reader in graph.consumers.get(name, ()):
            assert situation.space.unit_of[reader.name] in candidate.units


def test_inputs_that_are_kept_leave_no_cloud_only() -> None:
    plan = make_plan(toy(link=FAST, wishes=Wishes(rules=(Keep("input"),))))
    assert plan.chosen.decision != "cloud"
    assert "cloud" not in {candidate.cut for candidate in plan.candidates}
    assert plan.cloud_only.breaks == ("--keep-on-device input",)


def test_the_first_nodes_and_pins() -> None:
    situation = toy(link=FAST)
    names = [node.name for node in situation.space.graph.regular]
    first = make_plan(replace(situation, wishes=Wishes(rules=(Keep("first:3"),))))
    assert set(names[:3]) <= set(first.device_nodes)
    pinned = make_plan(replace(situation, wishes=Wishes(rules=(Pin(names[-1], "device"),))))
    assert pinned.chosen.decision == "device"
    slow = replace(situation, link=SteadyLink(0.01, 0.01))
    away = make_plan(replace(slow, wishes=Wishes(rules=(Pin(names[-1], "cloud"),))))
    assert names[-1] in away.cloud_nodes


def test_operators_that_a_tier_lacks() -> None:
    situation = toy(link=SteadyLink(0.01, 0.01, 500))
    assert make_plan(situation).chosen.decision == "device"
    plan = make_plan(replace(situation, wishes=Wishes(rules=(Lack("device", ("Conv",)),))))
    kinds = {situation.space.graph.by_name[name].op_type for name in plan.device_nodes}
    assert "Conv" not in kinds


def test_a_fidelity_floor_without_measurements_leaves_what_loses_nothing() -> None:
    both = (parse_codec("affine8"), parse_codec("raw"))
    situation = toy(link=FAST, codecs=both)
    plan = make_plan(replace(situation, wishes=Wishes(rules=(Limit("kl_nats", 0.01),))))
    assert plan.chosen.decision != "device"
    assert {tensor.codec for tensor in plan.chosen.tensors} == {"raw"}
    only_lossy = replace(situation, codecs=both[:1], wishes=Wishes(rules=(Limit("kl_nats", 0.01),)))
    assert make_plan(only_lossy).chosen.decision == "device"


def test_measured_losses_add_up() -> None:
    situation = toy(link=FAST)
    losses = {(name, "affine8"): 0.004 for name in situation.tensors}
    known = replace(situation, fidelity_kl=losses)
    plan = make_plan(replace(known, wishes=Wishes(rules=(Limit("kl_nats", 0.005),))))
    assert plan.chosen.predicted.kl_nats is not None
    assert plan.chosen.predicted.kl_nats <= 0.005
    strict = make_plan(replace(known, wishes=Wishes(rules=(Limit("kl_nats", 0.003),))))
    assert strict.chosen.decision == "device"


def test_limits_bind() -> None:
    situation = toy(link=SteadyLink(5, 5, 10))
    free = make_plan(situation)
    most = free.chosen.predicted.device_memory_bytes / 1e6 * 0.999
    for limit in (Limit("device_memory_mb", most), Limit("uplink_bytes", 1.0)):
        plan = make_plan(replace(situation, wishes=Wishes(rules=(limit,))))
        value = plan.chosen.predicted.metric(limit.metric)
        assert value is not None
        assert value <= limit.most * (1 + 1e-6)


def test_conflicts_are_named_and_nothing_else() -> None:
    situation = toy(link=SteadyLink(1, 1, 100))
    rules = (
        Limit("device_ms", 1e6),
        Keep("input"),
        Limit("device_memory_mb", 0.001),
        Limit("uplink_bytes", 1e9),
    )
    with pytest.raises(PlanError) as caught:
        make_plan(replace(situation, wishes=Wishes(rules=rules)))
    assert str(caught.value) == (
        "no plan keeps --keep-on-device input and device_memory_mb<=0.001 together; "
        "give up or loosen one of them"
    )
    with pytest.raises(PlanError, match=r"no plan keeps latency_ms<=0.1; the least possible is"):
        make_plan(replace(situation, wishes=Wishes(rules=(Limit("latency_ms", 0.1),))))


def test_copies_are_found_through_what_only_moves() -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        agraph (float[2,3] x) => (float[1,12] y)
        {
            r = Reshape (x, shape)
            t = Transpose (r)
            z = Relu (t)
            both = Concat <axis=0> (t, z)
            flat = Flatten <axis=0> (both)
            y = Relu (flat)
        }
    """
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3, 2]), "shape"))
    graph = build_graph(proto.graph)
    assert copies_of(graph, ["x"]) == {"x", "r", "t", "both", "flat"}
    assert copies_of(graph, ["t"]) == {"x", "r", "t", "both", "flat"}
    assert copies_of(graph, ["z"]) == {"z", "both", "flat"}
    assert copies_of(graph, ["both"]) == {"both", "flat"}
