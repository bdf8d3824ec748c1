"""The torch engine against ONNX Runtime, on whole networks.

Method: the shared networks (or the demo's) with their real inputs, on the processor, with one
thread and with all; runs of both engines in turn, medians of 15 after 3 that are dropped. The worst
difference is between the results of both, in parts of an output's largest magnitude; of the
quantised network it is between two roundings that take different ways (see
tests/profiler/torch_engine/test_networks.py).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from profiler.engine import EngineOptions, OnnxRuntimeEngine, Session
from profiler.engines import make_torch_engine
from profiler.errors import EngineError
from profiler.graph.feeds import read_feeds, resolve_feeds
from profiler.graph.model import load_model
from profiler.machine import available_threads
from protocol.console import table

ROOT = Path(__file__).resolve().parents[2]
WARM_UP, RUNS = 3, 15
HEADERS = ["network", "threads", "torch ms", "onnxruntime ms", "ratio", "worst difference"]

Arrays = Mapping[str, Any]


def run() -> None:
    try:
        version = make_torch_engine(1).version
    except EngineError as error:
        print(f"not run: {error}")
        return
    print(f"torch {version}, onnxruntime {OnnxRuntimeEngine.version}\n")
    folder = ROOT.parent / "shared" / "models"
    paths = sorted(folder.glob("*.onnx")) or sorted((ROOT / "demos" / "models").glob("*.onnx"))
    rows, ratios = [], []
    for path in paths:
        for threads in sorted({1, available_threads()}):
            row, ratio = compare(path, threads)
            rows.append(row)
            ratios.append(ratio)
    print(table(rows, HEADERS))
    print(f"median ratio {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def compare(path: Path, threads: int) -> tuple[list[str], float]:
    feed = path.with_suffix(".feed.npz")
    slots = load_model(path).graph.inputs
    feeds = resolve_feeds(slots, read_feeds(feed) if feed.is_file() else {}, {})
    torch = make_torch_engine(threads).load(path)
    runtime = OnnxRuntimeEngine(EngineOptions(threads)).load(path)
    worst = difference(torch.run(feeds), runtime.run(feeds))
    times = [(timed_ms(torch, feeds), timed_ms(runtime, feeds)) for _ in range(WARM_UP + RUNS)]
    ours, theirs = (statistics.median(series) for series in zip(*times[WARM_UP:], strict=True))
    figures = [f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}", f"{worst:.1e}"]
    return [path.stem, str(threads), *figures], ours / theirs


def timed_ms(session: Session, feeds: Arrays) -> float:
    before = time.perf_counter()
    session.run(feeds)
    return (time.perf_counter() - before) * 1e3


def difference(results: Arrays, expected: Arrays) -> float:
    worst = 0.0
    for name, array in expected.items():
        if array.size:
            apart = np.abs(results[name].astype(np.float64) - array.astype(np.float64)).max()
            worst = max(worst, float(apart / max(np.abs(array).max(), 1e-6)))
    return worst
