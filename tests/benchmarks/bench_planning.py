"""How long a decision takes, once the model has been observed and the costs are known.

Method: the shared networks with the most nodes (or the demo's), their costs predicted by presets,
and generated networks of 1,700 and 20,000 nodes; each go builds the costs and the plan anew; the
median of the goes. Beside it the solver alone, a whole plan family in solves, and the contracted
network; of real networks also loading, and trying the model out in a process of its own, once.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
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
from splitter.family import Box, plan_family
from splitter.optimise.solver import solve
from splitter.planner import make_plan
from splitter.problems import pose
from splitter.situation import Situation
from splitter.weighing import Weighing
from tests.benchmarks.generated import generated_situation

ROOT = Path(__file__).resolve().parents[2]
GOES = 20
SIZES = (1_700, 20_000)


def run() -> None:
    folder = ROOT.parent / "shared" / "models"
    paths = sorted(folder.glob("*.onnx")) or sorted((ROOT / "demos" / "models").glob("*.onnx"))
    ranked = sorted(paths, key=lambda path: len(load_model(path).graph.regular), reverse=True)
    rows = [real_row(path) for path in ranked[:3]]
    print(table(rows, ["network", "nodes", "units", "plan ms", "load ms", "try out ms"]))
    print()
    rows = [generated_row(size, tiers) for size in SIZES for tiers in (2, 3)]
    headers = ["nodes", "tiers", "plan ms", "solve ms", "family ms", "solves a family", "members"]
    print(table(rows, headers))


def median_ms(work: Callable[[], object], goes: int) -> float:
    times_ms = []
    for _ in range(goes):
        started = time.perf_counter()
        work()
        times_ms.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times_ms)


def generated_row(nodes: int, tiers: int) -> list[str]:
    situation = generated_situation(nodes, tiers)

    def fresh() -> Situation:
        """Without what was cached of the graph."""
        space = situation.space
        return replace(situation, space=CutSpace(space.graph, space.units, space.unsendable))

    goes = GOES if nodes < 10_000 else 5
    plan_ms = median_ms(lambda: make_plan(fresh()), goes)
    weighing = Weighing(situation)
    problem = pose(weighing, ()).problems[0]
    solve_ms = median_ms(lambda: solve(problem), goes)
    box = Box((2.0, 200.0), (0.0, 200.0), (0.0, 0.8))
    if nodes > SIZES[0]:  # minutes long
        return [f"{nodes:,}", str(tiers), f"{plan_ms:.1f}", f"{solve_ms:.1f}", "-", "-", "-"]
    family_ms = median_ms(lambda: plan_family(weighing, box), 3)
    family = plan_family(weighing, box)
    return [
        f"{nodes:,}",
        str(tiers),
        f"{plan_ms:.1f}",
        f"{solve_ms:.1f}",
        f"{family_ms:.1f}",
        f"{family_ms / solve_ms:.1f}",
        str(len(family.members)),
    ]


def real_row(path: Path) -> list[str]:
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

    def plan() -> None:
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

    return [
        loaded.identity.name,
        str(len(loaded.graph.regular)),
        str(len(observation.units)),
        f"{median_ms(plan, GOES):.1f}",
        f"{load_ms:.0f}",
        f"{observe_ms:.0f}",
    ]
