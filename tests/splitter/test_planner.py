"""The plan is the best of all cuts, its parts add up, and it says what it does not know."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from profiler.graph.observation import ObservedTensor
from profiler.links import SteadyLink
from profiler.profile import CodecSpeed, Profile
from profiler.radios import load_radio
from profiler.testing import fake_profile
from profiler.values import ModelIdentity, TensorSlot
from protocol.codecs import parse_codec
from splitter.cuts import CutSpace
from splitter.errors import PlanError
from splitter.optimise.problem import Placement, metric_value
from splitter.planner import make_plan
from splitter.report import plan_text
from splitter.situation import InputEncoding, Situation
from splitter.weighing import Weighing
from tests.splitter.graphs import spaces
from tests.splitter.helpers import Prepared, prepare
from tests.zoo import resnet_toy, string_inside

_MS = st.floats(0, 50)
_CODECS = {
    name: CodecSpeed(encode_mb_s=500, decode_mb_s=700, fixed_ms=0.02)
    for name in ("raw", "float16", "affine8", "affine4", "jpeg90")
}


def profile(label: str, layers_ms: dict[str, float], overhead_ms: float = 0.1) -> Profile:
    blank = fake_profile(layers_ms, label=label, overhead_ms=overhead_ms, codecs=_CODECS)
    return replace(blank, border_ms_per_mb=0.5, uncertainty=0.1)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    space = draw(spaces(most_nodes=6))
    names = [node.name for node in space.graph.nodes]
    shapes = {
        name: (draw(st.integers(1, 40_000)),)
        for name in {*space.graph.input_names, *space.graph.producer}
    }
    tensors = {
        name: ObservedTensor(
            TensorSlot(name, "float32", shape), shape, sendable=name not in space.unsendable
        )
        for name, shape in shapes.items()
    }
    return Situation(
        model=ModelIdentity("m", "0" * 64),
        space=space,
        tensors=tensors,
        device=profile("device", {name: draw(_MS) for name in names}),
        cloud=profile("cloud", {name: draw(_MS) for name in names}),
        link=SteadyLink(
            draw(st.floats(0.1, 1000)), draw(st.floats(0.1, 1000)), draw(st.floats(0, 50))
        ),
        codecs=(parse_codec(draw(st.sampled_from(["raw", "affine8"]))),),
    )


def every_placement(weighing: Weighing) -> list[Placement]:
    """Every legal cut between device and cloud, tensors in their only codec."""
    return [weighing.placement_of(cut.units) for cut in weighing.situation.space.all_cuts()]


@settings(max_examples=100, deadline=None)
@given(situations())
def test_the_plan_is_the_best_of_all_cuts(situation: Situation) -> None:
    space = situation.space
    if space.unsendable.intersection(space.graph.outputs):
        with pytest.raises(PlanError, match="only run whole, on the device"):
            make_plan(situation)
        return
    plan = make_plan(situation)
    weighing = Weighing(situation)
    placements = every_placement(weighing)
    every = [weighing.candidate(placement) for placement in placements]
    splits = [item.predicted.latency_ms for item in every if item.decision == "split"]
    assert (plan.best_split is None) == (not splits)
    if plan.best_split is not None:
        assert plan.best_split.predicted.latency_ms == pytest.approx(min(splits), rel=1e-4)
    best = min(candidate.predicted.latency_ms for candidate in every)
    assert plan.chosen.predicted.latency_ms == pytest.approx(best, rel=1e-5)
    latency = weighing.pricing.latency_ms
    for placement, candidate in zip(placements, every, strict=True):
        # What is optimised is what is reported.
        told = candidate.predicted.latency_ms
        assert metric_value(weighing.flow, latency, placement) == pytest.approx(told, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(situations())
def test_parts_add_up_and_baselines_are_there(situation: Situation) -> None:
    assume(not situation.space.unsendable.intersection(situation.space.graph.outputs))
    plan = make_plan(situation)
    for candidate in (plan.device_only, plan.cloud_only, *plan.candidates):
        cost = candidate.predicted
        parts = (cost.device_ms, cost.encode_ms, cost.uplink_ms, cost.queue_ms)
        parts += (cost.decode_ms, cost.cloud_ms, cost.downlink_ms)
        assert cost.latency_ms == pytest.approx(sum(parts))
        payloads = sum(tensor.bytes for tensor in candidate.tensors)
        around = 64 + 96 * len(candidate.tensors) if candidate.decision != "device" else 0
        assert cost.uplink_bytes == payloads + around
    device = plan.device_only.predicted
    assert device.latency_ms == device.device_ms == pytest.approx(situation.device.whole_ms)
    assert plan.cloud_only.predicted.device_ms == 0
    latencies = [candidate.predicted.latency_ms for candidate in plan.candidates]
    assert latencies == sorted(latencies)
    assert len(plan.candidates) <= 10
    nodes = {*plan.device_nodes, *plan.cloud_nodes}
    assert nodes == {node.name for node in situation.space.graph.regular}


def situation_of(prepared: Prepared, codec: str = "affine8") -> Situation:
    """A device ten times as slow as the cloud, and a middling link."""
    names = [node.name for node in prepared.stored.loaded.graph.nodes]
    return Situation(
        model=prepared.stored.loaded.identity,
        space=prepared.space,
        tensors=prepared.observation.tensors,
        device=profile("slow", dict.fromkeys(names, 10.0)),
        cloud=profile("fast", dict.fromkeys(names, 1.0)),
        link=SteadyLink(20, 20, 10),
        codecs=(parse_codec(codec),),
    )


@cache
def _toy() -> Situation:
    """Nothing of it is changed, so one trial of the model serves all tests."""
    model = resnet_toy()
    with tempfile.TemporaryDirectory() as folder:
        return situation_of(prepare(model.proto, model.feeds, Path(folder)))


def toy(**changes: object) -> Situation:
    return replace(_toy(), **changes)  # type: ignore[arg-type]


def test_a_picture_is_sent_as_a_picture_where_that_is_cheaper() -> None:
    small = InputEncoding("x", "jpeg90", 100, (12, 12, 3))
    plan = make_plan(toy(picture=small))
    (tensor,) = plan.cloud_only.tensors
    assert (tensor.codec, tensor.dtype, tensor.bytes) == ("jpeg90", "uint8", 100)
    large = replace(small, bytes=1_000_000)
    (tensor,) = make_plan(toy(picture=large)).cloud_only.tensors
    assert tensor.codec == "affine8"


def test_a_dead_slow_link_keeps_everything_on_the_device() -> None:
    plan = make_plan(toy(link=SteadyLink(0.001, 0.001, 500)))
    assert plan.chosen.decision == "device"
    assert not plan.cloud_nodes


def test_a_fast_link_sends_everything_to_the_cloud() -> None:
    plan = make_plan(toy(link=SteadyLink(1e5, 1e5)))
    assert plan.chosen.decision == "cloud"
    assert not plan.device_nodes


def test_it_says_when_the_decision_may_flip() -> None:
    sure = make_plan(toy(link=SteadyLink(0.001, 0.001, 500)))
    assert not any("uncertainty" in note for note in sure.notes)
    situation = toy(link=SteadyLink(1e5, 1e5))
    vague = replace(situation.device, uncertainty=0.95)
    plan = make_plan(replace(situation, device=vague))
    assert any("Within the uncertainty of the costs (up to 95%)" in note for note in plan.notes)


def test_it_says_that_fidelity_was_not_measured() -> None:
    plan = make_plan(toy(link=SteadyLink(1e5, 1e5)))
    assert "Fidelity of affine8 was not measured; the answer may change." in plan.notes


def test_a_codec_without_a_speed_is_refused_by_name() -> None:
    situation = toy()
    slow = replace(situation.device, codecs={"raw": _CODECS["raw"]})
    with pytest.raises(PlanError, match="'slow' does not say how fast the codec 'affine8' is"):
        make_plan(replace(situation, device=slow))


def test_an_input_that_cannot_be_sent_is_refused_by_name() -> None:
    situation = toy()
    space = CutSpace(situation.space.graph, situation.space.units, frozenset({"x"}))
    with pytest.raises(PlanError, match="'x', by its type or size: no message carries it"):
        make_plan(replace(situation, space=space))


def test_nothing_is_cut_at_a_string(tmp_path: Path) -> None:
    model = string_inside()
    prepared = prepare(model.proto, model.feeds, tmp_path)
    plan = make_plan(situation_of(prepared))
    assert all(tensor.dtype != "string" for item in plan.candidates for tensor in item.tensors)
    assert plan.best_split is not None


def test_energy_is_counted_where_power_is_known() -> None:
    situation = toy()
    blind = make_plan(situation)
    assert blind.device_only.predicted.device_energy_mj is None
    powered = replace(
        situation, device=replace(situation.device, idle_w=2.0, busy_w=5.0), radio=load_radio("lte")
    )
    plan = make_plan(powered)
    device, cloud = plan.device_only.predicted, plan.cloud_only.predicted
    assert device.device_energy_mj == device.compute_mj == pytest.approx(5 * device.latency_ms)
    assert (device.radio_mj, device.waiting_mj) == (0, 0)
    assert cloud.compute_mj == pytest.approx(5 * cloud.encode_ms)
    assert cloud.waiting_mj == pytest.approx(2 * (cloud.latency_ms - cloud.encode_ms))
    assert cloud.radio_mj is not None
    assert cloud.radio_mj > 10_000  # a lone frame pays for the whole tail
    assert "device mJ" in plan_text(plan)
    assert "device mJ" not in plan_text(blind)
    assert any("for which it stays awake afterwards" in note for note in plan.notes)
