"""Costs that another profiler recorded: ONNX Runtime's own profile, or a trace in Chrome's format.

Needs onnx and scipy. Only names tell which node an event belongs to, since the graph that ran is
not there. What such files do not hold (codecs, overheads) a preset stands in for.
"""

from __future__ import annotations

import reprlib
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from profiler.errors import ProfileError
from profiler.graph.graph import Graph, Node
from profiler.graph.model import LoadedModel
from profiler.graph.observation import Observation
from profiler.kernels import KERNEL_SUFFIX, Attribution, Kernel, attribute_kernels, read_kernels
from profiler.measurement import build_profile
from profiler.presets import Preset, load_preset
from profiler.profile import EngineUsed, Profile
from profiler.profile_file import profile_from_dict
from profiler.recorded_shapes import check_shapes
from profiler.timing import Summary, middle_mean, summarise
from profiler.trace_events import Event, outermost, read_events, read_json
from profiler.values import TensorSlot

__all__ = ["Recording", "check_recording", "read_costs", "recorded_profile"]

_RUN = "model_run"
_MOST_WARM_UP = 3
# Profiled runs are longer than others, unevenly, and a preset stands in for all but the layers.
# Kernels are parts of a run, one after the other; the medians of both need not be of the same run.
_MOST_OF_A_RUN = 1.5
_MOST_SILENT = 0.75  # of the layers; some are free or part of another
_SMALLEST_UNCERTAINTY = 0.2


@dataclass(frozen=True)
class Recording:
    """What another profiler recorded.

    Attributes:
        label: The file's name.
        events: What took time.
        stand_in: Name of the preset that tells what the file does not.
    """

    label: str
    events: tuple[Event, ...]
    stand_in: str


@dataclass(frozen=True)
class _Costs:
    """What a recording comes to.

    Attributes:
        attribution: Kernels by unit.
        whole: Times of a whole run.
        engine: What ran the model.
        notes: How it was recorded, and what could not be used.
    """

    attribution: Attribution
    whole: Summary
    engine: EngineUsed
    notes: tuple[str, ...]


def read_costs(path: Path, stand_in: str) -> Profile | Recording:
    """Read what a model costs on a machine; what kind of file it is shows in its content.

    Args:
        path: A profile of ``split-profile``, a profile that ONNX Runtime wrote, or a trace in
            Chrome's format, an array or an object with ``traceEvents``.
        stand_in: Name of the preset that tells what a trace does not.

    Raises:
        ProfileError: It is none of them.
    """
    data = read_json(path)
    try:
        items = data.get("traceEvents") if isinstance(data, Mapping) else data
        if isinstance(data, Mapping) and items is None:
            return profile_from_dict(data)
        if not isinstance(items, list):
            raise ProfileError("it is neither a profile nor a list of trace events")  # noqa: TRY301
        return Recording(path.name, tuple(read_events(items)), stand_in)
    except ProfileError as error:
        raise ProfileError(f"profile {str(path)!r}: {error}") from error


def check_recording(recording: Recording, loaded: LoadedModel) -> None:
    """Refuse what cannot be used whatever a trial of the model will show.

    Args:
        recording: What was recorded.
        loaded: The model.

    Raises:
        ProfileError: It is of another model, or holds no times.
    """
    try:
        if _is_of_runtime(recording.events):
            _runtime_times(_named(recording.events, loaded))
        else:
            _durations_us(recording.events, loaded.graph)
    except ProfileError as error:
        raise ProfileError(f"profile {recording.label!r}: {error}") from error


def recorded_profile(
    recording: Recording, loaded: LoadedModel, observation: Observation
) -> Profile:
    """Say what every layer of a model costs, as recorded.

    Args:
        recording: What was recorded.
        loaded: The model.
        observation: What was seen of it here; shapes are the same everywhere.

    Raises:
        ProfileError: It is of another model or another input, or holds no times.
    """
    preset = load_preset(recording.stand_in)
    try:
        costs = _costs(recording, loaded, observation, preset)
        blank = _blank(recording.label, loaded, observation, costs, preset)
        sizes = {name: tensor.raw_bytes for name, tensor in observation.tensors.items()}
        return build_profile(blank, preset.overhead_ms, costs.attribution, observation.units, sizes)
    except ProfileError as error:
        raise ProfileError(f"profile {recording.label!r}: {error}") from error


def _is_of_runtime(events: Sequence[Event]) -> bool:
    return any(event.name == _RUN or event.name.endswith(KERNEL_SUFFIX) for event in events)


def _costs(
    recording: Recording, loaded: LoadedModel, observation: Observation, preset: Preset
) -> _Costs:
    events = recording.events
    if _is_of_runtime(events):
        costs = _runtime_costs(_named(events, loaded), loaded.graph, observation)
    else:
        costs = _trace_costs(events, loaded.graph, observation, preset)
    if costs.whole.median_ms <= 0:
        raise ProfileError("all its times are 0")
    return costs


def _blank(
    label: str, loaded: LoadedModel, observation: Observation, costs: _Costs, preset: Preset
) -> Profile:
    """The profile without its layers."""
    lost = _lost_share(costs.attribution)
    notes = [*costs.notes]
    if lost:
        notes.append(
            f"{lost:.1%} of the kernels' time belongs to no node by name; it is spread over the "
            "layers in proportion."
        )
    notes.append(
        f"The speeds of codecs, and what a run, a cut and an exchange cost beyond the layers, are "
        f"those of the preset {preset.name}, since the file does not hold them."
    )
    return Profile(
        label=label,
        kind="measured",
        model=loaded.identity,
        inputs=tuple(
            TensorSlot(name, str(array.dtype), array.shape)
            for name, array in observation.feeds.items()
        ),
        engine=costs.engine,
        machine={"recorded_in": label},
        whole_ms=costs.whole.median_ms,
        whole_spread_ms=costs.whole.spread_ms,
        overhead_ms=0.0,
        border_ms_per_mb=preset.border_ms_per_mb,
        unattributed_ms=0.0,
        layers=(),
        exchange_ms=preset.exchange_ms,
        peak_memory_bytes=None,
        codecs=preset.codecs,
        uncertainty=max(
            _SMALLEST_UNCERTAINTY, lost, 2 * costs.whole.spread_ms / costs.whole.median_ms
        ),
        notes=tuple(notes),
    )


def _runtime_costs(events: Sequence[Event], graph: Graph, observation: Observation) -> _Costs:
    """From ONNX Runtime's profile, which holds whole runs and the kernels in them."""
    kernels, whole = _runtime_times(events)
    check_shapes(events, graph, observation)
    attribution = attribute_kernels(kernels, onnx.GraphProto(), graph, observation.units)
    providers = Counter(kernel.provider for kernel in kernels)
    provider = providers.most_common(1)[0][0]
    engine = EngineUsed("onnxruntime", "", provider, _threads(events), "as in the model")
    note = (
        f"Recorded by ONNX Runtime's own profiler: medians of {whole.runs} runs with the profile "
        "on, which makes them longer, above all those of small models."
    )
    return _Costs(attribution, whole, engine, (note,))


def _runtime_times(events: Sequence[Event]) -> tuple[list[Kernel], Summary]:
    """Kernels and whole runs of ONNX Runtime's profile, if both are there and go together."""
    runs_ms = [event.duration_us / 1e3 for event in events if event.name == _RUN]
    if not runs_ms:
        raise ProfileError(
            f"ONNX Runtime's profile holds no complete run (an event {_RUN!r}); end the profile "
            "after some runs of the model"
        )
    warm_up = min(_MOST_WARM_UP, len(runs_ms) // 2)
    kernels = read_kernels([_as_written(event) for event in events], warm_up)
    if not kernels:
        raise ProfileError("ONNX Runtime's profile holds no kernels (events '..._kernel_time')")
    whole = summarise(runs_ms[warm_up:])
    kernels_ms = sum(kernel.latency_ms for kernel in kernels)
    # Of a few runs a slow one weighs in the kernels' means, and must in that of the runs.
    run_ms = max(whole.median_ms, statistics.fmean(runs_ms[warm_up:]))
    if not 0 < kernels_ms <= _MOST_OF_A_RUN * run_ms:
        raise ProfileError(
            f"its kernels take {kernels_ms:.4g} ms of a run of {run_ms:.4g} ms, which "
            "cannot be; record it again"
        )
    return kernels, whole


def _trace_costs(
    events: Sequence[Event], graph: Graph, observation: Observation, preset: Preset
) -> _Costs:
    """From any trace whose events bear the names of nodes, or of what nodes make."""
    nodes = _recorded_nodes(graph)
    durations_us = _durations_us(events, graph)
    # Most nodes run once a run; one that ran more often counts with all its events of a run.
    counts = Counter(len(series) for series in durations_us.values())
    runs = max(counts, key=lambda count: (counts[count], count))
    kernels = [
        Kernel(
            name,
            nodes[name].op_type,
            middle_mean(series) / 1e3 * len(series) / runs,
            summarise(series).spread_ms / 1e3,
        )
        for name, series in durations_us.items()
    ]
    attribution = attribute_kernels(kernels, onnx.GraphProto(), graph, observation.units)
    layers_ms = sum(kernel.latency_ms for kernel in kernels)
    spread_ms = sum(kernel.spread_ms for kernel in kernels)
    whole_ms = layers_ms + min(preset.overhead_ms, layers_ms)
    silent = sum(unit.index not in attribution.kernels for unit in observation.units)
    if silent > len(observation.units) * _MOST_SILENT:
        raise ProfileError(
            f"{silent} of {len(observation.units)} layers of the model have no event of their own "
            "in the trace; record every node, not nested in another's event"
        )
    note = f"Recorded as a trace (runs: {runs}), which does not say of which machine and inputs."
    notes = [note]
    if silent:
        notes.append(
            f"{silent} of {len(observation.units)} layers have no event of their own in the trace "
            "and count as free."
        )
    engine = EngineUsed("unknown", "", "", 0, "as in the model")
    return _Costs(attribution, Summary(whole_ms, spread_ms, runs), engine, tuple(notes))


def _recorded_nodes(graph: Graph) -> dict[str, Node]:
    """Nodes by the names that a trace may have for them: their own, or of what they make."""
    return {**graph.producer, **graph.by_name}


def _durations_us(events: Sequence[Event], graph: Graph) -> dict[str, list[float]]:
    """How long the events of each node took, if any event is a node's."""
    nodes = _recorded_nodes(graph)
    durations_us: dict[str, list[float]] = {}
    for event in outermost(event for event in events if event.name in nodes):
        durations_us.setdefault(event.name, []).append(event.duration_us)
    if not durations_us:
        such = f", such as {reprlib.repr(events[0].name)}," if events else ""
        raise ProfileError(
            f"none of its {len(events)} events{such} bears the name of a node of the model; is it "
            "a trace of this model?"
        )
    return durations_us


def _named(events: Sequence[Event], loaded: LoadedModel) -> list[Event]:
    """The runtime calls a node without a name after its operator and place, ``Conv_12``."""
    graph = loaded.graph
    ours = {
        f"{graph.by_name[new].op_type}_{old.removeprefix('#')}{KERNEL_SUFFIX}": new + KERNEL_SUFFIX
        for old, new in loaded.renamed.items()
        if old.startswith("#") and new in graph.by_name
    }
    return [replace(event, name=ours.get(event.name, event.name)) for event in events]


def _as_written(event: Event) -> dict[str, object]:
    """An event as the runtime writes it, of its arguments only those that are sure to be texts."""
    texts = {key: value for key, value in event.arguments.items() if isinstance(value, str)}
    return {"name": event.name, "ts": event.start_us, "dur": event.duration_us, "args": texts}


def _threads(events: Sequence[Event]) -> int:
    """Threads that the kernels ran on, the calling one included; alone, it has no statistics."""
    statistics = (event.arguments.get("thread_scheduling_stats") for event in events)
    pools = [entry for entry in statistics if isinstance(entry, Mapping)]
    sizes = [
        len(workers) if isinstance(workers := pool.get("sub_threads"), Mapping) else 0
        for pool in pools
    ]
    return 1 + max(sizes, default=0)


def _lost_share(attribution: Attribution) -> float:
    """Share of the time of all kernels that is that of kernels of no known node."""
    lost_ms = sum(kernel.latency_ms for kernel in attribution.unattributed)
    groups = (*attribution.kernels.values(), *attribution.layout.values())
    found_ms = sum(kernel.latency_ms for group in groups for kernel in group)
    return lost_ms / (lost_ms + found_ms) if lost_ms else 0.0
