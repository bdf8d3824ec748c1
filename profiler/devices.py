"""What ``--device`` and ``--cloud`` may be: a preset, a profile file, or this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from profiler.engine import EngineOptions
from profiler.errors import PresetError
from profiler.graph.observation import Observation
from profiler.graph.weights import StoredModel
from profiler.machine import available_threads
from profiler.measurement import MeasureOptions, measure_profile
from profiler.presets import load_preset, predict_profile, preset_names
from profiler.profile import Profile
from profiler.profile_file import read_profile
from profiler.values import TensorSlot
from protocol.text import did_you_mean

__all__ = ["LOCAL", "device_profile"]

LOCAL = "local"


def device_profile(
    device: str,
    stored: StoredModel,
    observation: Observation,
    progress: Callable[[str], None] = lambda _: None,
) -> Profile:
    """Return the profile of a model on a device as users name it.

    Args:
        device: A preset's name; ``local``, which measures this machine now with the threads that
            this process may use; or the path of a profile file (ending in ``.json``).
        stored: The model.
        observation: What was seen of it.
        progress: Told what is being done while measuring.

    Raises:
        PresetError: No preset has this name, and it is no file either.
        ProfileError: The file is no sound profile, or of another model or shape.
        EngineError: The runtime refuses the model.
    """
    if device == LOCAL:
        options = MeasureOptions(EngineOptions(threads=available_threads()))
        return measure_profile(stored, observation, options, progress)
    path = Path(device)
    if path.suffix == ".json":
        profile = read_profile(path)
        inputs = [
            TensorSlot(name, str(array.dtype), array.shape)
            for name, array in observation.feeds.items()
        ]
        profile.require(stored.loaded.identity, inputs)
        return profile
    names = preset_names()
    if device not in names:
        known = [*names, LOCAL]
        raise PresetError(
            f"unknown device {device!r}{did_you_mean(device, known)}; give a preset "
            f"({', '.join(names)}), {LOCAL}, or a profile (.json)"
        )
    return predict_profile(load_preset(device), stored.loaded, observation)
