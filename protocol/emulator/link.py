"""The emulated link as its user sees it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal

from protocol.emulator.corruption import Corruption
from protocol.emulator.errors import EmulatorClosedError, LinkSettingsError
from protocol.emulator.listener import Listener, resolve_tcp
from protocol.emulator.loop import LinkLoop
from protocol.emulator.settings import LinkSettings


@dataclasses.dataclass(frozen=True)
class LinkCounters:
    """What a link has done so far.

    Attributes:
        uplink_bytes: Bytes handed to the worker's side.
        downlink_bytes: Bytes handed to the agent's side.
        swallowed_bytes: Bytes lost in a black hole or on a half-open connection.
        corrupted_bytes: Bytes damaged on their way, both directions.
        accepted_connections: Connections taken from agents.
        failed_connections: Of these, how many could not be connected to the target.
        open_connections: Connections that exist now.
    """

    uplink_bytes: int
    downlink_bytes: int
    swallowed_bytes: int
    corrupted_bytes: int
    accepted_connections: int
    failed_connections: int
    open_connections: int


class EmulatedLink:
    """A TCP proxy that behaves like a slow, far or broken link.

    Agents connect to :attr:`address`; everything goes on to ``target``. All connections share the
    link. The verbs act before they return, and may be called from any thread; :meth:`restore` ends
    every fault.

    The emulator needs the interpreter for some microseconds a chunk. In a process that computes in
    Python it is late; ``python -m protocol.emulator`` gives it a process of its own.
    """

    def __init__(
        self,
        target: str,
        link: LinkSettings | None = None,
        listen: str = "tcp://127.0.0.1:0",
        seed: int = 0,
    ) -> None:
        """Find the target; the port opens on entering the context.

        Args:
            target: The worker's address, ``tcp://HOST:PORT``. It need not answer yet; an agent
                that connects while it does not is reset, as the emulator cannot refuse it.
            link: What the link is like; by default it takes no time.
            listen: Where agents connect; port 0 takes a free one.
            seed: Makes jitter and damage repeatable.

        Raises:
            AddressError: The target cannot be read or resolved.
            LinkSettingsError: The target is no TCP address.
        """
        self._target = resolve_tcp(target, to_bind=False)
        self._listen = listen
        self._seed = seed
        self._settings = LinkSettings() if link is None else link
        self._listener: Listener | None = None
        self._loop: LinkLoop | None = None

    def __enter__(self) -> EmulatedLink:
        """Open the port and start the thread.

        Raises:
            AddressError: The address to listen on cannot be read or resolved.
            LinkSettingsError: It is taken or no TCP address.
        """
        queue_bytes = self._settings.queue_bytes(self._settings.uplink_mbps)
        self._listener = Listener(self._listen, queue_bytes)
        self._loop = LinkLoop(self._listener, self._target, self._settings, self._seed)
        self._loop.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Reset all connections and give the port back."""
        if self._loop is not None:
            self._loop.stop()

    @property
    def address(self) -> str:
        """Where agents connect, ``tcp://HOST:PORT``."""
        if self._listener is None:
            raise EmulatorClosedError("the emulated link is not open yet; enter its context first")
        return self._listener.address

    @property
    def settings(self) -> LinkSettings:
        """What the link is like now."""
        return self._settings

    @property
    def counters(self) -> LinkCounters:
        """What the link has done so far."""
        loop = self._running()
        return LinkCounters(
            uplink_bytes=loop.uplink.delivered_bytes,
            downlink_bytes=loop.downlink.delivered_bytes,
            swallowed_bytes=loop.swallowed_bytes,
            corrupted_bytes=loop.uplink.corrupted_bytes + loop.downlink.corrupted_bytes,
            accepted_connections=loop.accepted_connections,
            failed_connections=loop.failed_connections,
            open_connections=len(loop.connections),
        )

    def wait_until(
        self, condition: Callable[[LinkCounters], bool], timeout_s: float = 10
    ) -> LinkCounters:
        """Block until the counters fulfil a condition; that is how to act in mid-transfer.

        Raises:
            TimeoutError: They did not in time.
        """
        deadline_s = time.monotonic() + timeout_s
        progress = self._running().progress
        with progress:
            while not condition(counters := self.counters):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError(f"not reached within {timeout_s} s: {counters}")
                progress.wait(left_s)
        return counters

    def set(self, **changes: Any) -> None:
        """Change fields of :class:`LinkSettings`; what is queued goes on at the new rate.

        The kernel's buffers change with the rate. If they shrink under a running stream, TCP may
        have to send a segment again, which costs that stream up to a fifth of a second, once.

        Raises:
            LinkSettingsError: An unknown field or a value that makes no sense.
        """
        known = {field.name for field in dataclasses.fields(LinkSettings)}
        if unknown := sorted(set(changes) - known):
            raise LinkSettingsError(
                f"a link has no {', '.join(unknown)}; it has {', '.join(sorted(known))}"
            )
        settings = dataclasses.replace(self._settings, **changes)
        loop = self._running()
        loop.call(lambda now_s: loop.reshape(settings, now_s))
        self._settings = settings

    def pause(self) -> None:
        """Stand still: nothing moves, nothing is lost, connections stay, senders fill up."""
        loop = self._running()
        loop.call(loop.pause)

    def resume(self) -> None:
        """Go on after :meth:`pause`."""
        loop = self._running()
        loop.call(loop.resume)

    def cut(self) -> None:
        """Reset all connections and refuse new ones."""
        loop = self._running()
        loop.call(loop.cut)

    def blackhole(self) -> None:
        """Take everything and forward nothing; close nothing, refuse nothing."""
        loop = self._running()
        loop.call(loop.blackhole)

    def half_open(self) -> None:
        """Reset the worker's side of every connection; the agent's side stays open and silent.

        New connections work.
        """
        loop = self._running()
        loop.call(loop.half_open)

    def corrupt(
        self, every_bytes: int = 1000, direction: Literal["up", "down", "both"] = "both"
    ) -> None:
        """Flip one bit in about one byte of ``every_bytes``, from now on."""
        up = Corruption(every_bytes, self._seed) if direction != "down" else None
        down = Corruption(every_bytes, self._seed + 1) if direction != "up" else None
        loop = self._running()
        loop.call(lambda _: loop.corrupt(up, down))

    def restore(self) -> None:
        """End every fault: listen again, go on, damage nothing.

        A connection that lost bytes is reset, since TCP never continues behind a hole; the agent
        connects anew.
        """
        loop = self._running()
        loop.call(loop.restore)

    def _running(self) -> LinkLoop:
        if self._loop is None:
            raise EmulatorClosedError("the emulated link is not open yet; enter its context first")
        return self._loop
