"""Runs the head of a bundle on a device, asks a worker for the tail, and always answers.

Needs numpy, onnxruntime, pyzmq, msgpack and zstandard; Pillow only where pictures are read.

Example::

    from device_agent import Agent, open_source
    from splitter.bundle import open_bundle

    bundle = open_bundle("bundle")
    with Agent(bundle, worker="tcp://192.0.2.7:5555") as agent:
        for answer in agent.answers(open_source("photos", bundle)):
            print(answer.computed_on, answer.times.latency_ms, answer.top5())
"""

from __future__ import annotations

import protocol._start  # noqa: F401 (before all else)
from device_agent._channel import Patience
from device_agent._link_values import LinkPolicy
from device_agent._sources import Frame, Source, open_source
from device_agent._transport import Transport
from device_agent.agent import Agent
from device_agent.answers import Answer, AnswerTimes, ComputedOn, Guess, Reason, Unanswered
from device_agent.errors import AgentError, OptionError, SourceError, UnansweredError

__all__ = [
    "Agent",
    "AgentError",
    "Answer",
    "AnswerTimes",
    "ComputedOn",
    "Frame",
    "Guess",
    "LinkPolicy",
    "OptionError",
    "Patience",
    "Reason",
    "Source",
    "SourceError",
    "Transport",
    "Unanswered",
    "UnansweredError",
    "open_source",
]
