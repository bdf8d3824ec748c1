"""How long a decision takes, once the model has been observed and the costs are known.

Method: the shared networks with the most nodes (or the demo's), their costs predicted
by presets; each go builds the cut space, the costs and the plan anew; the median of 20 goes.
Loading the model and trying it out in a process of its own are timed beside it, once.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.weights import store_model
from profiler.links import SteadyLink
from profiler.presets import load_preset, predict_profile
from protocol.codecs import parse_codec
from protocol.console import table
from splitter.cuts import CutSpace
from splitter.planner import make_plan
from splitter.situation import Situation

ROOT = Path(__file__).resolve().parents[2]
GOES = 20


def run() -> None:
    folder = ROOT.parent / "shared" / "models"
    paths = sorted(folder.glob("*.onnx")) or sorted((ROOT / "demos" / "models").glob("*.onnx"))
    ranked = sorted(paths, key=lambda path: len(load_model(path).graph.regular), reverse=True)
    rows = [row(path) for path in ranked[:3]]
    print(table(rows, ["network", "nodes", "units", "plan ms", "load ms", "try out ms"]))


def row(path: Path) -> list[str]:
    started = time.perf_counter()
    loaded = load_model(path)
    load_ms = (time.perf_counter() - started) * 1e3
    feed = path.with_suffix(".feed.npz")
    feeds = resolve_feeds(loaded.graph.inputs, read_feeds(feed) if feed.is_file() else {}, {})
    with tempfile.TemporaryDirectory() as name:
        stored = store_model(loaded, Path(name))
        started = time.perf_counter()
        observation = observe(stored, feeds, ["affine8", "raw"])
        observe_ms = (time.perf_counter() - started) * 1e3
    device, cloud = (
        predict_profile(load_preset(preset), loaded, observation) for preset in ("pi4", "cloud-cpu")
    )
    times_ms = []
    for _ in range(GOES):
        started = time.perf_counter()
        make_plan(
            Situation(
                model=loaded.identity,
                space=CutSpace.of(loaded.graph, observation.units, observation.tensors),
                tensors=observation.tensors,
                device=device,
                cloud=cloud,
                link=SteadyLink(20, 20, 10),
                codecs=(parse_codec("affine8"),),
            )
        )
        times_ms.append((time.perf_counter() - started) * 1e3)
    return [
        loaded.identity.name,
        str(len(loaded.graph.regular)),
        str(len(observation.units)),
        f"{statistics.median(times_ms):.1f}",
        f"{load_ms:.0f}",
        f"{observe_ms:.0f}",
    ]
