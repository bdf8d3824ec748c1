"""The rim of the worker: its socket, its threads, its clock."""

from __future__ import annotations

import math
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import zmq

from cloud_worker._compute import can_decode, compute
from cloud_worker._core import WorkerCore
from cloud_worker._lanes import Lane, Mailbox
from cloud_worker._listener import Listener
from cloud_worker._outbox import Outbox
from cloud_worker._receiving import Receiver
from cloud_worker._settings import WorkerSettings
from cloud_worker._tails import TailLoader
from cloud_worker._work import Compute, Load, LoadFailure, Note, Send, Stop, Tail, Unload
from cloud_worker.errors import IllegalCutError, WorkerError
from protocol import (
    Failure,
    FailureCode,
    FrameError,
    Limits,
    Probed,
    RefusalCode,
    Result,
    SystemClock,
    decode_message,
    encode_message,
    worker_socket,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from cloud_worker._repository import ModelRepository
    from cloud_worker._tails import TailSource
    from cloud_worker._work import Action, Job
    from profiler.engine import StoppableEngine
    from protocol import Clock, Frame, Message

    Event: TypeAlias = Callable[[float], Sequence[Action]]

_SESSION_BYTES = 16
_OUTBOX_BYTES = 256 << 20
_OUTBOX_PATIENCE_S = 5.0
# Probed bytes that nobody reads must not take the room of answers that agents wait for.
_PROBE_OUTBOX_BYTES = 4 << 20
_PROBE_OUTBOX_PATIENCE_S = 1.0
_OUTBOX_RETRY_MS = 5
_LINGER_MS = 1000
_LANE_STOP_S = 0.2  # idle lanes end at once; busy ones are left to themselves


class Worker:
    """A worker that serves from its own threads until it is stopped.

    One thread owns the socket and decides; one runs the models; one loads them. The socket is
    bound, and :attr:`address` known, from the beginning; what arrives before :meth:`start` waits.

    Args:
        models: What to serve.
        engine: What runs it.
        bind: Address to bind; port 0 takes a free one.
        settings: Bounds; the defaults if None.
        limits: What messages may hold; the defaults if None.
        clock: The machine's if None.
        tails: Where tails come from; from ``models`` by ``engine`` if None.
        log: Gets a line for each event that people may want to know of. It is called on the
            socket's thread, and must neither wait nor raise.

    Attributes:
        address: Where agents connect.

    Raises:
        AddressError: The address cannot be bound.
    """

    def __init__(
        self,
        models: ModelRepository,
        engine: StoppableEngine,
        *,
        bind: str = "tcp://127.0.0.1:0",
        settings: WorkerSettings | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        tails: TailSource | None = None,
        log: Callable[[str], object] | None = None,
    ) -> None:
        self._settings = settings or WorkerSettings()
        self._limits = self._settings.narrowed(limits or Limits())
        self._clock = clock or SystemClock()
        self._log = log or _say_nothing
        self._context = zmq.Context()
        try:
            self._socket, self.address = worker_socket(self._context, bind, self._limits)
        except BaseException:
            self._context.term()
            raise
        self._tails = tails or TailLoader(models, engine)
        self._core = WorkerCore(
            models,
            self._settings,
            self._limits,
            can_decode,
            partial(secrets.token_bytes, _SESSION_BYTES),
        )
        self._listener = Listener(self._socket, self.address, self._log)
        self._receiver = Receiver(self._socket, self._limits)
        self._outbox = Outbox(self._socket, _OUTBOX_BYTES, _OUTBOX_PATIENCE_S, self._core.counts)
        self._probe_outbox = Outbox(
            self._socket, _PROBE_OUTBOX_BYTES, _PROBE_OUTBOX_PATIENCE_S, self._core.counts
        )
        self._mailbox: Mailbox[Event] = Mailbox()
        self._inference = Lane("inference", self._compute)
        self._loader = Lane("loader", self._load_or_unload)
        self._thread = threading.Thread(target=self._serve, name="worker")
        self._fault: BaseException | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """How often what has happened, by name; for tests and for people."""
        return dict(self._core.counts)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Begin to stop: refuse what is new, finish what is accepted, say goodbye.

        Returns at once; safe in signal handlers and safe to repeat.
        """
        self._mailbox.post(self._core.drain)

    def join(self) -> None:
        """Wait until the worker has stopped.

        Raises:
            Exception: Whatever fault ended it, if it did not end because of :meth:`stop`.
        """
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self.join()

    # On the socket's thread

    def _serve(self) -> None:
        try:
            poller = zmq.Poller()
            poller.register(self._socket, zmq.POLLIN)
            poller.register(self._mailbox.fileno(), zmq.POLLIN)
            poller.register(self._listener.monitor, zmq.POLLIN)
            while not self._core.drained:
                self._turn(poller)
            self._do(self._core.farewell("the worker stops"), self._clock.monotonic())
        except BaseException as fault:  # noqa: BLE001 (join raises it where it can be seen)
            self._fault = fault
        finally:
            self._close()

    def _turn(self, poller: zmq.Poller) -> None:
        ready = dict(poller.poll(self._patience_ms()))
        now = self._clock.monotonic()
        if self._mailbox.fileno() in ready:
            for event in self._mailbox.take():
                self._do(event(now), now)
        if self._socket in ready:
            self._receive(now)
        self._do(self._core.tick(now), now)
        for outbox in (self._outbox, self._probe_outbox):
            if outbox:
                outbox.retry(now)
        if self._listener.monitor in ready or self._listener.resumes_at is not None:
            self._listener.turn(now)

    def _patience_ms(self) -> int | None:
        """How long nothing is due; None: until something arrives."""
        due = (self._core.next_tick_at(), self._listener.resumes_at)
        now = self._clock.monotonic()
        waits = [math.ceil((at - now) * 1000) for at in due if at is not None]
        if self._outbox or self._probe_outbox:
            waits.append(_OUTBOX_RETRY_MS)
        return max(0, min(waits)) if waits else None

    def _receive(self, now: float) -> None:
        for peer, frames, size in self._receiver.turn():
            try:
                message = decode_message(frames, self._limits)
            except FrameError as error:
                self._do(self._core.unreadable(peer, frames, error, now), now)
            else:
                self._do(self._core.handle(peer, message, size, now), now)

    def _do(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            match action:
                case Send():
                    probed = isinstance(action.message, Probed)
                    outbox = self._probe_outbox if probed else self._outbox
                    outbox.send(action.peer, self._frames(action.message), now)
                case Compute():
                    self._inference.put(action.job)
                case Stop():
                    action.job.stop.set()
                case Load() | Unload():
                    self._loader.put(action)
                case Note():
                    self._log(action.text)

    def _frames(self, message: Message) -> Sequence[Frame]:
        try:
            return encode_message(message)
        except FrameError as error:
            if not isinstance(message, Result):
                raise
            # Outputs that the wire cannot name, such as one of 20 axes.
            self._core.counts["unsendable"] += 1
            self._log(f"fault: a result cannot be sent: {error}")
            code = FailureCode.INFERENCE_FAILED
            return encode_message(Failure(message.session, message.number, code, str(error), None))

    def _close(self) -> None:
        self._inference.stop(_LANE_STOP_S)
        self._loader.stop(_LANE_STOP_S)
        self._mailbox.close()
        self._tails.close()
        self._listener.close()
        self._socket.close(_LINGER_MS)
        self._context.term()

    # On the other threads

    def _compute(self, job: Job) -> None:
        answer = compute(job, self._clock, self._limits)
        self._mailbox.post(partial(self._core.finished, job.ticket, answer))

    def _load_or_unload(self, action: Load | Unload) -> None:
        if isinstance(action, Unload):
            action.tail.session.close()
            return
        self._mailbox.post(partial(self._core.loaded, action.key, self._load(action)))

    def _load(self, action: Load) -> Tail | LoadFailure:
        try:
            return Tail(action.key, self._tails.load(action.key))
        except IllegalCutError as error:
            return LoadFailure(RefusalCode.ILLEGAL_CUT, str(error))
        except WorkerError as error:
            return LoadFailure(RefusalCode.LOAD_FAILED, str(error))
        except Exception as error:  # noqa: BLE001 (one model's fault must not end the loader)
            return LoadFailure(RefusalCode.LOAD_FAILED, f"{type(error).__name__}: {error}")


def _say_nothing(_text: str) -> None:
    """Keep no log."""
