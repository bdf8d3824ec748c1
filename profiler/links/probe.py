"""Measure the link to a running worker, in bounded time and bytes. Light.

The method is that of :mod:`profiler.links.estimate`: some messages without payload give the round
trip; then messages of growing size go up and are answered by empty ones, and empty ones are
answered by growing ones. No session is opened, so the worker need not serve any model in question.
"""

from __future__ import annotations

import queue
import secrets
import statistics
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import zmq

from profiler.errors import LinkError
from profiler.links.estimate import Room, Sample, estimate_mbps, is_rough, next_size_bytes
from profiler.links.link import SteadyLink
from profiler.timing import FineClock
from protocol.addresses import Address, parse_address, resolve_host
from protocol.errors import AddressError, FrameError
from protocol.frames import decode_message, encode_message
from protocol.limits import Limits
from protocol.messages import PROBE_BYTES, Probe, Probed, Refuse
from protocol.sockets import agent_socket
from protocol.text import one_line

if TYPE_CHECKING:
    from protocol.clock import Clock

__all__ = ["ProbedLink", "probe_link"]

_MOST_S = 2.8
_MOST_BYTES_A_DIRECTION = 1_900_000
_EMPTY_MESSAGES = 7
_EMPTY_S = 0.4  # for them, after the first
_LIMITS = Limits(message_bytes=2 * PROBE_BYTES)
_ADVICE = "or give the rates, such as 20mbps,rtt=30ms"


@dataclass(frozen=True)
class ProbedLink:
    """What a measurement found, and what it cost.

    Attributes:
        link: The link.
        seconds: How long it took.
        size_bytes: Bytes of all messages, both ways.
    """

    link: SteadyLink
    seconds: float
    size_bytes: int


def probe_link(address: str) -> ProbedLink:
    """Measure the link between here and a worker, in less than 3 s and 4 MB.

    Args:
        address: The worker's, ``tcp://HOST:PORT``.

    Raises:
        LinkError: Nobody answers there, or not as a worker does, or too slowly.
        AddressError: The address cannot be read or resolved.
    """
    parsed = parse_address(address)
    if parsed.transport != "tcp":
        raise LinkError(f"cannot probe '{parsed}': only tcp://HOST:PORT is a link")
    clock = FineClock()
    start_s = clock.monotonic()
    numeric = _look_up(parsed, _MOST_S)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        with agent_socket(context, str(numeric), _LIMITS) as socket:
            prober = _Prober(socket, str(parsed), clock, start_s + _MOST_S)
            return prober.measure(start_s)
    finally:
        context.term()


def _look_up(address: Address, timeout_s: float) -> Address:
    """Return the address with a numeric host; a name server that is gone holds nobody up."""
    found: queue.SimpleQueue[Address | AddressError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            host, _ = resolve_host(address, to_bind=False)
            found.put(Address("tcp", host, address.port))
        except AddressError as error:
            found.put(error)

    threading.Thread(target=look_up, name="look-up", daemon=True).start()
    try:
        result = found.get(timeout=timeout_s)
    except queue.Empty:
        raise LinkError(
            f"cannot probe '{address}': looking up host {address.place!r} takes more than "
            f"{timeout_s:.0f} s; give its IP address"
        ) from None
    if isinstance(result, AddressError):
        raise result
    return result


class _Prober:
    """One measurement over one connection, until a moment of the clock at the latest."""

    def __init__(
        self, socket: zmq.Socket[bytes], address: str, clock: Clock, deadline_s: float
    ) -> None:
        self._socket = socket
        self._address = address
        self._clock = clock
        self._deadline_s = deadline_s
        self._number = 0
        self._size_bytes = 0
        self._payload = memoryview(secrets.token_bytes(PROBE_BYTES))

    def measure(self, start_s: float) -> ProbedLink:
        """Connect, and time messages of growing sizes in both directions."""
        self._connect()
        empty = self._empty_messages()
        uplink = self._grow(empty, self._left_s() / 2, up=True)
        downlink = self._grow(empty, self._left_s(), up=False)
        seconds = self._clock.monotonic() - start_s
        notes = tuple(
            f"The {way} to {self._address} is too fast or too far for a probe; its rate is rough."
            for way, samples in (("uplink", uplink), ("downlink", downlink))
            if is_rough(samples)
        )
        link = SteadyLink(
            _rounded(estimate_mbps(uplink)),
            _rounded(estimate_mbps(downlink)),
            _rounded(statistics.median(sample.seconds for sample in empty) * 1e3),
            f"measured to {self._address} in {seconds:.1f} s with {self._size_bytes:,} bytes",
            notes=notes,
        )
        return ProbedLink(link, seconds, self._size_bytes)

    def _connect(self) -> None:
        # With IMMEDIATE set only a completed connection makes the socket writable.
        if not self._socket.poll(self._left_ms(), zmq.POLLOUT):
            raise self._trouble(
                f"no worker has answered within {_MOST_S:g} s; start cloud-worker there"
            )

    def _empty_messages(self) -> list[Sample]:
        samples = [self._sample(0, up=True)]
        end_s = self._clock.monotonic() + _EMPTY_S
        while len(samples) < _EMPTY_MESSAGES and self._clock.monotonic() < end_s:
            samples.append(self._sample(0, up=True))
        return samples

    def _grow(self, empty: list[Sample], seconds: float, *, up: bool) -> list[Sample]:
        samples = list(empty)
        end_s = self._clock.monotonic() + seconds
        room_bytes = _MOST_BYTES_A_DIRECTION
        while True:
            left_s = end_s - self._clock.monotonic()
            size_bytes = next_size_bytes(samples, Room(room_bytes, left_s, PROBE_BYTES))
            if size_bytes is None:
                return samples
            samples.append(self._sample(size_bytes, up=up))
            room_bytes -= size_bytes

    def _sample(self, size_bytes: int, *, up: bool) -> Sample:
        """Time one probe, from before it is sent until its answer is here."""
        self._number += 1
        up_bytes, down_bytes = (size_bytes, 0) if up else (0, size_bytes)
        frames = encode_message(Probe(self._number, down_bytes, self._payload[:up_bytes]))
        start_s = self._clock.monotonic()
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            asked = "" if self._number > 1 else " before it was used (is it a cloud-worker?)"
            raise self._trouble(f"the connection is gone{asked}") from None
        payload = self._answer()
        seconds = self._clock.monotonic() - start_s
        if len(payload) != down_bytes:
            raise self._trouble(f"it answers {down_bytes} bytes with {len(payload)}")
        self._size_bytes += sum(map(len, frames))
        return Sample(size_bytes, seconds)

    def _answer(self) -> bytes | memoryview:
        if not self._socket.poll(self._left_ms(), zmq.POLLIN):
            first = "does not answer (is it a cloud-worker of this version?)"
            later = f"is too slow, or went away: no answer within {_MOST_S:g} s of the start"
            raise self._trouble(f"it {first if self._number == 1 else later}")
        received = self._socket.recv_multipart(zmq.NOBLOCK)
        self._size_bytes += sum(map(len, received))
        try:
            message = decode_message(received, _LIMITS)
        except FrameError as error:
            raise self._trouble(f"it speaks something else ({one_line(str(error), 80)})") from error
        if isinstance(message, Refuse):
            wait = f"; ask again in {(message.retry_after_ms or 0) / 1e3:.1f} s"
            raise self._trouble(f"it says no ({message.code.value}: {message.text}){wait}")
        if not isinstance(message, Probed) or message.number != self._number:
            raise self._trouble("it answers with what was not asked for")
        return message.payload

    def _left_s(self) -> float:
        return max(0.0, self._deadline_s - self._clock.monotonic())

    def _left_ms(self) -> int:
        return int(self._left_s() * 1e3)

    def _trouble(self, what: str) -> LinkError:
        return LinkError(f"cannot probe '{self._address}': {what}; {_ADVICE}")


def _rounded(value: float) -> float:
    """Three digits; a measurement has no more."""
    return float(f"{value:.3g}")
