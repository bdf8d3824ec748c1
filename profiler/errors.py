"""Errors of graphs, engines, profiles, links and power figures.

HeadtailError (protocol)
└── ProfilerError
    ├── ModelError (ValueError)        a file that is no usable ONNX model
    ├── FeedError (ValueError)         inputs missing, unknown or of the wrong shape
    ├── EngineError (RuntimeError)     the runtime refused to load or run a model
    │   └── RejectedError (ValueError) the model itself cannot take the values of its inputs
    ├── ProfileError (ValueError)      a profile that is broken or belongs to another model
    ├── PresetError (LookupError)      no such device preset
    ├── LinkError (ValueError)         a link that cannot be read
    ├── PowerError (ValueError)        power figures or times that cannot be
    └── RadioError (LookupError)       no such radio, or its file is broken
"""

from __future__ import annotations

from protocol.errors import HeadtailError


class ProfilerError(HeadtailError):
    """Base of this package's errors."""


class ModelError(ProfilerError, ValueError):
    """A file that is no usable ONNX model."""


class FeedError(ProfilerError, ValueError):
    """Inputs that are missing, unknown, or of the wrong shape or dtype."""


class EngineError(ProfilerError, RuntimeError):
    """The runtime refused to load or to run a model."""


class RejectedError(EngineError, ValueError):
    """An operator of the model cannot take what the inputs lead to; other inputs may do."""


class ProfileError(ProfilerError, ValueError):
    """A profile that is broken, too new, or belongs to another model or shape."""


class PresetError(ProfilerError, LookupError):
    """No device preset has this name."""


class LinkError(ProfilerError, ValueError):
    """A link description that cannot be read."""


class PowerError(ProfilerError, ValueError):
    """Power figures, or times of a frame, that cannot be."""


class RadioError(ProfilerError, LookupError):
    """No radio has this name, or the file of radios is broken."""
