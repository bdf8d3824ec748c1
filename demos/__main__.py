"""``python -m demos``: plan, split and run EfficientNet-Lite0 over an emulated link; compare."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from demos import stage
from demos.photos import FOLDER, read_photos
from demos.profiles import measure_sides
from demos.report import Measured, comparison, complaints, label_table, modes_of, verdict
from profiler.profile_file import write_profile
from protocol.command import CommandParser, run_command
from protocol.console import Progress
from protocol.emulator import EmulatedLink, LinkSettings
from splitter.model_config import find_model_config

MODEL = Path(__file__).parent / "models" / "efficientnet_lite0.onnx"
OUTPUT = Path(__file__).parent / "output"
# Of the five photos it is the one whose JPEG is of middling size, so it stands for all in the plan.
PLANNED_WITH = "coffee.jpg"

DEVICE_FACTOR = 6
LINK_MBPS = 20
ROUND_TRIP_MS = 20
# Each mode runs several times, in turn, so that a busy moment of the machine does not hit one only.
PASSES = 3
ROUNDS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code: 0 only if all labels are right."""
    return run_command(_main, arguments)


def _main(arguments: Sequence[str] | None) -> int:
    CommandParser(prog="python -m demos", description=__doc__).parse_args(arguments)
    return run_demo(OUTPUT, PASSES, ROUNDS)


def run_demo(output: Path, passes: int, rounds: int) -> int:
    """Run the demo.

    Args:
        output: Where profiles and bundle are written.
        passes: How often each mode runs as a process of its own.
        rounds: How often each photo is shown in each pass, after one round that is not counted.
    """
    print(
        f"EfficientNet-Lite0 on {len(read_photos())} photos; one machine plays both sides.\n"
        f"device: this machine, emulated as {DEVICE_FACTOR} times slower: each run of a model is"
        f" stretched to {DEVICE_FACTOR} times its time.\n"
        "        Codec time is not stretched: encoding and decoding run at full speed.\n"
        f"link:   {LINK_MBPS} Mbit/s up and down, round trip {ROUND_TRIP_MS} ms, emulated.\n"
        "cloud:  a cloud-worker process on this machine. Models run on one thread on both sides.\n"
    )
    output.mkdir(parents=True, exist_ok=True)
    plan = _plan(output)
    results = _measure(plan, output, passes, rounds)
    photos = read_photos()
    chosen = plan["cut"]["id"]
    print(comparison(results, photos, chosen))
    print(f"* chosen by the planner. {verdict(results)}")
    print(_why(results, chosen))
    print("\n" + label_table(results, photos))
    found = complaints(results, photos)
    for complaint in found:
        print(f"WRONG: {complaint}")
    return 1 if found else 0


def _plan(output: Path) -> dict[str, Any]:
    feed, device, cloud = (output / name for name in ("photo.npz", "device.json", "cloud.json"))
    preprocess = find_model_config(MODEL, None).preprocess
    if preprocess is None:
        raise stage.DemoError(f"{MODEL.with_suffix('.yaml')} has no preprocess block")
    image = preprocess.normalise(preprocess.pixels(FOLDER / PLANNED_WITH))
    np.savez(feed, image=image)
    print("Measuring this machine ...", flush=True)
    sides = measure_sides(MODEL, {"image": image}, stage.THREADS, DEVICE_FACTOR)
    for profile, path in zip(sides, (device, cloud), strict=True):
        write_profile(profile, path)
    print("Planning and writing the bundle ...", flush=True)
    link = f"{LINK_MBPS}mbps,rtt={ROUND_TRIP_MS}ms"
    return stage.make_plan(MODEL, feed, device, cloud, link, output / "bundle")


def _measure(plan: dict[str, Any], output: Path, passes: int, rounds: int) -> list[Measured]:
    modes = modes_of(plan)
    answers: dict[str, list[dict[str, Any]]] = {mode.cut: [] for mode in modes}
    photos = len(read_photos())
    count = (1 + rounds) * photos
    settings = LinkSettings(LINK_MBPS, LINK_MBPS, ROUND_TRIP_MS)
    print(f"Streaming {len(modes) * passes * count} frames ...\n", flush=True)
    with (
        stage.running_worker(output) as worker,
        EmulatedLink(worker, settings) as link,
        Progress("frames", len(modes) * passes * count) as progress,
    ):
        for _ in range(passes):
            for mode in modes:
                stream = stage.run_device(
                    output / "bundle", mode.cut, DEVICE_FACTOR, FOLDER, count, link.address
                )
                for number, answer in enumerate(stream):
                    if number >= photos:  # Caches, memory and TCP settle in the first round.
                        answers[mode.cut].append(answer)
                    progress.advance(mode.title)
    return [Measured(mode, answers[mode.cut]) for mode in modes]


def _why(results: Sequence[Measured], chosen: str) -> str:
    by_cut = {result.mode.cut: result.mode for result in results}
    splits = [mode for cut, mode in by_cut.items() if cut not in ("device", "cloud")]
    if not splits:
        return "No split is possible at all."
    (split,) = splits
    if split.cut == chosen:
        return "Here the best split is faster than both whole modes."
    best = by_cut[chosen]
    return (
        f"Here no split is the fastest: {best.title} is predicted to be"
        f" {split.latency_ms - best.latency_ms:.1f} ms faster than the best one, which is shown"
        " for comparison."
    )


if __name__ == "__main__":
    sys.exit(main())
