"""The command ``split-plan``."""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import fill

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.feed_arguments import add_feed_arguments, feeds_of
from profiler.graph.graph import Graph
from profiler.graph.model import load_model
from profiler.graph.observation import Observation, observe
from profiler.graph.weights import store_model
from profiler.links import SteadyLink
from profiler.links.parsing import parse_link
from profiler.links.presets import link_preset_names
from profiler.machine import available_threads
from profiler.presets import preset_names
from profiler.radios import load_radio
from profiler.values import TensorSlot
from protocol.codecs import CODEC_NAMES, Codec, RawCodec, parse_codec
from protocol.command import CommandParser, run_command, whole_number
from protocol.console import Progress
from protocol.text import did_you_mean, quoted
from splitter.bundle_writer import BundleContents, write_bundle
from splitter.cuts import Cut, CutSpace
from splitter.memory import part_memory
from splitter.model_config import find_model_config, labels_note
from splitter.pictures import picture_encoding, sends_picture
from splitter.plan import Plan
from splitter.planner import make_plan
from splitter.report import plan_text
from splitter.sides import LOCAL, Sides, check_side, parse_side, recording_notes
from splitter.situation import PartTimes, Situation
from splitter.verification import verified_plan
from splitter.workspace import bundle_workspace

_DEFAULT_CLOUD = "cloud-cpu"
_VERIFIED, _MOST_VERIFIED = 3, 100
_DEVICE_STAND_IN = "pi4"  # where a trace does not tell, a slow board is the careful guess
_EXAMPLES = """\
examples:
  split-plan model.onnx --device pi4 --link 20mbps,rtt=10ms
  split-plan model.onnx --device board.json --cloud local --link lte -o bundle"""
_TENSOR_CODECS = tuple(name for name in CODEC_NAMES if not name.startswith("jpeg"))


def run(arguments: Sequence[str] | None) -> int:
    """Run the command's body and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.cut is not None and options.output is None:
        parser.error("--cut says what a bundle runs, so it needs -o BUNDLE")
    if options.verify is None:
        options.verify = _VERIFIED
    elif LOCAL not in (options.device, options.cloud):
        parser.error("--verify times cut models on this machine; no side of the plan is local")
    with Progress("split-plan") as progress, _workspace(options.output) as folder:
        plan, apart = _plan(options, folder, progress.advance)
    if options.json:
        print(json.dumps(plan.to_dict(), allow_nan=False))
        return 0
    print(plan_text(plan))
    if options.output:
        runs = "" if options.cut is None else f"; it runs {options.cut}"
        print(f"\nBundle written to {options.output}{runs}.")
        for cut, distance in apart.items():
            print(f"Head and tail of {cut}, without codec, are {distance:.1e} off the whole model.")
    return 0


@contextmanager
def _workspace(output: Path | None) -> Iterator[Path]:
    if output is not None:
        with bundle_workspace(output) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="headtail-") as name:
        yield Path(name)


def _plan(
    options: Namespace, folder: Path, progress: Callable[[str], None]
) -> tuple[Plan, dict[str, float]]:
    device = parse_side(options.device, _DEVICE_STAND_IN)
    cloud = parse_side(options.cloud, _DEFAULT_CLOUD)
    progress("reading or measuring the link")
    link, codec = parse_link(options.link), options.codec
    codecs = [codec.name, RawCodec().name]
    progress("loading")
    loaded = load_model(options.model)
    config = find_model_config(options.model, options.model_config)
    feeds, real = feeds_of(options, loaded.graph.inputs)
    for side in (device, cloud):
        check_side(side, loaded, feeds, codecs)
    notes = [] if real else ["Inputs were made up; sizes of encoded tensors need --feed FILE.npz."]
    picture = estimated = None
    if config.preprocess is not None:
        picture, estimated = picture_encoding(
            config.preprocess, loaded.graph.inputs, feeds, real=real
        )
    stored = store_model(loaded, folder)
    progress("trying the model out")
    observation = observe(stored, feeds, codecs)
    notes.extend(labels_note(config.labels, _outputs(loaded.graph, observation)))
    sides = Sides(stored, observation, progress)
    device_costs, cloud_costs = sides.profile(device), sides.profile(cloud)
    notes.extend(recording_notes(device, device_costs))
    notes.extend(recording_notes(cloud, cloud_costs))
    situation = Situation(
        model=loaded.identity,
        space=CutSpace.of(loaded.graph, observation.units, observation.tensors),
        tensors=observation.tensors,
        device=device_costs,
        cloud=cloud_costs,
        link=link,
        codecs=(codec,),
        picture=picture,
        notes=(*link.notes, *notes),
        radio=load_radio(link.power) if isinstance(link, SteadyLink) and link.power else None,
    )
    progress("planning")
    if None in (device, cloud):
        timer = sides.timer(device, cloud)

        def time_cut(cut: Cut) -> PartTimes:
            progress(f"timing {cut.id}")
            return timer(cut)

        plan = verified_plan(situation, time_cut, options.verify)
    else:
        plan = make_plan(situation)
    plan = replace(plan, memory=part_memory(stored, observation, plan.chosen.units))
    if estimated and sends_picture(plan.cloud_only, picture):
        plan = replace(plan, notes=(*plan.notes, estimated))
    if options.output is None:
        return plan, {}
    progress("writing the bundle")
    contents = BundleContents(
        plan,
        situation.space,
        observation.tensors,
        feeds,
        config.preprocess,
        config.labels,
        options.cut,
    )
    engine = OnnxRuntimeEngine(EngineOptions(threads=available_threads()))
    return plan, write_bundle(stored, contents, engine, options.output)


def _outputs(graph: Graph, observation: Observation) -> list[TensorSlot]:
    """The model's outputs as they were seen."""
    seen = [observation.tensors[name] for name in graph.outputs]
    return [TensorSlot(each.slot.name, each.slot.dtype, each.shape) for each in seen]


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="split-plan",
        description="Decide where to cut an ONNX network between a device and the cloud.",
        epilog=_epilog(),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx file")
    parser.add_argument(
        "--device",
        required=True,
        metavar="NAME|FILE|local",
        help="where the head runs: a preset such as pi4, a profile or trace, or this machine",
    )
    parser.add_argument(
        "--link",
        required=True,
        metavar="LINK",
        help="20mbps, 20mbps/5mbps (up/down), 20mbps,rtt=30ms, a preset such as lte, a trace.csv,"
        " or probe:tcp://HOST:PORT",
    )
    parser.add_argument(
        "--cloud",
        default=_DEFAULT_CLOUD,
        metavar="NAME|FILE|local",
        help="where the tail runs, likewise (default: %(default)s)",
    )
    parser.add_argument(
        "--codec",
        type=_tensor_codec,
        default=parse_codec("affine8"),
        metavar="CODEC",
        help=f"how tensors travel: {', '.join(_TENSOR_CODECS)} (default: affine8)",
    )
    parser.add_argument(
        "--verify",
        type=whole_number(0, _MOST_VERIFIED),
        metavar="K",
        help="where a side is local: time the models of the K leading cuts on this machine"
        f" (default: {_VERIFIED})",
    )
    add_feed_arguments(parser)
    parser.add_argument(
        "--model-config",
        type=Path,
        metavar="FILE.yaml",
        help="preprocess and labels (default: MODEL.yaml beside the model, if there is one)",
    )
    parser.add_argument("--json", action="store_true", help="print the plan as one JSON object")
    parser.add_argument(
        "-o",
        "--output",
        type=_folder,
        metavar="BUNDLE",
        help="write a bundle that can be run",
    )
    parser.add_argument(
        "--cut",
        metavar="ID|device|cloud",
        help="a candidate of the table that the bundle runs (default: the best)",
    )
    return parser


def _epilog() -> str:
    """Two examples, and the names that are known, as the files of presets have them."""
    known = {
        "presets for --device and --cloud": preset_names(),
        "presets for --link": link_preset_names(),
    }
    lists = (
        fill(f"{title}: {', '.join(names)}", 80, break_on_hyphens=False)
        for title, names in known.items()
    )
    return "\n\n".join((_EXAMPLES, *lists))


def _tensor_codec(name: str) -> Codec:
    if name not in _TENSOR_CODECS:
        kind = "for pictures" if name.startswith("jpeg") else "unknown"
        hint = did_you_mean(name, _TENSOR_CODECS)
        raise ArgumentTypeError(
            f"codec {quoted(name)} is {kind}{hint}; tensors take {', '.join(_TENSOR_CODECS)}"
        )
    return parse_codec(name)


def _folder(name: str) -> Path:
    if not name:  # a path would take it for the working folder
        raise ArgumentTypeError("the name is empty; name a folder")
    return Path(name)


if __name__ == "__main__":
    raise SystemExit(run_command(run))
