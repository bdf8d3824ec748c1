"""Errors of the agent.

HeadtailError (protocol)
└── AgentError
    ├── OptionError (ValueError)    options that contradict each other or the bundle
    ├── SourceError (ValueError)    a source that cannot be read, or does not fit the model
    └── UnansweredError             some frames of a run have no answer
"""

from __future__ import annotations

from protocol.errors import HeadtailError


class AgentError(HeadtailError):
    """Base of this package's errors."""


class OptionError(AgentError, ValueError):
    """Options that contradict each other, or name what the bundle does not have."""


class SourceError(AgentError, ValueError):
    """A source that cannot be read, or whose frames do not fit the model."""


class UnansweredError(AgentError):
    """Some frames of a run could not be read, or not even the whole model could take them."""
