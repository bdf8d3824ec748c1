"""How well the peak memory of whole models, heads and tails is predicted.

Method: the shared networks (or the demo's) whole, and cut after a quarter and after six tenths of
their legal prefixes, with one thread. Measured is what loading a model and running it three times
adds to a new process at most (`VmHWM` less the `VmRSS` before), the median of three processes;
spread is the difference between the largest and the smallest of them. Tails are fed what the heads
give. `fixed` is the part of the prediction that is the runtime's own.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import load_model
from profiler.graph.observation import Observation, observe
from profiler.graph.runtime_observation import observe_runtime
from profiler.graph.weights import StoredModel, store_model
from profiler.memory import predict_peak_memory
from profiler.peak_memory import measure_peak_memory
from protocol.console import table
from splitter.cuts import CutSpace
from splitter.extraction import write_head, write_tail

ROOT = Path(__file__).resolve().parents[2]
PLACES = (0.25, 0.6)
PROCESSES = 3
OPTIONS = EngineOptions(threads=1)
LIMIT = 0.15
HEADERS = ["network", "part", "predicted MB", "fixed MB", "measured MB", "spread", "error"]


@dataclass(frozen=True)
class Part:
    """Something to load and run."""

    name: str
    units: frozenset[int]
    model: Path
    feeds: Mapping[str, Any]


def run() -> None:
    folder = ROOT.parent / "shared" / "models"
    paths = sorted(folder.glob("*.onnx")) or sorted((ROOT / "demos" / "models").glob("*.onnx"))
    rows: list[list[str]] = []
    errors: dict[str, list[float]] = {}
    for path in paths:
        for row, error in network_rows(path):
            rows.append(row)
            errors.setdefault(path.stem, []).append(error)
    print(table(rows, HEADERS))
    all_errors = [abs(error) for series in errors.values() for error in series]
    within = [name for name, series in errors.items() if max(map(abs, series)) <= LIMIT]
    print(
        f"median error {statistics.median(all_errors):.1%}, worst {max(all_errors):.1%}; "
        f"{sum(error <= LIMIT for error in all_errors)} of {len(all_errors)} parts and "
        f"{len(within)} of {len(errors)} networks, with all their parts, within {LIMIT:.0%}"
    )


def network_rows(path: Path) -> Iterator[tuple[list[str], float]]:
    loaded = load_model(path)
    feed = path.with_suffix(".feed.npz")
    feeds = resolve_feeds(loaded.graph.inputs, read_feeds(feed) if feed.is_file() else {}, {})
    with tempfile.TemporaryDirectory() as name:
        stored = store_model(loaded, Path(name))
        observation = observe(stored, feeds)
        runtime = observe_runtime(stored, observation)
        for part in parts(stored, observation):
            predicted = predict_peak_memory(runtime, part.units, OPTIONS)
            peaks = [measure_peak_memory(part.model, part.feeds, OPTIONS) for _ in range(PROCESSES)]
            known = [peak for peak in peaks if peak is not None]
            measured = statistics.median(known)
            error = predicted.total_bytes / measured - 1
            yield (
                [
                    path.stem,
                    part.name,
                    f"{predicted.total_bytes / 1e6:.1f}",
                    f"{predicted.overhead_bytes / 1e6:.1f}",
                    f"{measured / 1e6:.1f}",
                    f"{(max(known) - min(known)) / measured:.1%}",
                    f"{error:+.1%}",
                ],
                error,
            )


def parts(stored: StoredModel, observation: Observation) -> Iterator[Part]:
    """The whole model, and heads and tails, each readable until the next is asked for."""
    graph, units = stored.loaded.graph, observation.units
    everything = frozenset(range(len(units)))
    yield Part("whole", everything, stored.full, observation.feeds)
    space = CutSpace.of(graph, units, observation.tensors)
    cuts = [cut for cut in space.prefixes() if cut.units and cut.results and cut.frontier]
    slots = {name: tensor.slot for name, tensor in observation.tensors.items()}
    for place in PLACES if cuts else ():
        cut = cuts[int(place * len(cuts))]
        head = write_head(stored, cut, slots, "head.onnx")
        tail = write_tail(stored, cut, slots, "tail.onnx")
        values = dict(observation.feeds)
        if head is not None:
            session = OnnxRuntimeEngine(OPTIONS).load(head)
            head_feeds = {slot.name: observation.feeds[slot.name] for slot in session.inputs}
            values |= session.run(head_feeds)
            session.close()
            yield Part(f"head {place}", cut.units, head, head_feeds)
        if tail is not None:
            tail_feeds = {name: values[name] for name in cut.frontier}
            yield Part(f"tail {place}", everything - cut.units, tail, tail_feeds)
