"""The arguments of ``split-plan``, and the request that they make."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill

from profiler.feed_arguments import add_feed_arguments
from profiler.graph.feeds import parse_input_shapes, read_feeds
from profiler.links.parsing import parse_link
from profiler.links.presets import link_preset_names
from profiler.presets import preset_names
from protocol.codecs import CODEC_NAMES, Codec, parse_codec
from protocol.command import CommandParser, whole_number
from protocol.text import did_you_mean, quoted
from splitter.errors import PlanError
from splitter.model_config import find_model_config
from splitter.optimise.solver import TIME_LIMIT_S
from splitter.request import DEFAULT_CLOUD, DEVICE_STAND_IN, PlanRequest
from splitter.sides import LOCAL, parse_side
from splitter.wishes import (
    Keep,
    Load,
    Prices,
    Wishes,
    parse_lack,
    parse_limit,
    parse_objectives,
    parse_pin,
)

VERIFIED = 3
_MOST_VERIFIED, _MOST_SHARING = 100, 1_000_000
_TENSOR_CODECS = tuple(name for name in CODEC_NAMES if not name.startswith("jpeg"))
_EXAMPLES = """\
examples:
  split-plan model.onnx --device pi4 --link 20mbps,rtt=10ms
  split-plan model.onnx --device local --cloud t4 --link lte --feed photo.npz -o bundle
  split-plan model.onnx --device pi4 --link wifi --minimize energy --subject-to "latency_ms<=100"
  split-plan model.onnx --device pi4 --link 20mbps --keep-on-device input --explain"""


def request_of(options: Namespace, progress: Callable[[str], None]) -> PlanRequest:
    """Return what the arguments ask for; links are probed, files read.

    Raises:
        HeadtailError: Something that is named is not there, or is not what it should be.
    """
    if len(options.edge) != len(options.edge_link):
        raise PlanError(
            f"there are {len(options.edge)} --edge and {len(options.edge_link)} --edge-link; give "
            "each machine between device and cloud the link that leads on from it"
        )
    device = parse_side(options.device, DEVICE_STAND_IN)
    cloud = parse_side(options.cloud, DEFAULT_CLOUD)
    edges = [parse_side(name, DEFAULT_CLOUD) for name in options.edge]
    feeds = read_feeds(options.feed) if options.feed else {}
    config = find_model_config(options.model, options.model_config)
    progress("reading or measuring the link")
    onward = [parse_link(text) for text in options.edge_link]
    return PlanRequest(
        device=device,
        cloud=cloud,
        link=parse_link(options.link),
        codecs=options.codec,
        middle=tuple(zip(edges, onward, strict=True)),
        wishes=options.wishes,
        feeds=feeds,
        shapes=parse_input_shapes(options.input),
        config=config,
        verified=VERIFIED if options.verify is None else options.verify,
        time_limit_s=options.time_limit_s,
    )


def parse_options(arguments: Sequence[str] | None) -> Namespace:
    """Return the arguments, each checked as far as it can be by itself.

    Raises:
        PlanError: A wish is not understood.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.cut is not None and options.output is None:
        parser.error("--cut says what a bundle runs, so it needs -o BUNDLE")
    if options.verify is not None and LOCAL not in (options.device, options.cloud):
        parser.error("--verify times cut models on this machine; no side of the plan is local")
    if options.link_usd_per_gb is not None and options.cloud_usd_per_hour is None:
        parser.error("--link-usd-per-gb needs --cloud-usd-per-hour too")
    options.wishes = _wishes(options)
    return options


def _wishes(options: Namespace) -> Wishes:
    prices = None
    if options.cloud_usd_per_hour is not None:
        prices = Prices(options.cloud_usd_per_hour, options.link_usd_per_gb or 0.0)
    return Wishes(
        objectives=parse_objectives(options.objective),
        rules=(
            *map(parse_limit, options.subject_to),
            *map(Keep, options.keep_on_device),
            *map(parse_pin, options.pin),
            *map(parse_lack, options.cannot_run),
        ),
        prices=prices,
        load=Load(options.cloud_load, options.devices, options.workers, options.fps),
    )


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="split-plan",
        description="Decide where to cut an ONNX network between a device and the cloud.",
        epilog=_epilog(),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx file")
    _add_machines(parser)
    _add_wishes(parser)
    add_feed_arguments(parser)
    parser.add_argument(
        "--model-config",
        type=Path,
        metavar="FILE.yaml",
        help="preprocess and labels (default: MODEL.yaml beside the model, if there is one)",
    )
    _add_outputs(parser)
    return parser


def _add_machines(parser: CommandParser) -> None:
    machines = parser.add_argument_group("machines and links")
    machines.add_argument(
        "--device",
        required=True,
        metavar="NAME|FILE|local",
        help="where the head runs: a preset such as pi4, a profile or trace, or this machine",
    )
    machines.add_argument(
        "--link",
        required=True,
        metavar="LINK",
        help="20mbps, 20mbps/5mbps (up/down), 20mbps,rtt=30ms, a preset such as lte, a trace.csv,"
        " or probe:tcp://HOST:PORT",
    )
    machines.add_argument(
        "--cloud",
        default=DEFAULT_CLOUD,
        metavar="NAME|FILE|local",
        help="where the tail runs, likewise (default: %(default)s)",
    )
    machines.add_argument(
        "--edge",
        action="append",
        default=[],
        metavar="NAME|FILE",
        help="a machine between device and cloud; may be given several times, nearest first",
    )
    machines.add_argument(
        "--edge-link",
        action="append",
        default=[],
        metavar="LINK",
        help="the link that leads on from an --edge; once for each",
    )
    machines.add_argument(
        "--codec",
        type=_tensor_codecs,
        default=(parse_codec("affine8"),),
        metavar="CODEC,CODEC",
        help=f"how tensors may travel: {', '.join(_TENSOR_CODECS)} (default: affine8)",
    )
    machines.add_argument(
        "--verify",
        type=whole_number(0, _MOST_VERIFIED),
        metavar="K",
        help="where a side is local: time the models of the K leading cuts on this machine"
        f" (default: {VERIFIED})",
    )


def _add_wishes(parser: CommandParser) -> None:
    wishes = parser.add_argument_group("what the plan is for")
    wishes.add_argument(
        "--objective",
        "--minimize",
        default="latency",
        metavar="WHAT",
        help="latency, throughput, energy, money, or a sum such as 'latency_ms +"
        " 0.5*device_energy_mj'; several with commas, each among the best of those before"
        " (default: %(default)s)",
    )
    for option, metavar, text in (
        ("--subject-to", "METRIC<=X", "a limit, such as 'latency_ms<=100' or 'fps>=10'"),
        (
            "--keep-on-device",
            "NAME|first:K|input",
            "a tensor or node that stays on the device, the first K nodes, or the inputs",
        ),
        ("--pin", "NODE=TIER", "a node that runs on device, edge or cloud"),
        ("--cannot-run", "TIER:OP,OP", "operators that a tier lacks, such as device:Einsum"),
    ):
        wishes.add_argument(
            option, action="append", default=[], metavar=metavar, help=f"{text}; repeatable"
        )
    wishes.add_argument(
        "--cloud-load",
        type=_number(0.0, 1.0),
        default=0.0,
        metavar="SHARE",
        help="share of the time in which the worker serves others (default: 0)",
    )
    wishes.add_argument(
        "--fps", type=_number(0.0), metavar="F", help="frames a second that each device makes"
    )
    for option, text in (
        ("--devices", "devices that make such frames and share the workers (default: 1)"),
        ("--workers", "workers that they share (default: 1)"),
    ):
        wishes.add_argument(
            option, type=whole_number(1, _MOST_SHARING), default=1, metavar="N", help=text
        )
    wishes.add_argument(
        "--cloud-usd-per-hour", type=_number(0.0), metavar="X", help="price of a busy worker"
    )
    wishes.add_argument(
        "--link-usd-per-gb", type=_number(0.0), metavar="X", help="price of 10^9 bytes (default: 0)"
    )
    wishes.add_argument(
        "--time-limit-s",
        type=_number(0.0),
        default=TIME_LIMIT_S,
        metavar="S",
        help="when to stop looking; the gap to a better plan is told then (default: %(default)g)",
    )


def _add_outputs(parser: CommandParser) -> None:
    outputs = parser.add_argument_group("outputs")
    outputs.add_argument("--json", action="store_true", help="print the plan as one JSON object")
    outputs.add_argument(
        "--explain",
        action="store_true",
        help="say why: neighbours, rules that bind, and how far inputs must move for another plan",
    )
    outputs.add_argument(
        "--report", type=Path, metavar="FILE.html", help="write a page with figures about the plan"
    )
    outputs.add_argument(
        "-o", "--output", type=_folder, metavar="BUNDLE", help="write a bundle that can be run"
    )
    outputs.add_argument(
        "--cut",
        metavar="ID|device|cloud",
        help="a candidate of the table that the bundle runs (default: the best)",
    )


def _epilog() -> str:
    """Examples, and the names that are known, as the files of presets have them."""
    known = {
        "presets for --device and --cloud": preset_names(),
        "presets for --link": link_preset_names(),
    }
    lists = (
        fill(f"{title}: {', '.join(names)}", 80, break_on_hyphens=False)
        for title, names in known.items()
    )
    return "\n\n".join((_EXAMPLES, *lists))


def _tensor_codecs(text: str) -> tuple[Codec, ...]:
    codecs = []
    for name in dict.fromkeys(part.strip() for part in text.split(",")):
        if name not in _TENSOR_CODECS:
            kind = "for pictures" if name.startswith("jpeg") else "unknown"
            hint = did_you_mean(name, _TENSOR_CODECS)
            raise ArgumentTypeError(
                f"codec {quoted(name)} is {kind}{hint}; tensors take {', '.join(_TENSOR_CODECS)}"
            )
        codecs.append(parse_codec(name))
    return tuple(codecs)


def _number(above: float, below: float = float("inf")) -> Callable[[str], float]:
    """Return what reads a number from ``above``, which counts if there is an end, to an end."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        bounded = below != float("inf")
        if not (above < value < below or (bounded and value == above)):
            limits = f"{above:g} to below {below:g}" if bounded else f"a number above {above:g}"
            raise ArgumentTypeError(f"{quoted(text)} is not possible; give {limits}")
        return value

    return read


def _folder(name: str) -> Path:
    if not name:  # a path would take it for the working folder
        raise ArgumentTypeError("the name is empty; name a folder")
    return Path(name)
