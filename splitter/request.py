"""A plan as it is asked for: files and names, read, measured and decided. Needs onnx and scipy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.feeds import Feeds, resolve_feeds
from profiler.graph.model import LoadedModel
from profiler.graph.observation import observe
from profiler.graph.weights import StoredModel, store_model
from profiler.links import Link, SteadyLink
from profiler.links.traced import TracedLink
from profiler.machine import available_threads
from profiler.radios import load_radio
from profiler.values import TensorSlot
from protocol.codecs import Codec, RawCodec
from splitter.bundle_writer import BundleContents, write_bundle
from splitter.cuts import Cut, CutSpace
from splitter.errors import PlanError
from splitter.explanation import Explanation, explain
from splitter.family import Box, plan_family
from splitter.memory import part_memory
from splitter.model_config import ModelConfig, labels_note
from splitter.optimise.solver import TIME_LIMIT_S
from splitter.pictures import picture_encoding, sends_picture
from splitter.planner import make_plan
from splitter.plans import Plan
from splitter.policy import trace_policies
from splitter.sides import Side, Sides, check_side, side_notes
from splitter.situation import Hop, InputEncoding, PartTimes, Situation
from splitter.verification import verified_plan
from splitter.weighing import Weighing
from splitter.wishes import Wishes

DEFAULT_CLOUD = "cloud-cpu"
DEVICE_STAND_IN = "pi4"  # where a trace does not tell, a slow board is the careful guess


@dataclass(frozen=True)
class PlanRequest:
    """What a plan is asked for.

    Attributes:
        device: Where the head runs; ``None`` is this machine.
        cloud: Where the tail runs, likewise.
        link: What leads on from the device.
        middle: Machines between device and cloud, and the links that lead on from them.
        codecs: How tensors may travel.
        wishes: What the user wants of the plan.
        feeds: Inputs by name, where real ones are known.
        shapes: Shapes by name of other inputs.
        config: How pictures become inputs, and the labels.
        verified: How many cuts are timed where a side is this machine.
        time_limit_s: When a solver gives up.
    """

    device: Side
    cloud: Side
    link: Link
    codecs: tuple[Codec, ...]
    middle: tuple[tuple[Side, Link], ...] = ()
    wishes: Wishes = field(default_factory=Wishes)
    feeds: Feeds = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    config: ModelConfig = field(default_factory=ModelConfig)
    verified: int = 3
    time_limit_s: float = TIME_LIMIT_S

    @property
    def codec_names(self) -> list[str]:
        """Names of the codecs whose sizes are to be measured; results travel raw."""
        return list(dict.fromkeys((*(codec.name for codec in self.codecs), RawCodec().name)))

    @property
    def sides(self) -> tuple[Side, ...]:
        """The machines, the device first."""
        return (self.device, *(side for side, _ in self.middle), self.cloud)


class Planning:
    """A model with everything that was seen of it, ready to be planned.

    Args:
        request: What is asked for.
        loaded: The model.
        folder: Where parts of it may be written.
        progress: Told what is being done.

    Raises:
        HeadtailError: Costs are of another model, or the model cannot be run.
    """

    def __init__(
        self,
        request: PlanRequest,
        loaded: LoadedModel,
        folder: Path,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._request, self._progress, self._loaded = request, progress, loaded
        self.feeds = resolve_feeds(loaded.graph.inputs, request.feeds, request.shapes)
        for side in request.sides:
            check_side(side, loaded, self.feeds, request.codec_names)
        real = request.feeds.keys() >= self.feeds.keys()
        notes = [] if real else [_MADE_UP]
        picture = self._estimated = None
        if request.config.preprocess is not None:
            picture, self._estimated = picture_encoding(
                request.config.preprocess, loaded.graph.inputs, self.feeds, real=real
            )
        progress("storing")
        self.stored: StoredModel = store_model(loaded, folder)
        progress("trying the model out")
        self.observation = observe(self.stored, self.feeds, request.codec_names)
        notes.extend(labels_note(request.config.labels, self._outputs()))
        self._sides = Sides(self.stored, self.observation, progress)
        self.situation = self._situation(notes, picture)

    def _situation(self, notes: list[str], picture: InputEncoding | None) -> Situation:
        request, observation = self._request, self.observation
        profiles = [self._sides.profile(side) for side in request.sides]
        for side, profile in zip(request.sides, profiles, strict=True):
            notes.extend(side_notes(side, profile))
        link, *onward = (request.link, *(link for _, link in request.middle))
        return Situation(
            model=self._loaded.identity,
            space=CutSpace.of(self._loaded.graph, observation.units, observation.tensors),
            tensors=observation.tensors,
            device=profiles[0],
            cloud=profiles[-1],
            link=link,
            codecs=request.codecs,
            middle=tuple(
                Hop(profile, leading)
                for profile, leading in zip(profiles[1:-1], onward, strict=True)
            ),
            wishes=request.wishes,
            picture=picture,
            notes=(*link.notes, *notes),
            radio=load_radio(link.power) if isinstance(link, SteadyLink) and link.power else None,
        )

    def plan(self) -> Plan:
        """Return the best plan, with its family and what its parts take in memory.

        Raises:
            PlanError: No plan keeps the rules, or a wish names what there is not.
        """
        request, situation = self._request, self.situation
        self._progress("planning")
        if None in (request.device, request.cloud) and not request.middle:
            timer = self._sides.timer(request.device, request.cloud)

            def time_cut(cut: Cut) -> PartTimes:
                self._progress(f"timing {cut.id}")
                return timer(cut)

            plan = verified_plan(situation, time_cut, request.verified, request.time_limit_s)
        else:
            plan = make_plan(situation, request.time_limit_s)
        if not situation.middle:
            memory = part_memory(self.stored, self.observation, plan.chosen.units)
            plan = replace(plan, memory=memory)
        if self._estimated and sends_picture(plan.cloud_only, situation.picture):
            plan = replace(plan, notes=(*plan.notes, self._estimated))
        return self._with_family(plan)

    def _with_family(self, plan: Plan) -> Plan:
        link, load = self.situation.link, self.situation.wishes.load.factor
        self._progress("finding the plan family")
        weighing = Weighing(self.situation)
        family = plan_family(weighing, Box.around(link.uplink_mbps, link.rtt_ms, load))
        members = tuple(weighing.candidate(member.placement) for member in family.members)
        policies = trace_policies(family, link, load) if isinstance(link, TracedLink) else ()
        return replace(plan, family=family, family_candidates=members, policies=policies)

    def explanation(self, plan: Plan) -> Explanation:
        """Return why the plan is what it is."""
        self._progress("explaining")
        return explain(self.situation, plan, self._request.time_limit_s)

    def write(self, plan: Plan, target: Path, cut: str | None = None) -> dict[str, float]:
        """Write a bundle; see :func:`splitter.bundle_writer.write_bundle`.

        Raises:
            PlanError: The plan has a machine between device and cloud.
        """
        if self.situation.middle:
            raise PlanError(
                "a bundle is for one device and one cloud; plan without --edge to write one"
            )
        self._progress("writing the bundle")
        config = self._request.config
        contents = BundleContents(
            plan,
            self.situation.space,
            self.observation.tensors,
            self.feeds,
            config.preprocess,
            config.labels,
            cut,
        )
        engine = OnnxRuntimeEngine(EngineOptions(threads=available_threads()))
        return write_bundle(self.stored, contents, engine, target)

    def _outputs(self) -> list[TensorSlot]:
        """The model's outputs as they were seen."""
        seen = [self.observation.tensors[name] for name in self._loaded.graph.outputs]
        return [TensorSlot(each.slot.name, each.slot.dtype, each.shape) for each in seen]


_MADE_UP = "Inputs were made up; sizes of encoded tensors need --feed FILE.npz."
