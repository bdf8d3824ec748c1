"""One TCP connection through the emulated link: two sockets and a pipe in each direction."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from enum import Enum

_RECEIVE_BYTES = 65_536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Ending(Enum):
    """How a stream ends; travels through the link behind the stream's last byte."""

    CLOSED = "closed"
    RESET = "reset"


class Pipe:
    """One direction of a connection: read from ``source``, send to ``sink``.

    Raises nothing: what goes wrong on a socket is an ending of the stream.
    """

    def __init__(self, connection: Connection, source: socket.socket, sink: socket.socket) -> None:
        self.connection = connection
        self.source = source
        self.sink = sink
        self.reading = True
        self.finished = False
        self.overdue_bytes = 0
        self._overdue: deque[memoryview | Ending] = deque()

    def read(self, limit_bytes: int) -> bytes | Ending | None:
        """Take what has come in: bytes, an ending, or ``None`` for nothing yet."""
        try:
            data = self.source.recv(min(limit_bytes, _RECEIVE_BYTES))
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            self.reading = False
            return Ending.RESET
        if data:
            return data
        self.reading = False
        return Ending.CLOSED

    def deliver(self, arrived: bytes | Ending) -> int:
        """Hand on what came out of the link; returns how many bytes the sink took at once."""
        if isinstance(arrived, Ending):
            self._overdue.append(arrived)
        else:
            self._overdue.append(memoryview(arrived))
            self.overdue_bytes += len(arrived)
        return self.flush()

    def flush(self) -> int:
        """Send what is overdue, as far as the sink takes it; returns how many bytes it took."""
        taken = 0
        while self._overdue and not self.connection.dead:
            first = self._overdue[0]
            if isinstance(first, Ending):
                self._overdue.popleft()
                self._end(first)
                continue
            try:
                sent = self.sink.send(first)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.connection.abort()
                break
            taken += sent
            if sent == len(first):
                self._overdue.popleft()
            else:
                self._overdue[0] = first[sent:]
        self.overdue_bytes -= taken
        return taken

    def _end(self, ending: Ending) -> None:
        self.finished = True
        if ending is Ending.RESET:
            self.connection.abort()
            return
        with contextlib.suppress(OSError):  # The sink may have gone by itself.
            self.sink.shutdown(socket.SHUT_WR)
        self.connection.close_if_finished()


class Connection:
    """An agent's connection to the emulator and the emulator's connection to the worker."""

    def __init__(self, agent: socket.socket, worker: socket.socket | None) -> None:
        self.agent = agent
        self.worker = worker
        self.connecting = worker is not None
        self.swallowing = worker is None
        self.dead = False
        self.pipes = (
            () if worker is None else (Pipe(self, agent, worker), Pipe(self, worker, agent))
        )

    def swallow(self) -> int:
        """Read from every open side and forget it; returns the bytes lost."""
        lost = 0
        for end in (self.agent, self.worker):
            if end is None or end.fileno() < 0:
                continue
            try:
                data = end.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError:
                data = b""
            if not data:  # This end has gone; the other must not learn of it.
                end.close()
            lost += len(data)
        return lost

    def open_ends(self) -> list[socket.socket]:
        """The sockets that are open."""
        return [end for end in (self.agent, self.worker) if end is not None and end.fileno() >= 0]

    def drop_worker(self) -> None:
        """Reset the worker's side; the agent's side stays open and is swallowed from now on."""
        if self.worker is not None:
            _reset(self.worker)
        self.swallowing = True

    def close_if_finished(self) -> None:
        """Close both sockets once both directions have ended."""
        if all(pipe.finished for pipe in self.pipes):
            self.dead = True
            for end in self.open_ends():
                end.close()

    def abort(self) -> None:
        """Reset both sides at once."""
        self.dead = True
        for end in self.open_ends():
            _reset(end)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):  # A socket that has already failed is closed all the same.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    end.close()
