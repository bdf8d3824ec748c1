"""Where the costs of one side of a plan come from: a preset, a profile file, or this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from profiler.engine import EngineOptions
from profiler.graph.observation import Observation
from profiler.graph.weights import StoredModel
from profiler.machine import available_threads
from profiler.measurement import MeasureOptions, measure_profile
from profiler.presets import load_preset, predict_profile
from profiler.profile import Profile
from profiler.profile_file import read_profile
from profiler.values import TensorSlot

LOCAL = "local"


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

    def profile(self, name: str) -> Profile:
        """Return the costs on a machine.

        Args:
            name: A preset, a profile file (anything with a dot or a slash in it), or ``local``.

        Raises:
            PresetError: There is no such preset.
            ProfileError: The file is no profile, or one of another model or shape.
        """
        if name == LOCAL:
            if self._local is None:
                options = MeasureOptions(EngineOptions(threads=available_threads()))
                self._local = measure_profile(self.stored, self.observation, options, self.progress)
            return self._local
        if "." in name or "/" in name:
            profile = read_profile(Path(name))
            profile.require(self.stored.loaded.identity, self._inputs())
            return profile
        return predict_profile(load_preset(name), self.stored.loaded, self.observation)

    def _inputs(self) -> list[TensorSlot]:
        return [
            TensorSlot(name, str(array.dtype), array.shape)
            for name, array in self.observation.feeds.items()
        ]
