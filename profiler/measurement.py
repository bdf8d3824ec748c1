"""Measure what every layer of a model costs on this machine. Needs onnx and scipy.

The shape comes from a profiled run, the scale from runs without a profile: a profile slows small
models down to half their speed, but not evenly, and its sum is not the time of a run
(onnxruntime#20238).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from profiler.codec_speeds import measure_codecs
from profiler.engine import Engine, EngineOptions, Session
from profiler.errors import ProfileError
from profiler.exchange import measure_exchange
from profiler.graph.feeds import Feeds
from profiler.graph.graph import Unit
from profiler.graph.observation import Observation
from profiler.graph.weights import StoredModel
from profiler.kernels import Attribution, Kernel, attribute_kernels
from profiler.machine import describe_machine, machine_notes
from profiler.measurement_notes import run_notes, uncertainty
from profiler.power_measurement import measure_power
from profiler.probes import measure_border, write_nothing
from profiler.profile import EngineUsed, LayerCost, Profile
from profiler.step_times import ProfiledRuns, StepTimes, step_times
from profiler.timing import FineClock, Schedule, summarise, time_runs
from profiler.values import TensorSlot

__all__ = ["MeasureOptions", "build_profile", "measure_profile"]

_CODEC_TENSORS = 3
_SMALLEST_CODEC_BYTES = 16_000


@dataclass(frozen=True)
class MeasureOptions:
    """How to measure.

    Attributes:
        engine: How the model is run; its ``profile_prefix`` is ignored.
        schedule: How often.
        label: The machine, for people; empty takes its model name.
        idle_ms: Pause before each run, as frames that come one by one have it: a processor that
            has idled runs the next model slower (caches, clock) than a tight loop shows.
        runtime: What runs it, ``onnxruntime`` or ``torch``.
    """

    engine: EngineOptions
    schedule: Schedule = field(default_factory=Schedule)
    label: str = ""
    idle_ms: float = 0.0
    runtime: str = "onnxruntime"


def measure_profile(
    stored: StoredModel,
    observation: Observation,
    options: MeasureOptions,
    progress: Callable[[str], None] = lambda _: None,
    clock: FineClock | None = None,
) -> Profile:
    """Measure a model on this machine.

    Args:
        stored: The model on disk.
        observation: What was seen of it; its feeds are those that the profile will hold for.
        options: How to measure.
        progress: Told what is being done, after each step and each run.
        clock: What to time with.

    Raises:
        EngineError: The runtime refuses the model.
        ProfileError: Nothing that the runtime ran can be told to belong to a node.
    """
    clock = clock or FineClock()
    timed = step_times(options.runtime, options.engine)
    engine = timed.engine
    with tempfile.TemporaryDirectory(prefix="headtail-") as name:
        folder = Path(name)
        progress("border")
        border_ms_per_mb = measure_border(engine, folder, clock)
        times, kernels = _run(stored, observation, options, timed, folder, clock, progress)
        progress("layers")
        optimised = timed.optimised(stored.full, folder)
    attribution = attribute_kernels(kernels, optimised, stored.loaded.graph, observation.units)
    progress("codecs")
    codecs = measure_codecs(_frontier_values(stored, observation, engine), clock)
    progress("exchange")
    exchange_ms = measure_exchange(clock)
    progress("memory")
    memory = timed.peak_memory(stored.full, observation.feeds)
    progress("power")
    power, power_note = measure_power(engine, stored.full, observation.feeds, clock)
    machine = describe_machine()
    whole, profiled, nothing = (summarise(series) for series in zip(*times, strict=True))
    blank = Profile(
        label=options.label or _label(machine),
        kind="measured",
        model=stored.loaded.identity,
        inputs=tuple(
            TensorSlot(name, str(array.dtype), array.shape)
            for name, array in observation.feeds.items()
        ),
        engine=EngineUsed(
            name=engine.name,
            version=engine.version,
            provider=timed.provider,
            threads=options.engine.threads,
            precision="as in the model",
        ),
        machine=machine,
        whole_ms=whole.median_ms,
        whole_spread_ms=whole.spread_ms,
        overhead_ms=0.0,
        border_ms_per_mb=border_ms_per_mb,
        exchange_ms=exchange_ms,
        unattributed_ms=0.0,
        layers=(),
        peak_memory_bytes=memory,
        codecs=codecs,
        uncertainty=uncertainty(whole, timed.provider),
        notes=(
            *run_notes(whole, profiled, options.idle_ms),
            *timed.notes(kernels),
            *machine_notes(machine),
            power_note,
        ),
        idle_w=None if power is None else power.idle_w,
        busy_w=None if power is None else power.busy_w,
    )
    sizes = {name: tensor.raw_bytes for name, tensor in observation.tensors.items()}
    return build_profile(blank, nothing.median_ms, attribution, observation.units, sizes)


def build_profile(
    blank: Profile,
    overhead_ms: float,
    attribution: Attribution,
    units: Sequence[Unit],
    output_bytes: Mapping[str, int],
) -> Profile:
    """Fill a profile in with layers whose proportions are profiled and whose sum is the whole.

    Args:
        blank: The profile without costs but for ``whole_ms`` and the border's.
        overhead_ms: What a run costs, however small its model.
        attribution: Profiled kernels.
        units: The layers.
        output_bytes: Size of each tensor.

    Raises:
        ProfileError: There are kernels, and none belongs to a unit.
    """
    if attribution.unattributed and not attribution.kernels:
        raise ProfileError(
            f"none of the {len(attribution.unattributed)} kernels of the profile, such as "
            f"{attribution.unattributed[0].name!r}, bears the name of a node of {blank.model.name};"
            " profile this model, and with an execution provider that runs its nodes one by one"
        )
    groups = [*attribution.kernels.values(), *attribution.layout.values()]
    kernels_ms = sum(kernel.latency_ms for group in groups for kernel in group)
    kernels_ms += sum(kernel.latency_ms for kernel in attribution.unattributed)
    # Of a model of a few microseconds the overhead is nearly all, and a little noise is more.
    overhead_ms = min(overhead_ms, blank.whole_ms / 2)
    scale = (blank.whole_ms - overhead_ms) / kernels_ms if kernels_ms else 0.0
    layers = []
    for unit in units:
        computing = attribution.kernels.get(unit.index, ())
        layout = attribution.layout.get(unit.index, ())
        layers.append(
            LayerCost(
                name=unit.name,
                nodes=unit.nodes,
                latency_ms=scale * sum(kernel.latency_ms for kernel in computing),
                spread_ms=scale * sum(kernel.spread_ms for kernel in computing),
                kind="+".join(dict.fromkeys(kernel.operator for kernel in computing)),
                output_bytes=sum(output_bytes.get(name, 0) for name in unit.outputs),
                layout_ms=scale * sum(kernel.latency_ms for kernel in layout),
            )
        )
    return replace(
        blank,
        overhead_ms=overhead_ms if kernels_ms else blank.whole_ms,
        unattributed_ms=scale * sum(kernel.latency_ms for kernel in attribution.unattributed),
        layers=tuple(layers),
    )


def _run(
    stored: StoredModel,
    observation: Observation,
    options: MeasureOptions,
    timed: StepTimes,
    folder: Path,
    clock: FineClock,
    progress: Callable[[str], None],
) -> tuple[list[tuple[float, float, float]], list[Kernel]]:
    """Times of plain runs, of profiled runs, and of runs of nothing, in ms; and of kernels.

    They are taken in turn, so that all see the same machine, and the runs of nothing see the caches
    as this model leaves them: in a tight loop such a run takes a tenth of what it takes there.
    """
    plain = timed.engine.load(stored.full)
    nothing = timed.engine.load(write_nothing(folder / "nothing.onnx"))
    profiled = timed.load(stored.full, folder)
    others_ms: list[tuple[float, float]] = []

    def idle() -> None:
        if options.idle_ms:
            time.sleep(options.idle_ms / 1000)

    def timed_ms(session: Session | ProfiledRuns, feeds: Feeds) -> float:
        idle()
        before = clock.monotonic()
        session.run(feeds)
        return (clock.monotonic() - before) * 1e3

    def run_others() -> None:
        profiled_ms = timed_ms(profiled, observation.feeds)
        others_ms.append((profiled_ms, timed_ms(nothing, {"x": np.zeros(1, np.float32)})))
        progress("runs")

    plain_ms = time_runs(
        lambda: plain.run(observation.feeds), options.schedule, clock, run_others, idle
    )
    kernels = profiled.finish(options.schedule.warm_up)
    plain.close()
    nothing.close()
    counted = others_ms[-len(plain_ms) :]
    return [(ms, *others) for ms, others in zip(plain_ms, counted, strict=True)], kernels


def _frontier_values(
    stored: StoredModel, observation: Observation, engine: Engine
) -> list[NDArray[Any]]:
    """Values of a few tensors that a cut may send: small, middling and large ones."""
    tensors = observation.tensors
    candidates = sorted(
        (
            name
            for unit in observation.units
            for name in unit.outputs
            if tensors[name].sendable
            and tensors[name].slot.dtype == "float32"
            and tensors[name].raw_bytes >= _SMALLEST_CODEC_BYTES
        ),
        key=lambda name: tensors[name].raw_bytes,
    )
    if not candidates:
        return []
    steps = np.linspace(0, len(candidates) - 1, _CODEC_TENSORS + 2)[1:-1]
    chosen = list(dict.fromkeys(candidates[round(step)] for step in steps))
    proto = onnx.ModelProto()
    proto.CopyFrom(stored.proto)
    outputs = {value.name for value in proto.graph.output}
    proto.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in chosen if name not in outputs
    )
    path = stored.folder / "values.onnx"  # beside the weights, which it shares
    path.write_bytes(proto.SerializeToString())
    try:
        session = engine.load(path)
        results = session.run(observation.feeds)
        session.close()
    finally:
        path.unlink()
    return [results[name] for name in chosen]


def _label(machine: Mapping[str, Any]) -> str:
    return str(machine["board"] or machine["cpu"] or machine["architecture"])
