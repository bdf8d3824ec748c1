"""The agent: one answer for each frame, from the cloud where that works, from here where not."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from device_agent._channel import Patience, WorkerChannel
from device_agent._decisions import REFUSAL_REMEDIES, cloud_limit_s, is_tight
from device_agent._hello import make_hello
from device_agent._link import WorkerLink
from device_agent._link_values import LinkPolicy, LinkState
from device_agent._parts import CutParts
from device_agent._remote import RemoteAnswer, RemoteTail
from device_agent._sources import SyntheticSource
from device_agent._transport import ZeroMqTransport
from device_agent.answers import Answer, AnswerTimes, Reason, Unanswered
from device_agent.errors import AgentError, OptionError
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.errors import ProfilerError
from profiler.machine import available_threads
from protocol import (
    Limits,
    RefusedError,
    SystemClock,
    did_you_mean,
    message_bytes,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from device_agent._link_values import LinkCounters
    from device_agent._parts import Arrays
    from device_agent._sources import Frame
    from device_agent._transport import Transport
    from profiler.engine import Engine
    from protocol import Clock
    from splitter.bundle import Bundle, BundledCut

__all__ = ["Agent"]

DEFAULT_DEADLINE_MS = 2000
LONGEST_DEADLINE_MS = 3_600_000
_CONNECT_FIRST_S = 0.2
_logger = logging.getLogger("device_agent")


class Agent:
    """Runs a bundle's head, asks a worker for the tail, and finishes here where none answers.

    A context manager; the thread that enters it is the one that may use it.

    Args:
        bundle: The opened bundle.
        worker: The worker's address, ``tcp://HOST:PORT``; not needed for the cut ``device``.
        cut: The id of a cut of the bundle; None takes the plan's.
        deadline_ms: The time in which each frame shall be answered. Of it, a quarter, or what the
            last finish on the device took and some more, is kept for finishing the frame there;
            none where the device could not finish it in time anyway.
        engine: Runs the models; None takes ONNX Runtime on the threads this process may use.
        transport: Reaches the worker; None opens a ZeroMQ socket to ``worker``.
        clock: The time.
        notice: Told, in a line, what a user should know; None logs it as a warning.
        link_policy: How patient the link is.
        patience: How long the greeting may hold up the first frame; None: no longer than a
            worker may hold up any frame.

    Attributes:
        cut: The cut that is run.
        unanswered: How many frames had no answer.

    Raises:
        OptionError: No such cut, no such deadline, or no worker where the cut needs one.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        worker: str | None = None,
        cut: str | None = None,
        deadline_ms: int = DEFAULT_DEADLINE_MS,
        engine: Engine | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        notice: Callable[[str], None] | None = None,
        link_policy: LinkPolicy | None = None,
        patience: Patience | None = None,
    ) -> None:
        if not 1 <= deadline_ms <= LONGEST_DEADLINE_MS:
            raise OptionError(f"the deadline is {deadline_ms} ms; give 1 to {LONGEST_DEADLINE_MS}")
        self.cut = _find_cut(bundle, cut)
        if self.cut.tail is not None and worker is None and transport is None:
            raise OptionError(
                f"the cut {self.cut.id!r} needs a worker: give --worker tcp://HOST:PORT,"
                " or --cut device to stay on this machine"
            )
        self._bundle = bundle
        self._worker = worker or "the worker"
        self._deadline_s = deadline_ms / 1000
        self._transport = transport
        self._clock: Clock = clock or SystemClock()
        self._notice = notice or _logger.warning
        self._limits = Limits()
        self._link = WorkerLink(
            make_hello(bundle, self.cut, self._limits), link_policy or LinkPolicy(), random.random
        )
        self._patience = patience
        engine = engine or OnnxRuntimeEngine(EngineOptions(threads=available_threads()))
        self._parts = CutParts(bundle, self.cut, engine, self._notice)
        self._finish_s = 0.0  # what the last finish on this device took
        self.unanswered = 0
        self._channel: WorkerChannel | None = None
        self._remote: RemoteTail | None = None

    def __enter__(self) -> Agent:
        """Greet the worker, load and time the parts, and wait for the worker as patience allows.

        Raises:
            AddressError: The worker's address cannot be read.
            EngineError: A part cannot be loaded.
            RefusedError: The worker is there, and will not serve this until somebody mends it.
        """
        try:
            if self.cut.tail is not None:
                self._channel = WorkerChannel(self._link, self._open_transport(), self._clock)
                # First only connect and say HELLO: the worker loads its part while we load ours.
                patience = self._patience or self._first_patience(0.0)
                connect_s = min(patience.connect_s, _CONNECT_FIRST_S)
                started_s = self._clock.monotonic()
                self._channel.greet(Patience(connect_s=connect_s, welcome_s=0.0))
                waited_s = self._clock.monotonic() - started_s
            self._parts.load()
            if self._channel is not None:
                self._rehearse()
                self._greet(self._channel, self._patience or self._first_patience(waited_s))
                self._remote = self._open_remote(self._channel)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Say goodbye to the worker and free the models."""
        self.close()

    @property
    def counters(self) -> LinkCounters:
        """What has crossed the link so far, and what was odd about it."""
        return self._link.counters

    def answers(
        self, frames: Iterable[Frame], unanswered: Callable[[Unanswered], None] | None = None
    ) -> Iterator[Answer]:
        """Answer frames in their order, one at a time.

        A frame that not even the whole model on this device can take is named in a notice and
        counted, and the next one is answered: it must not end a run of many.

        Args:
            frames: A source, or any frames.
            unanswered: Told about each frame that has no answer.

        Yields:
            Exactly one answer for each other frame.
        """
        if self.cut.tail is not None and self._remote is None:
            raise RuntimeError("the agent is closed; use it in a with block")
        for number, frame in enumerate(frames):
            try:
                answer = self._answer(number, frame)
            except (AgentError, ProfilerError) as error:
                self.unanswered += 1
                name = "" if frame.name is None else f" ({frame.name})"
                self._notice(f"frame {number}{name}: {error}; no answer")
                if unanswered is not None:
                    unanswered(Unanswered(number, frame.name, str(error)))
            else:
                yield answer

    def close(self) -> None:
        """Say goodbye to the worker and free the models. Closing twice is allowed."""
        if self._channel is not None:
            self._channel.close()
            self._channel = self._remote = None
        self._parts.close()

    def _open_transport(self) -> Transport:
        if self._transport is not None:
            return self._transport
        return ZeroMqTransport(self._worker, self._limits, self._clock)

    def _open_remote(self, channel: WorkerChannel) -> RemoteTail:
        return RemoteTail(
            self.cut, self._parts, channel, self._limits, self._clock, self._worker, self._notice
        )

    def _rehearse(self) -> None:
        """Learn what finishing a frame here takes, so that the first one keeps enough time for it.

        It is done with a synthetic frame; where that will not run, the time stays unknown.
        """
        inputs = self._bundle.planned_inputs or self._bundle.inputs
        try:
            (frame,) = SyntheticSource(inputs, self._bundle.preprocess, 1)
            head_s, self._finish_s = self._parts.rehearse(frame.feeds, self._clock)
        except (AgentError, ProfilerError):
            return
        if is_tight(self._deadline_s, head_s, self._finish_s):
            self._notice(
                f"of the deadline of {self._deadline_s * 1000:.0f} ms this device needs"
                f" {head_s * 1000:.0f} ms for its part of a frame and"
                f" {self._finish_s * 1000:.0f} ms to finish it here, which leaves the worker too"
                " little; give a longer --deadline-ms"
            )

    def _first_patience(self, waited_s: float) -> Patience:
        """What a worker may hold up any frame, less what the greeting has taken already."""
        left_s = max(0.0, cloud_limit_s(0.0, 0.0, self._deadline_s, self._finish_s) - waited_s)
        usual = Patience()
        return Patience(min(usual.connect_s, left_s), min(usual.welcome_s, left_s))

    def _greet(self, channel: WorkerChannel, patience: Patience) -> None:
        channel.greet(patience)
        refusal = self._link.refusal
        if refusal is None:
            if self._link.state is not LinkState.WELCOMED:
                why = f" ({channel.trouble})" if channel.trouble else ""
                self._notice(f"no answer from {self._worker}{why}; answering on the device")
        elif refusal.code.advice == "give_up":
            model = self._bundle.model
            raise RefusedError(
                refusal.code,
                f"{refusal.text}; this bundle is model {model.name} {model.sha256[:12]},"
                f" cut {self.cut.id}; {REFUSAL_REMEDIES[refusal.code]}",
                refusal.retry_after_ms,
            )

    def _answer(self, number: int, frame: Frame) -> Answer:
        started_s = self._clock.monotonic()
        known = self._parts.run_head(frame.feeds)
        times = {"device_ms": self._since_ms(started_s)}
        remote = self._ask(frame, known, started_s)
        times.update(remote.times)
        outputs, computed_on = remote.outputs, remote.computed_on
        if outputs is None:
            finish_s = self._clock.monotonic()
            # What the tail has rejected it would reject again; the whole model has the last word.
            left = None if remote.reason is Reason.REJECTED else known
            outputs = self._parts.finish(frame.feeds, left)
            times["finish_ms"] = self._since_ms(finish_s)
            self._finish_s = times["finish_ms"] / 1000
        latency_ms = self._since_ms(started_s)
        return Answer(
            frame=number,
            source=frame.name,
            computed_on=computed_on,
            reason=remote.reason,
            cut=self.cut.id,
            times=AnswerTimes.of(latency_ms, frame.preprocess_ms, **times),
            uplink_bytes=remote.uplink_bytes,
            downlink_bytes=0 if remote.reply is None else message_bytes(remote.reply),
            deadline_missed=latency_ms > self._deadline_s * 1000,
            outputs=outputs,
            labels=self._bundle.labels,
        )

    def _ask(self, frame: Frame, known: Arrays | None, started_s: float) -> RemoteAnswer:
        if known is None:
            return RemoteAnswer(None, Reason.MISFIT)
        if self._remote is None:
            return RemoteAnswer(self._parts.outputs(known), Reason.PLANNED)
        now_s = self._clock.monotonic()
        limit_s = cloud_limit_s(started_s, now_s, self._deadline_s, self._finish_s)
        return self._remote.ask(frame, known, limit_s)

    def _since_ms(self, started_s: float) -> float:
        return (self._clock.monotonic() - started_s) * 1000


def _find_cut(bundle: Bundle, cut_id: str | None) -> BundledCut:
    wanted = bundle.cut_id if cut_id is None else cut_id
    if wanted not in bundle.cuts:
        raise OptionError(
            f"the bundle has no cut {quoted(wanted)}{did_you_mean(wanted, bundle.cuts)};"
            f" it has {', '.join(sorted(bundle.cuts))}; for another of split-plan's table make it"
            " again with split-plan ... -o BUNDLE --cut ID"
        )
    return bundle.cuts[wanted]
