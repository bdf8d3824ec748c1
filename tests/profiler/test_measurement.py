"""Measured profiles: their arithmetic on made-up kernels, and one real measurement."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import helper, numpy_helper

from profiler import measurement, probes
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.errors import EngineError, ProfileError
from profiler.graph.feeds import resolve_feeds
from profiler.graph.graph import Unit
from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.weights import store_model
from profiler.kernels import Attribution, Kernel
from profiler.measurement import MeasureOptions, build_profile, measure_profile
from profiler.peak_memory import measure_peak_memory
from profiler.probes import measure_border
from profiler.profile_file import profile_from_dict
from profiler.testing import fake_profile
from profiler.timing import FineClock, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    SaveModel = Callable[..., Path]

UNITS = (
    Unit(0, "relu", ("conv", "relu"), ("image",), ("r",)),
    Unit(1, "fc", ("fc",), ("r",), ("y",)),
    Unit(2, "identity", ("identity",), ("y",), ("z",)),
)
# Profiled kernels of 8 ms for a run that takes 4.5 ms without a profile.
ATTRIBUTION = Attribution(
    kernels={
        0: (Kernel("r_nchwc", "Conv", 3.0, 0.3), Kernel("extra", "Add", 1.0, 0.1)),
        1: (Kernel("fc", "Gemm", 2.0, 0.2),),
    },
    layout={0: (Kernel("ReorderOutput", "ReorderOutput", 1.0, 0.0),)},
    unattributed=(Kernel("mystery", "Mystery", 1.0, 0.0),),
)
BLANK = replace(fake_profile({}), whole_ms=4.5, border_ms_per_mb=0.25)
OVERHEAD_MS = 0.5


def test_profiled_proportions_are_scaled_to_the_whole() -> None:
    profile = build_profile(BLANK, OVERHEAD_MS, ATTRIBUTION, UNITS, {"r": 100, "y": 20, "z": 20})
    relu, fc, identity = profile.layers
    assert (relu.latency_ms, relu.layout_ms, relu.spread_ms) == pytest.approx((2, 0.5, 0.2))
    assert (relu.kind, relu.output_bytes, relu.nodes) == ("Conv+Add", 100, ("conv", "relu"))
    assert (fc.latency_ms, fc.layout_ms) == pytest.approx((1, 0))
    assert (identity.latency_ms, identity.kind) == (0, "")
    assert profile.unattributed_ms == pytest.approx(0.5)
    assert profile.border_ms_per_mb == 0.25
    assert profile_from_dict(profile.to_dict()) == profile
    assert profile.run_ms(["conv", "relu", "fc", "identity"]) == pytest.approx(4.5)


def test_a_tiny_model_keeps_costs_for_its_layers() -> None:
    """Measured in turn with it, a run of nothing may take as long by chance."""
    profile = build_profile(replace(BLANK, whole_ms=0.02), OVERHEAD_MS, ATTRIBUTION, UNITS, {})
    assert profile.overhead_ms == pytest.approx(0.01)
    assert profile.cost_of(["conv", "relu", "fc"]) == pytest.approx(0.01)


def test_a_model_without_kernels_is_all_overhead() -> None:
    nothing = Attribution({}, {}, ())
    profile = build_profile(BLANK, OVERHEAD_MS, nothing, UNITS, {})
    assert profile.overhead_ms == profile.whole_ms
    assert profile.cost_of(["conv", "fc"]) == 0


@pytest.fixture
def network(save_model: SaveModel) -> Path:
    generator = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w1", (16, 3, 3, 3)), ("w2", (16, 10)))
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "w2"], ["logits"], name="matmul"),
    ]
    return save_model(nodes, {"image": ["n", 3, 64, 64]}, {"logits": ["n", 10]}, weights)


QUICK = Schedule(warm_up=2, least=4, most=4)


def test_measures_a_model(network: Path, tmp_path: Path) -> None:
    loaded = load_model(network)
    stored = store_model(loaded, tmp_path)
    before = sorted(entry.name for entry in tmp_path.iterdir())
    feeds = resolve_feeds(loaded.graph.inputs, {}, {"image": (1, 3, 64, 64)})
    steps: list[str] = []
    profile = measure_profile(
        stored,
        observe(stored, feeds),
        MeasureOptions(EngineOptions(threads=1), QUICK, label="bench"),
        steps.append,
    )
    assert profile.label == "bench"
    assert profile.kind == "measured"
    assert profile.engine.threads == 1
    assert profile.inputs[0].shape == (1, 3, 64, 64)
    assert profile.unattributed_ms == 0
    covered = {node for layer in profile.layers for node in layer.nodes}
    assert covered == {"conv", "relu", "pool", "flatten", "matmul"}
    assert profile.cost_of(["conv", "relu"]) > profile.cost_of(["matmul"])
    assert profile.layers[0].output_bytes == 16 * 64 * 64 * 4
    assert "affine8" in profile.codecs
    assert profile_from_dict(profile.to_dict()) == profile
    assert 0 < profile.overhead_ms < profile.whole_ms
    assert steps[0] == "border"
    assert steps.count("runs") == QUICK.warm_up + QUICK.most
    profile.require(loaded.identity, profile.inputs)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before


def test_each_run_waits_where_that_is_asked_for(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As frames that come one by one have it; the note says so."""
    loaded = load_model(network)
    stored = store_model(loaded, tmp_path)
    observation = observe(stored, resolve_feeds(loaded.graph.inputs, {}, {"image": (1, 3, 64, 64)}))
    pauses: list[float] = []
    monkeypatch.setattr(measurement.time, "sleep", pauses.append)
    options = MeasureOptions(EngineOptions(threads=1), QUICK, idle_ms=30.0)
    profile = measure_profile(stored, observation, options)
    runs = QUICK.warm_up + QUICK.most
    assert pauses.count(0.03) == 3 * runs
    assert "30 ms idle before each" in profile.notes[0]


def test_kernels_that_no_node_knows_are_no_profile() -> None:
    """A provider that compiles the model into one kernel; a profile of another model."""
    unknown = Attribution({}, {}, (Kernel("TRTKernel_0", "TRT", 1.0, 0.0),))
    with pytest.raises(ProfileError, match=r"none of the 1 kernels .* 'TRTKernel_0'"):
        build_profile(BLANK, OVERHEAD_MS, unknown, UNITS, {})


def test_the_border_is_measured(tmp_path: Path) -> None:
    engine = OnnxRuntimeEngine(EngineOptions(threads=1))
    assert measure_border(engine, tmp_path, FineClock()) >= 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_peak_memory_counts_the_largest_tensors(save_model: SaveModel) -> None:
    path = save_model(
        [
            helper.make_node("Exp", ["x"], ["a"]),
            helper.make_node("Sin", ["a"], ["b"]),
            helper.make_node("ReduceSum", ["b"], ["y"], keepdims=0),
        ],
        {"x": ["n"]},
        {"y": []},
    )
    peaks = [
        measure_peak_memory(path, {"x": np.ones(size, np.float32)}, EngineOptions(threads=1))
        for size in (1 << 10, 1 << 24)
    ]
    assert all(peak is not None for peak in peaks)
    tensor_bytes = 4 << 24
    # The arena grows in powers of two, so the upper bound is wide.
    assert tensor_bytes < peaks[1] - peaks[0] < 8 * tensor_bytes


def test_a_model_that_does_not_run_has_no_peak(save_model: SaveModel) -> None:
    path = save_model([helper.make_node("Exp", ["x"], ["y"])], {"x": [3]}, {"y": [3]})
    wrong = {"x": np.ones(4, np.float32)}
    assert measure_peak_memory(path, wrong, EngineOptions(threads=1)) is None


def test_a_model_of_another_feed_is_refused(network: Path, tmp_path: Path) -> None:
    loaded = load_model(network)
    stored = store_model(loaded, tmp_path)
    feeds = resolve_feeds(loaded.graph.inputs, {}, {"image": (1, 3, 64, 64)})
    observation = observe(stored, feeds)
    stored.full.write_bytes(b"broken meanwhile")
    with pytest.raises(EngineError, match=r"cannot load full\.onnx"):
        measure_profile(stored, observation, MeasureOptions(EngineOptions(threads=1), QUICK))


def test_the_border_is_what_two_parts_take_longer_than_the_whole() -> None:
    """Nothing 0.1, both 2.0, first 1.4, second 1.3 ms; the odd round is disturbed."""
    calm = (0.1, 2.0, 1.4, 1.3)
    rounds = [calm, calm, (5.0, 9.0, 90.0, 7.0), calm, calm]
    assert probes._border_ms_per_mb(rounds) == pytest.approx(0.6 / 1.048576)
    assert probes._border_ms_per_mb([(0.1, 9.0, 1.0, 1.0)] * 3) == 0
