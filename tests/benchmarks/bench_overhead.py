"""What the runtime itself costs a frame: agent and worker, on loopback, with a 100 kB frontier.

Method: a small network cut where 100,352 bytes of float32 cross, with a real worker process and the
agent in this one; frames one at a time. Overhead is the end-to-end latency less head, encode,
decode, tail, encoding and decoding of the result, and less the wire: what a bare DEALER and ROUTER
in two processes take for a round trip of as many bytes. The median of 500 frames after 50.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import zmq

from device_agent import Agent, Answer, open_source
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from protocol.codecs import RawCodec, encode_tensor
from protocol.console import table
from splitter.bundle import Bundle, open_bundle
from splitter.bundle_writer import BundleContents, write_bundle
from splitter.planner import make_plan
from splitter.weighing import Weighing
from splitter.workspace import bundle_workspace
from tests.splitter.helpers import prepare_file
from tests.splitter.test_planner import situation_of

FRONTIER = (1, 32, 28, 28)
FRAMES, WARM_UP = 500, 50

_ECHO = """
import sys, zmq
socket = zmq.Context().socket(zmq.ROUTER)
print(socket.bind_to_random_port("tcp://127.0.0.1"), flush=True)
answer = bytes(int(sys.argv[1]))
while True:
    peer, *_ = socket.recv_multipart(copy=False)
    socket.send_multipart([peer, b"", answer], copy=False)
"""


def run() -> None:
    with tempfile.TemporaryDirectory() as name:
        bundles = small_bundles(Path(name))
        rows = [row(bundle, codec) for codec, bundle in bundles.items()]
    headers = [
        "codec",
        "up kB",
        "latency ms",
        "head to tail ms",
        "wire ms",
        "overhead ms",
        "p90 ms",
    ]
    print(table(rows, headers))


def small_bundles(folder: Path) -> dict[str, Bundle]:
    """The same cut with two codecs."""
    axes = "x".join(map(str, FRONTIER)).replace("x", ",")
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[{axes}] x) => (float[1,32] y) {{
          a = Tanh (x)
          b = Relu (a)
          p = GlobalAveragePool (b)
          y = Flatten (p) }}"""
    )
    path = folder / "small.onnx"
    path.write_bytes(model.SerializeToString())
    feeds = {"x": np.random.default_rng(0).standard_normal(FRONTIER).astype(np.float32)}
    bundles = {}
    for codec in ("raw", "affine8"):
        target = folder / codec
        with bundle_workspace(target) as workspace:
            prepared = prepare_file(path, feeds, workspace)
            situation = situation_of(prepared, codec)
            cut = next(cut for cut in prepared.space.all_cuts() if cut.frontier == ("b",))
            weighing = Weighing(situation)
            split = weighing.candidate(weighing.placement_of(cut.units))
            plan = replace(make_plan(situation), best_split=split)
            contents = BundleContents(
                plan, prepared.space, prepared.observation.tensors, prepared.feeds
            )
            write_bundle(prepared.stored, contents, OnnxRuntimeEngine(EngineOptions(1)), target)
        bundles[codec] = open_bundle(target)
    return bundles


def row(bundle: Bundle, codec: str) -> list[str]:
    (cut,) = (cut for cut in bundle.cuts.values() if cut.head and cut.tail)
    with worker(bundle.folder.parent) as address:
        source = open_source("bench", bundle, count=FRAMES + WARM_UP)
        with Agent(bundle, worker=address, cut=cut.id) as agent:
            answers = list(agent.answers(source))[WARM_UP:]
    assert all(answer.computed_on == "cloud" for answer in answers)
    wire_ms = bare_round_trip_ms(answers[0].uplink_bytes, answers[0].downlink_bytes)
    decode_ms = decoding_of_result_ms()
    work_ms = [work_of(answer) + decode_ms for answer in answers]
    overhead_ms = sorted(
        answer.times.latency_ms - work - wire_ms
        for answer, work in zip(answers, work_ms, strict=True)
    )
    return [
        codec,
        f"{answers[0].uplink_bytes / 1e3:.0f}",
        f"{statistics.median(answer.times.latency_ms for answer in answers):.2f}",
        f"{statistics.median(work_ms):.2f}",
        f"{wire_ms:.2f}",
        f"{statistics.median(overhead_ms):.2f}",
        f"{overhead_ms[len(overhead_ms) * 9 // 10]:.2f}",
    ]


def work_of(answer: Answer) -> float:
    times = answer.times
    parts = (times.device_ms, times.encode_ms, times.decode_ms, times.cloud_ms)
    return sum(parts) + times.cloud_encode_ms


@contextmanager
def worker(models: Path) -> Iterator[str]:
    command = Path(sys.executable).with_name("cloud-worker")
    process = subprocess.Popen(
        [command, "--models", models, "--bind", "tcp://127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()


def decoding_of_result_ms() -> float:
    codec = RawCodec()
    encoded = encode_tensor("y", np.zeros((1, 32), np.float32), codec)
    return _median_ms(lambda: codec.decode(encoded.payload, encoded.spec))


def bare_round_trip_ms(up_bytes: int, down_bytes: int) -> float:
    process = subprocess.Popen(
        [sys.executable, "-c", _ECHO, str(down_bytes)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    try:
        socket.connect(f"tcp://127.0.0.1:{process.stdout.readline().strip()}")
        message = bytes(up_bytes)

        def round_trip() -> None:
            socket.send_multipart([b"", message], copy=False)
            socket.recv_multipart(copy=False)

        return _median_ms(round_trip)
    finally:
        context.destroy(linger=0)
        process.kill()
        process.wait()


def _median_ms(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(FRAMES):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times[WARM_UP:])
