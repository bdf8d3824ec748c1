"""Costs that others recorded, with profiles that ONNX Runtime really wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from profiler.errors import ProfileError
from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import LoadedModel, load_model
from profiler.graph.observation import Observation, observe
from profiler.graph.weights import store_model
from profiler.presets import load_preset
from profiler.profile import Profile
from profiler.profile_file import profile_from_dict, write_profile
from profiler.profile_trace import write_profile_trace
from profiler.recording import Recording, read_costs, recorded_profile
from profiler.testing import fake_profile

if TYPE_CHECKING:
    from collections.abc import Callable

    SaveModel = Callable[..., Path]

NODES = ("conv", "relu", "pool", "flatten", "matmul")


@dataclass(frozen=True)
class Known:
    """A model that was tried out here."""

    path: Path
    loaded: LoadedModel
    observation: Observation


def network(save_model: SaveModel, *, named: bool = True, name: str = "model.onnx") -> Path:
    generator = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), weight)
        for weight, shape in (("w1", (16, 3, 3, 3)), ("w2", (16, 10)))
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "w2"], ["logits"], name="matmul"),
    ]
    if not named:
        for node in nodes:
            node.ClearField("name")
    image = {"image": ["n", 3, "h", "w"]}
    return save_model(nodes, image, {"logits": ["n", 10]}, weights, name)


def known(path: Path, folder: Path, feeds: dict[str, Any]) -> Known:
    loaded = load_model(path)
    folder.mkdir()
    return Known(path, loaded, observe(store_model(loaded, folder), feeds))


@pytest.fixture
def model(save_model: SaveModel, tmp_path: Path) -> Known:
    return known(network(save_model), tmp_path / "stored", {"image": image(64)})


def image(side: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal((1, 3, side, side)).astype(np.float32)


def runtime_profile(
    path: Path, feeds: dict[str, Any], folder: Path, runs: int = 6, threads: int = 1
) -> Path:
    """What a user of ONNX Runtime gets who turns its profiler on."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.intra_op_num_threads = threads
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    for _ in range(runs):
        session.run(None, feeds)
    return Path(session.end_profiling())


def imported(path: Path, model: Known) -> Profile:
    recording = read_costs(path, "pi4")
    assert isinstance(recording, Recording)
    profile = recorded_profile(recording, model.loaded, model.observation)
    assert profile_from_dict(profile.to_dict()) == profile
    profile.require(model.loaded.identity, profile.inputs)
    profile.require_nodes([node.name for node in model.loaded.graph.regular])
    return profile


def write(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data))
    return path


def trace(*events: tuple[str, float, float]) -> list[dict[str, Any]]:
    """Complete events as (name, start, duration) in microseconds."""
    return [
        {"name": name, "ph": "X", "ts": start, "dur": length, "pid": 1, "tid": 1}
        for name, start, length in events
    ]


class TestRuntimeProfiles:
    def test_a_real_one(self, model: Known, tmp_path: Path) -> None:
        path = runtime_profile(model.path, {"image": image(64)}, tmp_path)
        profile = imported(path, model)
        preset = load_preset("pi4")
        assert profile.kind == "measured"
        assert (profile.engine.name, profile.engine.threads) == ("onnxruntime", 1)
        assert profile.engine.provider == "CPUExecutionProvider"
        assert profile.cost_of(["conv", "relu"]) > profile.cost_of(["matmul"]) > 0
        runs = [
            event["dur"] for event in json.loads(path.read_text()) if event["name"] == "model_run"
        ]
        assert profile.whole_ms == pytest.approx(np.median(runs[3:]) / 1e3)
        assert profile.run_ms(NODES) == pytest.approx(profile.whole_ms)
        assert profile.codecs == preset.codecs
        assert profile.exchange_ms == preset.exchange_ms
        assert "medians of 3 runs with the profile on" in profile.notes[0]
        assert "those of the preset pi4" in profile.notes[-1]
        assert profile.uncertainty >= 0.2

    def test_it_is_known_by_its_content(self, model: Known, tmp_path: Path) -> None:
        path = runtime_profile(model.path, {"image": image(64)}, tmp_path)
        events = json.loads(path.read_text())
        wrapped = write(tmp_path / "wrapped.onnx", {"traceEvents": events})
        assert imported(wrapped, model).whole_ms == imported(path, model).whole_ms

    def test_nodes_without_names(self, save_model: SaveModel, tmp_path: Path) -> None:
        """The runtime numbers them; so much as it fuses is named after tensors."""
        path = network(save_model, named=False)
        unnamed = known(path, tmp_path / "stored", {"image": image(64)})
        profile = imported(runtime_profile(path, {"image": image(64)}, tmp_path), unnamed)
        assert all(layer.latency_ms > 0 for layer in profile.layers if layer.kind == "MatMul")
        assert profile.uncertainty < 1

    def test_another_model(self, model: Known, save_model: SaveModel, tmp_path: Path) -> None:
        nodes = [helper.make_node("Exp", ["x"], ["e"], name="exp")]
        other = save_model(nodes, {"x": [4]}, {"e": [4]}, name="other.onnx")
        path = runtime_profile(other, {"x": np.ones(4, np.float32)}, tmp_path)
        with pytest.raises(ProfileError, match=r"none of the 1 kernels .* such as 'exp'"):
            imported(path, model)

    def test_another_input(self, model: Known, tmp_path: Path) -> None:
        path = runtime_profile(model.path, {"image": image(32)}, tmp_path)
        with pytest.raises(
            ProfileError,
            match=r"recorded with other inputs: '\w+' is \[1, .*, 32, 32\] there and \[1, .*64\]",
        ):
            imported(path, model)

    def test_time_that_belongs_to_no_node_is_told(self, model: Known, tmp_path: Path) -> None:
        path = runtime_profile(model.path, {"image": image(64)}, tmp_path)
        events = json.loads(path.read_text())
        for event in events:
            if event["name"] == "matmul_kernel_time":
                event["name"] = "mystery_kernel_time"
        profile = imported(write(path, events), model)
        share = profile.unattributed_ms / (profile.whole_ms - profile.overhead_ms)
        assert 0 < share < 1
        assert profile.notes[1].startswith(f"{share:.1%} of the kernels' time belongs to no node")
        assert profile.uncertainty >= share

    @pytest.mark.parametrize(
        ("dropped", "message"),
        [
            ("model_run", r"holds no complete run \(an event 'model_run'\)"),
            ("_kernel_time", "holds no kernels"),
        ],
    )
    def test_one_that_lacks_a_part(
        self, model: Known, tmp_path: Path, dropped: str, message: str
    ) -> None:
        path = runtime_profile(model.path, {"image": image(64)}, tmp_path, runs=1)
        events = [e for e in json.loads(path.read_text()) if not e["name"].endswith(dropped)]
        with pytest.raises(ProfileError, match=message):
            imported(write(path, events), model)

    def test_odd_arguments_do_not_matter(self, model: Known, tmp_path: Path) -> None:
        odd = {
            "op_name": 3,
            "provider": [],
            "output_type_shape": [{"float": "4"}],
            "thread_scheduling_stats": 4,
        }
        path = runtime_profile(model.path, {"image": image(64)}, tmp_path, runs=2)
        events = [{**event, "args": odd} for event in json.loads(path.read_text())]
        profile = imported(write(path, events), model)
        assert (profile.engine.provider, profile.engine.threads) == ("", 1)

    def test_all_times_zero(self, model: Known, tmp_path: Path) -> None:
        path = runtime_profile(model.path, {"image": image(64)}, tmp_path, runs=2)
        events = [{**event, "dur": 0} for event in json.loads(path.read_text())]
        with pytest.raises(ProfileError, match=r"its kernels take 0 ms of a run of 0 ms"):
            imported(write(path, events), model)

    @pytest.mark.parametrize("duration_us", [0, 10**18])
    def test_kernels_that_contradict_their_runs(
        self, model: Known, tmp_path: Path, duration_us: int
    ) -> None:
        path = runtime_profile(model.path, {"image": image(64)}, tmp_path, runs=2)
        events = [
            {**event, "dur": duration_us} if event["name"].endswith("_kernel_time") else event
            for event in json.loads(path.read_text())
        ]
        with pytest.raises(ProfileError, match="which cannot be; record it again"):
            imported(write(path, events), model)

    def test_a_recording_given_twice_is_no_more_evidence(
        self, model: Known, tmp_path: Path
    ) -> None:
        path = runtime_profile(model.path, {"image": image(64)}, tmp_path, runs=4)
        events = json.loads(path.read_text())
        once = imported(write(path, events), model)
        assert imported(write(path, [*events, *events]), model) == once

    @pytest.mark.parametrize("name", ["efficientnet_lite0", "efficientnet_lite0_qdq_int8"])
    def test_nearly_all_of_a_real_network_is_found_by_name(
        self, shared: Path, tmp_path: Path, name: str
    ) -> None:
        path = shared / "models" / f"{name}.onnx"
        given = read_feeds(path.with_name(f"{name}.feed.npz"))
        feeds = resolve_feeds(load_model(path).graph.inputs, given, {})
        profile = imported(
            runtime_profile(path, feeds, tmp_path, runs=3, threads=2),
            known(path, tmp_path / "stored", feeds),
        )
        assert profile.unattributed_ms < 0.02 * profile.whole_ms
        assert profile.engine.threads == 2


class TestTraces:
    def test_times_are_typical_ones_of_each_node(self, model: Known, tmp_path: Path) -> None:
        runs = [
            event
            for start, slow in ((0, 9.0), (10_000, 1.0), (20_000, 1.0), (30_000, 1.0), (40_000, 1))
            for event in trace(
                ("frame", start, 9000),
                ("conv", start, 4000),
                ("relu", start + 4000, 500),
                ("pool", start + 4500, 100 * slow),
                ("matmul", start + 6000, 1000),
                ("matmul", start + 7000, 1000),
            )
        ]
        profile = imported(write(tmp_path / "t.json", {"traceEvents": runs}), model)
        overhead_ms = load_preset("pi4").overhead_ms
        assert profile.cost_of(["conv", "relu"]) == pytest.approx(4.5)
        assert profile.cost_of(["pool"]) == pytest.approx(0.1)
        assert profile.cost_of(["matmul"]) == pytest.approx(2.0)
        assert profile.cost_of(["flatten"]) == 0
        assert profile.whole_ms == pytest.approx(6.6 + overhead_ms)
        assert profile.notes[0].startswith("Recorded as a trace (runs: 5)")
        assert profile.engine.threads == 0

    def test_pairs_and_a_missing_bracket(self, model: Known, tmp_path: Path) -> None:
        path = tmp_path / "t"
        begin = {"name": "conv", "ph": "B", "ts": 5, "pid": 1, "tid": 1}
        end = {"ph": "E", "ts": 905, "pid": 1, "tid": 1}
        path.write_text(f"[{json.dumps(begin)},\n{json.dumps(end)},\n")
        profile = imported(path, model)
        assert profile.cost_of(NODES) == pytest.approx(0.9)
        layers = len(model.observation.units)
        assert profile.notes[1].startswith(f"{layers - 1} of {layers} layers have no event")

    def test_our_own_export_comes_back(self, model: Known, tmp_path: Path) -> None:
        recorded = write(tmp_path / "t.json", trace(("conv", 0, 4321.5), ("matmul", 5000, 77.125)))
        before = imported(recorded, model)
        write_profile_trace(before, tmp_path / "exported.json")
        after = imported(tmp_path / "exported.json", model)
        assert [layer.name for layer in after.layers] == [layer.name for layer in before.layers]
        for old, new in zip(before.layers, after.layers, strict=True):
            assert new.latency_ms == pytest.approx(old.latency_ms, abs=1e-5)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ([], "none of its 0 events bears the name of a node"),
            (trace(("dense", 0, 5)), "none of its 1 events, such as 'dense', bears the name"),
            (trace(("conv", 0, 0)), "all its times are 0"),
            (trace(("conv", 0, -4)), r"event 0 \('conv'\): dur is -4"),
            ({"traceEvents": 3}, "neither a profile nor a list of trace events"),
            (7, "neither a profile nor a list of trace events"),
            ({}, "schema is missing"),
        ],
    )
    def test_what_says_nothing(self, model: Known, tmp_path: Path, data: Any, message: str) -> None:
        path = write(tmp_path / "t.json", data)
        with pytest.raises(ProfileError, match=message) as caught:
            imported(path, model)
        assert "t.json" in str(caught.value)


class TestProfiles:
    def test_a_profile_is_known_by_its_content(self, tmp_path: Path) -> None:
        profile = fake_profile({"a": 1.0})
        path = tmp_path / "board.trace"
        write_profile(profile, path)
        assert read_costs(path, "pi4") == profile

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"schema": 99}, "schema is 99, this version reads 1; update headtail"),
            ({"whole_ms": -1.0}, "whole_ms is -1.0; it must be 0 or more and finite"),
            ({"whole_ms": float("nan")}, "whole_ms is nan"),
            ({"layers": []}, "layers is empty"),
        ],
    )
    def test_a_wrong_one(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        data = {**fake_profile({"a": 0.0}).to_dict(), **change}
        with pytest.raises(ProfileError, match=message):
            read_costs(write(tmp_path / "p.json", data), "pi4")

    def test_nodes_without_a_cost_are_refused(self) -> None:
        profile = fake_profile({"a": 1.0})
        profile.require_nodes(["a"])
        with pytest.raises(ProfileError, match=r"no cost for 2 of 3 nodes, such as 'b'"):
            profile.require_nodes(["a", "b", "c"])
