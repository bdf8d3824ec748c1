"""``splitter.plan``: everything that the command ``split-plan`` does, as a function."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.graph.feeds import Feeds
from profiler.graph.model import load_model
from profiler.links import Link
from profiler.links.parsing import parse_link
from protocol.codecs import parse_codec
from splitter.errors import PlanError
from splitter.model_config import find_model_config
from splitter.optimise.solver import TIME_LIMIT_S
from splitter.plans import Plan
from splitter.request import DEFAULT_CLOUD, DEVICE_STAND_IN, Planning, PlanRequest
from splitter.sides import Side, parse_side
from splitter.torch_export import export_module, is_module
from splitter.wishes import (
    Keep,
    Lack,
    Limit,
    Load,
    Pin,
    Prices,
    Rule,
    Wishes,
    parse_limit,
    parse_objectives,
)
from splitter.workspace import bundle_workspace

if TYPE_CHECKING:
    from profiler.presets import Preset
    from profiler.profile import Profile

    Machine = str | Path | Preset | Profile


def plan(
    model: str | Path | Any,
    *,
    device: Machine,
    link: str | Link,
    cloud: Machine = DEFAULT_CLOUD,
    edges: Sequence[tuple[Machine, str | Link]] = (),
    objective: str = "latency",
    constraints: Iterable[str | Rule] = (),
    codecs: Sequence[str] = ("affine8",),
    feeds: Feeds | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    example: Any = None,
    prices: Prices | None = None,
    load: Load | None = None,
    verify: int = 3,
    time_limit_s: float = TIME_LIMIT_S,
    bundle: str | Path | None = None,
) -> Plan:
    """Return the best plan for a model on these machines.

    Args:
        model: An ``.onnx`` file, or with the extra ``torch`` a module, which is exported.
        device: Where the head runs: a preset's name, ``local``, a file of costs, or costs.
        link: What leads on from the device, as ``--link`` takes it, or a link.
        cloud: Where the tail runs, likewise.
        edges: Machines between them, and the links that lead on from these.
        objective: As ``--objective`` takes it.
        constraints: Limits as ``--subject-to`` takes them, or rules.
        codecs: How tensors may travel.
        feeds: Real inputs by name.
        shapes: Shapes of inputs with free axes, where no feeds are given.
        example: Of a module: one input, or a tuple of them.
        prices: What the cloud costs, where money counts.
        load: How busy the cloud is.
        verify: How many cuts are timed where a side is this machine.
        time_limit_s: When a solver gives up.
        bundle: Where to write a bundle; an old one there is replaced.

    Raises:
        HeadtailError: Something is not there, not what it should be, or no plan keeps the rules.
    """
    rules = tuple(_rule(constraint) for constraint in constraints)
    with tempfile.TemporaryDirectory(prefix="headtail-") as name:
        if is_module(model):
            path, feeds = export_module(model, example, Path(name) / "model.onnx")
        elif example is not None:
            raise PlanError("example is for modules; give the inputs of a file as feeds")
        else:
            path = Path(model)
        request = PlanRequest(
            device=_side(device, DEVICE_STAND_IN),
            cloud=_side(cloud, DEFAULT_CLOUD),
            link=_link(link),
            codecs=tuple(map(parse_codec, codecs)),
            middle=tuple((_side(machine, DEFAULT_CLOUD), _link(each)) for machine, each in edges),
            wishes=Wishes(parse_objectives(objective), rules, prices, load or Load()),
            feeds=feeds or {},
            shapes=shapes or {},
            config=find_model_config(path, None),
            verified=verify,
            time_limit_s=time_limit_s,
        )
        loaded = load_model(path)
        if bundle is None:
            return Planning(request, loaded, Path(name)).plan()
        with bundle_workspace(Path(bundle)) as folder:
            planning = Planning(request, loaded, folder)
            decision = planning.plan()
            planning.write(decision, Path(bundle))
            return decision


def _rule(constraint: str | Rule) -> Rule:
    if isinstance(constraint, (Limit, Keep, Pin, Lack)):
        return constraint
    return parse_limit(constraint)


def _side(machine: Machine, stand_in: str) -> Side:
    if isinstance(machine, (str, Path)):
        return parse_side(str(machine), stand_in)
    return machine


def _link(link: str | Link) -> Link:
    return parse_link(link) if isinstance(link, str) else link
