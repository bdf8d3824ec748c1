"""Peak memory: the sum by hand, and against what a process really takes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.engine import EngineOptions
from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.runtime import HeldWeight, RuntimeGraph, RuntimeKernel
from profiler.graph.runtime_observation import observe_runtime
from profiler.graph.weights import store_model
from profiler.liveness import Step
from profiler.memory import PeakMemory, predict_peak_memory
from profiler.peak_memory import measure_peak_memory

KIB = 1 << 10
ONE = EngineOptions(threads=1)
GRAPH = RuntimeGraph(
    kernels=(
        RuntimeKernel(Step("Conv", ("x",), ("a",)), 0, ("w",)),
        RuntimeKernel(Step("Conv", ("a",), ("b",)), 1, ("w", "v")),
        RuntimeKernel(Step("Conv", ("b",), ("y",)), 2, ()),
    ),
    tensor_bytes={"x": KIB, "a": 100 * KIB, "b": 60 * KIB, "y": 10 * KIB},
    weights={"w": HeldWeight(1000, 0), "v": HeldWeight(200, 0)},
    plain=frozenset({"x", "a", "b", "y"}),
    outputs=frozenset({"y"}),
    unit_nodes={0: 1, 1: 1, 2: 1},
    fixed_shapes=True,
)


def test_no_units_take_nothing() -> None:
    assert predict_peak_memory(GRAPH, (), ONE) == PeakMemory(0, 0, 0, 0)
    assert PeakMemory(0, 0, 0, 0).total_bytes == 0


def test_the_peak_is_overhead_weights_and_the_larger_of_loading_and_running() -> None:
    assert PeakMemory(1, 20, 300, 4000).total_bytes == 4021
    assert PeakMemory(1, 20, 5000, 4000).total_bytes == 5021


def test_activations_are_what_the_arena_handed_out() -> None:
    """First 100, 60 behind it, 10 in the freed 100; then one block of 160 KiB, and 10 behind it."""
    peak = predict_peak_memory(GRAPH, range(3), ONE)
    assert peak.activations_bytes == 170 * KIB
    without = predict_peak_memory(GRAPH, range(3), replace(ONE, arena=False))
    assert without.activations_bytes == (160 + 160) * KIB


def test_working_memory_counts_in_each_run() -> None:
    busy = RuntimeKernel(Step("LRN", ("a",), ("b",), (500 * KIB, 300 * KIB)), 1, ())
    graph = replace(GRAPH, kernels=(GRAPH.kernels[0], busy, GRAPH.kernels[2]))
    peak = predict_peak_memory(graph, range(3), ONE)
    assert peak.activations_bytes >= (160 + 800) * KIB
    without = predict_peak_memory(graph, range(3), replace(ONE, arena=False))
    assert without.activations_bytes == (160 + 160 + 800) * KIB


def test_each_weight_counts_once_and_its_rewriting_on_top() -> None:
    assert predict_peak_memory(GRAPH, range(3), ONE).weights_bytes == 1200
    assert predict_peak_memory(GRAPH, {0}, ONE).weights_bytes == 1000
    assert predict_peak_memory(GRAPH, {0}, ONE).loading_bytes == 1000
    for rewrites, held in ((1, 1500), (2, 2500)):
        weights = {**GRAPH.weights, "w": HeldWeight(1000, rewrites)}
        peak = predict_peak_memory(replace(GRAPH, weights=weights), {0}, ONE)
        assert (peak.weights_bytes, peak.loading_bytes) == (held, 2500)


def test_more_nodes_take_more() -> None:
    whole, head = (predict_peak_memory(GRAPH, units, ONE) for units in (range(3), {0}))
    assert whole.overhead_bytes > head.overhead_bytes > 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "name", ["efficientnet_lite0", "seeded_squeezenet", "mtcnn_pnet", "tinygpt_prefill"]
)
def test_what_is_predicted_is_what_a_process_takes(name: str, shared: Path, tmp_path: Path) -> None:
    """A quarter off is a wrong model; the benchmark says how good it is."""
    path = shared / "models" / f"{name}.onnx"
    loaded = load_model(path)
    feeds = resolve_feeds(loaded.graph.inputs, read_feeds(path.with_suffix(".feed.npz")), {})
    stored = store_model(loaded, tmp_path)
    observation = observe(stored, feeds)
    runtime = observe_runtime(stored, observation)
    predicted = predict_peak_memory(runtime, range(len(observation.units)), ONE)
    measured = measure_peak_memory(stored.full, feeds, ONE)
    assert predicted.total_bytes == pytest.approx(measured, rel=0.25)
