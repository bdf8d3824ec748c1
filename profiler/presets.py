"""Device presets: predict a profile of a machine that is not here. Needs onnx, scipy and yaml.

A preset's constants are fitted to published latencies by ``python -m profiler.fitting``; its file
says where each comes from and how far off predictions of unseen networks were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import yaml

from profiler.configs import CONFIGS
from profiler.costs import OperatorClass, Rates, Work, hidden_class, is_opaque, unit_work
from profiler.energy import DevicePower
from profiler.errors import PowerError, PresetError
from profiler.graph.graph import node_bodies
from profiler.graph.model import LoadedModel
from profiler.graph.normalise import walk_graphs
from profiler.graph.observation import Observation
from profiler.profile import CodecSpeed, EngineUsed, LayerCost, Profile
from profiler.values import TensorSlot
from protocol.text import did_you_mean, quoted

__all__ = ["Preset", "load_preset", "predict_profile", "preset_file", "preset_names"]

_FOLDER = CONFIGS / "devices"


@dataclass(frozen=True)
class Preset:
    """A machine as published measurements know it.

    Attributes:
        name: What users type.
        title: The machine in words.
        engine: What the predictions stand for.
        machine: Its hardware.
        rates: How fast it works.
        overhead_ms: See :class:`~profiler.profile.Profile`.
        border_ms_per_mb: See :class:`~profiler.profile.Profile`.
        exchange_ms: See :class:`~profiler.profile.Profile`.
        codecs: Speed of each codec.
        uncertainty: Relative band around every time.
        fallbacks: Operator classes that no published row is of, and what stands in for their rate.
        fallback_uncertainty: The band where a model has layers of such a class.
        power: What it draws; None where no figure is known.
        notes: What a reader of a prediction should know.
    """

    name: str
    title: str
    engine: EngineUsed
    machine: Mapping[str, Any]
    rates: Rates
    overhead_ms: float
    border_ms_per_mb: float
    exchange_ms: float
    codecs: Mapping[str, CodecSpeed]
    uncertainty: float
    fallbacks: Mapping[OperatorClass, str]
    fallback_uncertainty: float
    power: DevicePower | None
    notes: tuple[str, ...]


def preset_names() -> list[str]:
    """Return the names of all presets."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def preset_file(name: str) -> Path:
    """Return the file of a preset.

    Raises:
        PresetError: There is none of this name; lists those there are.
    """
    names = preset_names()
    if name not in names:
        raise PresetError(
            f"there is no device preset {quoted(name)}{did_you_mean(name, names)}; "
            f"presets: {', '.join(names)}"
        )
    return _FOLDER / f"{name}.yaml"


def load_preset(name: str) -> Preset:
    """Read a preset.

    Raises:
        PresetError: There is none of this name, or its file is broken.
    """
    path = preset_file(name)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        engine, rates = data["engine"], data["rates"]
        return Preset(
            name=name,
            title=data["title"],
            engine=EngineUsed(
                name=engine["name"],
                version="",
                provider=engine["provider"],
                threads=engine["threads"],
                precision=engine["precision"],
            ),
            machine=data["machine"],
            rates=Rates(**rates),
            overhead_ms=data["overhead_ms"]["value"],
            border_ms_per_mb=data["border_ms_per_mb"]["value"],
            exchange_ms=data["exchange_ms"]["value"],
            codecs={key: CodecSpeed(**speed) for key, speed in data["codecs"]["value"].items()},
            uncertainty=data["uncertainty"]["value"],
            fallbacks=data["fallbacks"]["classes"],
            fallback_uncertainty=data["fallbacks"]["uncertainty"],
            power=_power(data),
            notes=(_origin(data["error"]), data["uncertainty"]["source"]),
        )
    except (OSError, yaml.YAMLError, KeyError, TypeError, PowerError) as problem:
        raise PresetError(f"the preset file {path} is broken: {problem!r}") from problem


def _power(data: Mapping[str, Any]) -> DevicePower | None:
    figures = data.get("power_w")
    return None if figures is None else DevicePower(figures["idle"], figures["busy"])


def _origin(error: Mapping[str, Any]) -> str:
    return (
        f"Predicted from {error['rows']} published latencies of {error['networks']} networks; a "
        "network left out of the fit, under the engine measured, was off by "
        f"{error['leave_one_network_out_median']:.0%} in the median."
    )


def predict_profile(preset: Preset, loaded: LoadedModel, observation: Observation) -> Profile:
    """Predict what every layer of a model costs on a preset's machine.

    Args:
        preset: The machine.
        loaded: The model.
        observation: What was seen of it here; shapes are the same everywhere.
    """
    tensors = observation.tensors
    slots = dict(loaded.graph.initializers)
    for name, seen in tensors.items():
        slots[name] = TensorSlot(name, seen.slot.dtype, seen.shape)
    works = [unit_work(unit, loaded.graph, slots) for unit in observation.units]
    kinds = {kind for work in works for kind in work.macs} | _hidden_classes(loaded.proto)
    blind = sorted(kinds & set(preset.fallbacks))
    layers = tuple(
        LayerCost(
            name=unit.name,
            nodes=unit.nodes,
            latency_ms=preset.rates.latency_ms(work),
            spread_ms=0.0,
            kind=work.kind,
            output_bytes=sum(tensors[name].raw_bytes for name in unit.outputs if name in tensors),
        )
        for unit, work in zip(observation.units, works, strict=True)
    )
    return Profile(
        label=preset.name,
        kind="predicted",
        model=loaded.identity,
        inputs=tuple(slots[slot.name] for slot in loaded.graph.inputs),
        engine=preset.engine,
        machine={"title": preset.title, **preset.machine},
        whole_ms=preset.overhead_ms + sum(layer.latency_ms for layer in layers),
        whole_spread_ms=0.0,
        overhead_ms=preset.overhead_ms,
        border_ms_per_mb=preset.border_ms_per_mb,
        exchange_ms=preset.exchange_ms,
        unattributed_ms=0.0,
        layers=layers,
        peak_memory_bytes=None,
        codecs=preset.codecs,
        uncertainty=preset.fallback_uncertainty if blind else preset.uncertainty,
        notes=(
            *preset.notes,
            *_blind_spots(works),
            *(
                f"No published row tells the rate of {kind}: {preset.fallbacks[kind]}"
                for kind in blind
            ),
        ),
        idle_w=None if preset.power is None else preset.power.idle_w,
        busy_w=None if preset.power is None else preset.power.busy_w,
    )


def _hidden_classes(proto: onnx.ModelProto) -> set[OperatorClass]:
    """Classes of operators that no layer shows: in bodies, in local functions, of other domains."""
    nodes = [node for node in proto.graph.node if is_opaque(node.op_type, node.domain)]
    nodes += [node for function in proto.functions for node in function.node]
    bodies = [body for node in nodes for body in node_bodies(node)]
    nodes += [node for body in bodies for graph in walk_graphs(body) for node in graph.node]
    kinds = (hidden_class(node.op_type) for node in nodes)
    return {kind for kind in kinds if kind is not None}


def _blind_spots(works: list[Work]) -> list[str]:
    opaque = sum(work.kind == "opaque" for work in works)
    if not opaque:
        return []
    note = (
        f"Layers that are bodies or of unknown domains: {opaque}; their arithmetic is not "
        "counted, so the prediction is too low."
    )
    return [note]
