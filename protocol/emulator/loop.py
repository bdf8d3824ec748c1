"""The thread that moves the bytes: waits for sockets and for the moments the schedules name."""

from __future__ import annotations

import contextlib
import errno
import math
import socket
import threading
import time
from collections import defaultdict, deque
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from protocol.emulator.connection import Connection
from protocol.emulator.errors import EmulatorClosedError
from protocol.emulator.lane import Lane
from protocol.emulator.listener import Listener, prepare, size_buffers
from protocol.emulator.readiness import READ, WRITE, Readiness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from protocol.emulator.corruption import Corruption
    from protocol.emulator.settings import LinkSettings

T = TypeVar("T")

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_AGAIN_S = 0.1


class LinkLoop:
    """Owns every socket of one emulated link; other threads hand it calls."""

    def __init__(
        self,
        listener: Listener,
        target: tuple[socket.AddressFamily, tuple[str, int]],
        settings: LinkSettings,
        seed: int,
    ) -> None:
        self.uplink = Lane(settings.uplink_mbps, settings, seed)
        self.downlink = Lane(settings.downlink_mbps, settings, seed + 1)
        self.accepted_connections = 0
        self.failed_connections = 0
        self.swallowed_bytes = 0
        self.connections: deque[Connection] = deque()
        self.progress = threading.Condition()
        self._listener = listener
        self._family, self._target = target
        self._blackholed = False
        self._calls: SimpleQueue[tuple[Callable[[float], Any], Future[Any]]] = SimpleQueue()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._readiness = Readiness()
        self._accept_from_s = -math.inf
        self._closing = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="emulated-link", daemon=True)

    # --- called by other threads

    def start(self) -> None:
        """Begin to move bytes."""
        self._thread.start()

    def call(self, action: Callable[[float], T]) -> T:
        """Run ``action(now_s)`` in the loop's thread and return what it returns."""
        future: Future[T] = Future()
        self._calls.put((action, future))
        if self._ended.is_set():
            self._refuse_calls()
        else:
            # Full: a wake-up is already on its way. Closed: the loop's end answers the call.
            with contextlib.suppress(OSError):
                self._wake.send(b"\0")
        return future.result()

    def stop(self) -> None:
        """Reset all connections, give the port back, end the thread."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._wake.send(b"\0")
        self._thread.join()

    # --- verbs, run in the loop's thread

    def reshape(self, settings: LinkSettings, now_s: float) -> None:
        """Change what the link is like."""
        self.uplink.reshape(now_s, settings.uplink_mbps, settings)
        self.downlink.reshape(now_s, settings.downlink_mbps, settings)
        for connection in self.connections:
            if not connection.dead:
                self._size_buffers(connection)

    def pause(self, now_s: float) -> None:
        """Let the link stand still."""
        for lane in (self.uplink, self.downlink):
            lane.schedule.pause(now_s)

    def resume(self, now_s: float) -> None:
        """Let the link go on."""
        for lane in (self.uplink, self.downlink):
            lane.schedule.resume(now_s)

    def cut(self, _: float) -> None:
        """Reset every connection and refuse new ones."""
        self._listener.refuse()
        self._lose_everything()
        for connection in self.connections:
            connection.abort()

    def blackhole(self, _: float) -> None:
        """Swallow everything from now on, on old connections and on new ones."""
        self._blackholed = True
        self._lose_everything()
        for connection in self.connections:
            connection.swallowing = True

    def half_open(self, _: float) -> None:
        """Let the worker's side of every connection vanish without telling the agent."""
        for connection in self.connections:
            connection.drop_worker()

    def corrupt(self, uplink: Corruption | None, downlink: Corruption | None) -> None:
        """Damage bytes that enter the link from now on."""
        self.uplink.corruption = uplink
        self.downlink.corruption = downlink

    def restore(self, now_s: float) -> None:
        """End every fault. A connection that lost bytes is reset: TCP never leaves a hole."""
        self._blackholed = False
        self.corrupt(None, None)
        for connection in self.connections:
            if connection.swallowing:
                connection.abort()
        self.resume(now_s)
        self._listener.listen()

    # --- the loop

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._turn()
        finally:
            for connection in self.connections:
                connection.abort()
            self.connections.clear()
            self._listener.close()
            self._readiness.close()
            self._ended.set()
            self._refuse_calls()
            self._wake.close()
            self._woken.close()

    def _turn(self) -> None:
        readable, writable = self._wait()
        now_s = time.monotonic()
        if self._woken in readable:
            self._answer_calls(now_s)
        if self._listener.socket in readable:
            self._accept(now_s)
        for connection in self.connections:
            if not connection.dead:
                self._move(connection, readable, writable, now_s)
        self.uplink.deliver(now_s)
        self.downlink.deliver(now_s)
        self._forget_the_dead()
        with self.progress:
            self.progress.notify_all()

    def _wait(self) -> tuple[set[object], set[object]]:
        now_s = time.monotonic()
        wanted: defaultdict[socket.socket, int] = defaultdict(int)
        wanted[self._woken] = READ
        next_s = min(lane.next_event_s() for lane in self._lanes)
        if self._accept_from_s > now_s:
            next_s = min(next_s, self._accept_from_s)
        elif self._listener.socket is not None:
            wanted[self._listener.socket] = READ
        for connection in self.connections:
            if connection.swallowing:
                for end in connection.open_ends():
                    wanted[end] |= READ
            elif connection.connecting:
                if connection.worker is not None:
                    wanted[connection.worker] |= WRITE
            else:
                for pipe, lane in zip(connection.pipes, self._lanes, strict=True):
                    if lane.takes_from(pipe):
                        wanted[pipe.source] |= READ
                    if pipe.overdue_bytes:
                        wanted[pipe.sink] |= WRITE
        return self._readiness.wait(wanted, None if next_s == math.inf else max(0, next_s - now_s))

    @property
    def _lanes(self) -> tuple[Lane, Lane]:
        return self.uplink, self.downlink

    def _move(
        self,
        connection: Connection,
        readable: set[object],
        writable: set[object],
        now_s: float,
    ) -> None:
        if connection.swallowing:
            if not readable.isdisjoint(connection.open_ends()):
                self.swallowed_bytes += connection.swallow()
            return
        if connection.connecting:
            if connection.worker in writable:
                self._finish_connecting(connection)
            return
        for pipe, lane in zip(connection.pipes, self._lanes, strict=True):
            if pipe.sink in writable and pipe.overdue_bytes:
                lane.delivered_bytes += pipe.flush()
            if pipe.source in readable and not connection.dead and lane.takes_from(pipe):
                lane.read(pipe, now_s)

    def _accept(self, now_s: float) -> None:
        if self._listener.socket is None:
            return
        worker = None
        try:
            # First what we need ourselves, so that an agent is not taken on for nothing.
            if not self._blackholed:
                worker = socket.socket(self._family, socket.SOCK_STREAM)
            agent, _ = self._listener.socket.accept()
        except OSError as error:
            if worker is not None:
                worker.close()
            if error.errno in _NO_ROOM:
                # The agents wait in the listener's queue until there is room again.
                self._accept_from_s = now_s + _ACCEPT_AGAIN_S
            return  # else the agent gave up between its connect and our accept
        self.accepted_connections += 1
        _tune(agent)
        connection = Connection(agent, worker)
        self.connections.append(connection)
        if worker is not None:
            self._connect(connection, worker)

    def _connect(self, connection: Connection, worker: socket.socket) -> None:
        prepare(worker, self.downlink.queue_bytes, self.uplink.queue_bytes)
        _tune(worker)
        self._size_buffers(connection)
        try:
            worker.connect(self._target)
        except BlockingIOError:
            pass  # On its way; the socket becomes writable when it is decided.
        except OSError:
            self._fail(connection)

    def _size_buffers(self, connection: Connection) -> None:
        up, down = self.uplink.queue_bytes, self.downlink.queue_bytes
        if connection.agent.fileno() >= 0:
            size_buffers(connection.agent, up, down)
        if connection.worker is not None and connection.worker.fileno() >= 0:
            size_buffers(connection.worker, down, up)

    def _finish_connecting(self, connection: Connection) -> None:
        if connection.worker is not None and connection.worker.getsockopt(
            socket.SOL_SOCKET, socket.SO_ERROR
        ):
            self._fail(connection)
            return
        connection.connecting = False

    def _fail(self, connection: Connection) -> None:
        self.failed_connections += 1
        connection.abort()

    def _forget_the_dead(self) -> None:
        if self.connections:
            alive = [one for one in self.connections if not one.dead and one.open_ends()]
            if len(alive) != len(self.connections):
                self.connections = deque(alive)
            # Whoever is first may take all the room there is, so everyone is first in turn.
            self.connections.rotate(1)

    def _lose_everything(self) -> None:
        for lane in self._lanes:
            lane.schedule.discard()

    def _answer_calls(self, now_s: float) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        for action, future in self._waiting_calls():
            _answer(action, future, now_s)

    def _refuse_calls(self) -> None:
        for _, future in self._waiting_calls():
            future.set_exception(EmulatorClosedError("the emulated link is closed"))

    def _waiting_calls(self) -> Iterator[tuple[Callable[[float], Any], Future[Any]]]:
        with contextlib.suppress(Empty):
            while True:
                yield self._calls.get_nowait()


def _answer(action: Callable[[float], Any], future: Future[Any], now_s: float) -> None:
    try:
        future.set_result(action(now_s))
    except Exception as error:  # noqa: BLE001 - raised again in the calling thread
        future.set_exception(error)


def _tune(end: socket.socket) -> None:
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
