"""Presets: found by name, sound, and predicting profiles that add up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import pytest
import yaml
from onnx import TensorProto, helper

import demos
from profiler import presets
from profiler.costs import OPERATOR_CLASSES
from profiler.engine import EngineOptions
from profiler.errors import PresetError
from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import load_model
from profiler.graph.observation import Observation, observe
from profiler.graph.weights import StoredModel, store_model
from profiler.measurement import MeasureOptions, measure_profile
from profiler.presets import load_preset, predict_profile, preset_file, preset_names
from profiler.profile_file import profile_from_dict
from profiler.timing import Schedule
from protocol.codecs import CODEC_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    SaveModel = Callable[..., Path]


@pytest.fixture
def observed(save_model: SaveModel, tmp_path: Path) -> tuple[StoredModel, Observation]:
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], name="exp"),
        helper.make_node("Sin", ["a"], ["y"], name="sin"),
    ]
    loaded = load_model(save_model(nodes, {"x": ["n", 100]}, {"y": ["n", 100]}))
    stored = store_model(loaded, tmp_path)
    return stored, observe(stored, resolve_feeds(loaded.graph.inputs, {}, {"x": (5, 100)}))


def raw(name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(preset_file(name).read_text(encoding="utf-8"))
    return data


def test_the_needed_presets_are_there() -> None:
    boards = {"pi3", "pi4", "pi5", "jetson-nano", "jetson-nano-gpu", "jetson-orin-nano"}
    phones = {f"snapdragon-{model}" for model in ("855", "865", "888", "8gen2")}
    gpus = {"jetson-orin-nano-gpu", "t4", "l4", "a10", "a100", "h100"}
    assert boards | phones | gpus | {"cloud-cpu"} <= set(preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_sound_and_says_where_it_comes_from(name: str) -> None:
    preset = load_preset(name)
    on_processor = preset.engine.name == "onnxruntime"
    assert preset.engine.precision == ("float32" if on_processor else "float16")
    assert set(preset.codecs) == set(CODEC_NAMES)
    assert 0 < preset.uncertainty <= preset.fallback_uncertainty < 1
    data = raw(name)
    for section in (
        "engine_factor",
        "overhead_ms",
        "border_ms_per_mb",
        "exchange_ms",
        "codecs",
        "uncertainty",
        "machine",
    ):
        assert data[section]["source"]
    for section in {"memory_gib", "power_w"} & set(data):
        assert data[section]["source"]
        assert data[section]["verified"] in {True, False}
    assert data["fitted_to_source"]
    assert data["error"]["leave_one_network_out_median"] < data["uncertainty"]["value"]


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_rates_every_operator_class_below_the_peak(name: str) -> None:
    preset = load_preset(name)
    unrated = {"dense", "elementwise", "view", "opaque"}  # bound by bytes, free, or unknown
    assert set(preset.rates.gmacs_s) == set(OPERATOR_CLASSES) - unrated
    assert set(preset.fallbacks) <= set(preset.rates.gmacs_s)
    assert min(preset.rates.bandwidth_gb_s, preset.rates.elementwise_gb_s) > 0
    assert preset.rates.layer_us > 0
    peak = preset.machine.get("peak_gmacs_s")
    if peak:
        assert max(preset.rates.gmacs_s.values()) <= peak


def test_bigger_machines_are_faster(tmp_path: Path) -> None:
    demo = load_model(Path(demos.__file__).parent / "models" / "efficientnet_lite0.onnx")
    stored = store_model(demo, tmp_path)
    observation = observe(stored, resolve_feeds(demo.graph.inputs, {}, {}))
    ms = {
        name: predict_profile(load_preset(name), demo, observation).whole_ms
        for name in preset_names()
    }
    assert ms["pi3"] > ms["pi4"] > ms["pi5"] > ms["cloud-cpu"] > ms["t4"] > ms["a100"]
    assert ms["jetson-nano"] > ms["jetson-orin-nano"] > ms["jetson-orin-nano-gpu"]
    assert ms["jetson-nano"] > ms["jetson-nano-gpu"]
    assert ms["snapdragon-855"] > ms["snapdragon-8gen2"]
    # Measured by MLPerf on a Pi 4 with TFLite, which transforms no convolutions either: 73.6 ms.
    assert ms["pi4"] == pytest.approx(73.6, rel=load_preset("pi4").uncertainty)


def test_an_unknown_preset_gets_a_suggestion_and_the_list() -> None:
    with pytest.raises(PresetError, match=r"'pi44' \(did you mean 'pi4'\?\); .*cloud-cpu, .*pi4"):
        load_preset("pi44")


@pytest.mark.parametrize("content", ["", "title: x", "[", "title: [", "- 1"])
def test_a_broken_preset_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    monkeypatch.setattr(presets, "_FOLDER", tmp_path)
    with pytest.raises(PresetError, match=r"mine\.yaml is broken"):
        load_preset("mine")


def test_a_prediction_is_a_profile_that_adds_up(observed: tuple[StoredModel, Observation]) -> None:
    stored, observation = observed
    preset = load_preset("pi4")
    profile = predict_profile(preset, stored.loaded, observation)
    assert profile_from_dict(profile.to_dict()) == profile
    assert (profile.kind, profile.label, profile.uncertainty) == (
        "predicted",
        "pi4",
        preset.uncertainty,
    )
    assert profile.inputs[0].shape == (5, 100)
    layer_ms = preset.rates.layer_us / 1e3 + 2 * 2000 / (preset.rates.elementwise_gb_s * 1e6)
    assert profile.cost_of(["exp"]) == pytest.approx(layer_ms)
    assert profile.whole_ms == pytest.approx(preset.overhead_ms + 2 * layer_ms)


def test_power_figures_are_carried_into_the_prediction(
    observed: tuple[StoredModel, Observation],
) -> None:
    stored, observation = observed
    board = predict_profile(load_preset("pi4"), stored.loaded, observation)
    assert (board.idle_w, board.busy_w) == (2.7, 6.4)
    server = predict_profile(load_preset("cloud-cpu"), stored.loaded, observation)
    assert (server.idle_w, server.busy_w) == (None, None)


def test_power_figures_that_cannot_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = preset_file("pi4").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.replace("busy: 6.4", "busy: 0.4"), encoding="utf-8")
    monkeypatch.setattr(presets, "_FOLDER", tmp_path)
    with pytest.raises(PresetError, match=r"mine\.yaml is broken.*0 <= idle_w <= busy_w"):
        load_preset("mine")


def test_a_body_cannot_be_predicted_and_the_profile_says_so(shared: Path, tmp_path: Path) -> None:
    loaded = load_model(shared / "models" / "silero_vad.onnx")
    stored = store_model(loaded, tmp_path)
    feeds = read_feeds(shared / "models" / "silero_vad.feed.npz")
    observation = observe(stored, resolve_feeds(loaded.graph.inputs, feeds, {}))
    preset = load_preset("pi4")
    profile = predict_profile(preset, loaded, observation)
    assert any("prediction is too low" in note for note in profile.notes)
    assert profile.uncertainty == preset.fallback_uncertainty
    assert any("rate of recurrent" in note for note in profile.notes)


def test_a_class_without_published_rows_widens_the_band(shared: Path, tmp_path: Path) -> None:
    preset = load_preset("pi4")
    loaded = load_model(shared / "models" / "tinygpt_decode.onnx")
    stored = store_model(loaded, tmp_path)
    feeds = read_feeds(shared / "models" / "tinygpt_decode.feed.npz")
    observation = observe(stored, resolve_feeds(loaded.graph.inputs, feeds, {}))
    profile = predict_profile(preset, loaded, observation)
    assert profile.uncertainty == preset.fallback_uncertainty > preset.uncertainty
    assert any("rate of matmul" in note for note in profile.notes)


RECURRENCE = helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="lstm", hidden_size=2)


def _in_if(node: onnx.NodeProto) -> onnx.ModelProto:
    body = helper.make_graph(
        [node], "body", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    return _only(helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body))


def _in_function(node: onnx.NodeProto) -> onnx.ModelProto:
    made = _only(helper.make_node("mine", ["x", "w", "r"], ["y"], domain="own"))
    opsets = [helper.make_opsetid("", 17)]
    made.functions.append(
        helper.make_function("own", "mine", ["x", "w", "r"], ["y"], [node], opsets)
    )
    return made


def _only(node: onnx.NodeProto) -> onnx.ModelProto:
    return helper.make_model(helper.make_graph([node], "only", [], []))


@pytest.mark.parametrize(
    "proto",
    [
        _in_if(RECURRENCE),
        _in_if(_in_if(RECURRENCE).graph.node[0]),
        _in_function(RECURRENCE),
        _in_function(_in_if(RECURRENCE).graph.node[0]),
        _only(helper.make_node("DynamicQuantizeLSTM", ["x"], ["y"], domain="com.microsoft")),
    ],
)
def test_recurrence_that_no_layer_shows_is_found(proto: onnx.ModelProto) -> None:
    assert presets._hidden_classes(proto) == {"recurrent"}


def test_presets_and_measurements_cover_the_same_nodes(
    observed: tuple[StoredModel, Observation],
) -> None:
    stored, observation = observed
    options = MeasureOptions(EngineOptions(1), Schedule(warm_up=1, least=2, most=2))
    measured = measure_profile(stored, observation, options)
    predicted = predict_profile(load_preset("cloud-cpu"), stored.loaded, observation)
    assert [layer.nodes for layer in measured.layers] == [layer.nodes for layer in predicted.layers]
