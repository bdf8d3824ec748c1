"""What the worker says to the people who run it: one line for each event. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloud_worker._sessions import AgentSession
    from cloud_worker._work import Job, TailKey
    from protocol import Hello, Refuse

_DIGEST_CHARACTERS = 12
_NAMES = 4


def joined(session: AgentSession, model: str) -> str:
    """An agent has got a session."""
    return f"{agent(session.peer)} joined: {model} at {session.terms.hello.cut}"


def ended(session: AgentSession, reason: str) -> str:
    """A session has ended."""
    return f"{agent(session.peer)} left {session.terms.hello.cut}: {reason}"


def refused(peer: bytes, hello: Hello, refuse: Refuse) -> str:
    """An agent has got no session."""
    model = hello.model[:_DIGEST_CHARACTERS]
    return (
        f"{agent(peer)} refused ({refuse.code.value}), model {model} at {hello.cut}: {refuse.text}"
    )


def unreadable(peer: bytes, error: object) -> str:
    """Somebody sent what is no message."""
    return f"{agent(peer)} sent an unreadable message: {error}"


def failed(job: Job, text: str) -> str:
    """A model failed."""
    return f"fault: {tail(job.tail.key)} failed: {text}"


def rejected(job: Job, text: str) -> str:
    """A frame is not for its model, whoever runs it."""
    return f"{tail(job.tail.key)} rejects a request: {text}"


def stuck(job: Job, now: float) -> str:
    """A run does not stop."""
    return (
        f"fault: {tail(job.tail.key)} has run for {now - job.accepted_at:.0f} s and does not stop; "
        "requests are refused until it ends, restart the worker if it does not"
    )


def unstuck(job: Job, now: float) -> str:
    """A run that did not stop has ended."""
    return f"{tail(job.tail.key)} has ended after {now - job.accepted_at:.0f} s"


def agent(peer: bytes) -> str:
    """A short name for a connection."""
    return f"agent {peer[-4:].hex()}"


def tail(key: TailKey) -> str:
    """A short name for a tail."""
    more = ", ..." if len(key.frontier) > _NAMES else ""
    frontier = ", ".join(key.frontier[:_NAMES]) + more
    return f"model {key.model[:_DIGEST_CHARACTERS]} from {frontier}"
