"""Everything that a plan is decided from. Light but for the cuts' graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from profiler.energy import Radio
from profiler.graph.observation import ObservedTensor
from profiler.links import Link
from profiler.profile import Profile
from profiler.values import ModelIdentity
from protocol.codecs import Codec
from splitter.cuts import CutSpace
from splitter.wishes import Wishes


@dataclass(frozen=True)
class InputEncoding:
    """A picture as the cloud-only mode sends it.

    Attributes:
        tensor: The model input that the cloud makes from the picture.
        codec: How the picture travels.
        bytes: Its size.
        shape: Height, width and channels of the picture.
    """

    tensor: str
    codec: str
    bytes: int
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class PartTimes:
    """How long the models of a cut were seen to run; ``None`` where a profile must say it.

    Attributes:
        device_ms: The head on the device.
        cloud_ms: The tail in the cloud.
    """

    device_ms: float | None
    cloud_ms: float | None


@dataclass(frozen=True)
class Hop:
    """A machine between device and cloud.

    Attributes:
        profile: Costs on it.
        onward: The link that leads on from it, towards the cloud.
    """

    profile: Profile
    onward: Link


@dataclass(frozen=True)
class Situation:
    """Everything that a plan is decided from.

    Attributes:
        model: What is to be run.
        space: Its legal cuts.
        tensors: What was seen of each tensor.
        device: Costs on the device.
        cloud: Costs in the cloud.
        link: What leads on from the device.
        codecs: How tensors may travel.
        middle: Machines between device and cloud, the device's neighbour first.
        wishes: What the user wants.
        picture: How cloud-only sends a picture, if the model's input is one.
        notes: What a reader of the plan should know of the inputs.
        timed: What was seen of the models of some cuts, by the cuts' ids.
        radio: What the device's radio draws, if that is known.
        fidelity_kl: Loss of the answer by tensor and codec in nats, where it was measured.
    """

    model: ModelIdentity
    space: CutSpace
    tensors: Mapping[str, ObservedTensor]
    device: Profile
    cloud: Profile
    link: Link
    codecs: tuple[Codec, ...]
    middle: tuple[Hop, ...] = ()
    wishes: Wishes = field(default_factory=Wishes)
    picture: InputEncoding | None = None
    notes: tuple[str, ...] = ()
    timed: Mapping[str, PartTimes] = field(default_factory=dict)
    radio: Radio | None = None
    fidelity_kl: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Costs on each tier, the device first."""
        return (self.device, *(hop.profile for hop in self.middle), self.cloud)

    @property
    def links(self) -> tuple[Link, ...]:
        """The link above each tier but the last."""
        return (self.link, *(hop.onward for hop in self.middle))

    @property
    def tier_names(self) -> tuple[str, ...]:
        """What users call the tiers."""
        return tier_names(len(self.middle))


def tier_names(between: int) -> tuple[str, ...]:
    """Return what users call the tiers with so many machines between device and cloud."""
    names = ("edge",) if between == 1 else tuple(f"edge{i + 1}" for i in range(between))
    return ("device", *names, "cloud")
