"""Where the costs of one side of a plan come from: a preset, a profile file, or this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.feeds import Feeds
from profiler.graph.model import LoadedModel
from profiler.graph.observation import Observation
from profiler.graph.weights import StoredModel
from profiler.machine import available_threads
from profiler.measurement import MeasureOptions, measure_profile
from profiler.presets import Preset, load_preset, predict_profile
from profiler.profile import Profile
from profiler.recording import Recording, check_recording, read_costs, recorded_profile
from profiler.values import TensorSlot
from splitter.tensors import codec_speed
from splitter.verification import PartTimer

LOCAL = "local"

Side = Preset | Profile | Recording | None


def parse_side(name: str, stand_in: str) -> Side:
    """Return what a user names as device or cloud: a preset, a profile, or ``None`` for ``local``.

    Args:
        name: A preset, a file (anything with a dot or a slash in it) that holds a profile or a
            trace, or ``local``.
        stand_in: Name of the preset that tells what a trace does not.

    Raises:
        PresetError: There is no such preset.
        ProfileError: The file is neither a profile nor a trace.
    """
    if name == LOCAL:
        return None
    if "." in name or "/" in name:
        return read_costs(Path(name), stand_in)
    return load_preset(name)


def check_side(side: Side, loaded: LoadedModel, feeds: Feeds, codecs: Iterable[str]) -> None:
    """Refuse costs that do not fit, as far as it shows without trying the model out.

    Args:
        side: Where the costs come from.
        loaded: The model.
        feeds: Its inputs.
        codecs: Names of those that will be used.

    Raises:
        ProfileError: They are of another model or shape, or lack nodes of it.
        PlanError: They lack a codec.
    """
    if isinstance(side, Profile):
        shapes = [TensorSlot(name, str(feed.dtype), feed.shape) for name, feed in feeds.items()]
        side.require(loaded.identity, shapes)
        side.require_nodes([node.name for node in loaded.graph.regular])
        for codec in codecs:
            codec_speed(side, codec)
    elif isinstance(side, Recording):
        check_recording(side, loaded)


def side_notes(side: Side, profile: Profile) -> list[str]:
    """What a reader of a plan should know of costs that another profiler recorded.

    Of a preset, only what it says of this model: which of its operators no measurement covers.
    """
    if isinstance(side, Preset):
        notes = [note for note in profile.notes if note not in side.notes]
    else:
        notes = list(profile.notes) if isinstance(side, Recording) else []
    return [f"{profile.label}: {note}" for note in notes]


@dataclass
class Sides:
    """Profiles of one model on the machines that a user names.

    Attributes:
        stored: The model on disk.
        observation: What was seen of it.
        progress: Told what is being done.
    """

    stored: StoredModel
    observation: Observation
    progress: Callable[[str], None]
    _local: Profile | None = None

    def profile(self, side: Side) -> Profile:
        """Return the costs on a machine that :func:`check_side` has let pass.

        This machine is measured once.

        Raises:
            ProfileError: The recording is of another shape.
        """
        if isinstance(side, Preset):
            return predict_profile(side, self.stored.loaded, self.observation)
        if isinstance(side, Profile):
            return side
        if isinstance(side, Recording):
            return recorded_profile(side, self.stored.loaded, self.observation)
        if self._local is None:
            options = MeasureOptions(EngineOptions(threads=available_threads()))
            self._local = measure_profile(self.stored, self.observation, options, self.progress)
        return self._local

    def timer(self, device: Side, cloud: Side) -> PartTimer:
        """Return what times cut models for the sides of a plan that are this machine."""
        sides: dict[Literal["device", "cloud"], Side] = {"device": device, "cloud": cloud}
        local = frozenset(name for name, side in sides.items() if side is None)
        engine = OnnxRuntimeEngine(EngineOptions(threads=available_threads()))
        whole_ms = self.profile(None).whole_ms
        return PartTimer(self.stored, self.observation, engine, whole_ms, local)
