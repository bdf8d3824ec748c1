"""The way of one frame through the cloud: encode the frontier, ask the worker, read its results."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from device_agent._decisions import refusal_reason
from device_agent._link_values import LinkState
from device_agent.answers import ComputedOn, Reason
from protocol import (
    CodecError,
    JpegCodec,
    ProtocolError,
    RawCodec,
    decode_tensor,
    encode_tensor,
    install_hint,
    parse_codec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from device_agent._channel import Exchange, WorkerChannel
    from device_agent._parts import CutParts
    from device_agent._sources import Frame
    from protocol import Clock, Codec, EncodedTensor, Limits, Result
    from splitter.bundle import BundledCut

    Arrays = Mapping[str, NDArray[Any]]

_RAW = RawCodec()
_STANDING: Mapping[Reason, str] = {
    Reason.TOO_LARGE: "a frame is above its limit for a tensor or a message",
    Reason.NO_CREDIT: "a frame has more bytes than it grants",
}


@dataclass(frozen=True, eq=False)
class RemoteAnswer:
    """What came of asking the worker.

    Attributes:
        outputs: The model's outputs; None where the frame must be finished on the device.
        reason: ``planned`` with outputs, otherwise why there are none.
        times: Parts of :class:`AnswerTimes` that were spent on it, in milliseconds.
        uplink_bytes: Message bytes sent.
        reply: The reply that the outputs are from.
    """

    outputs: Arrays | None
    reason: Reason
    times: dict[str, float] = field(default_factory=dict)
    uplink_bytes: int = 0
    reply: Result | None = None

    @property
    def computed_on(self) -> ComputedOn:
        """Which machine finishes the frame."""
        return ComputedOn.DEVICE if self.reply is None else ComputedOn.CLOUD


class RemoteTail:
    """The tail of a cut, on a worker.

    Args:
        cut: The cut.
        parts: Joins results with what the head has made.
        channel: The way to the worker.
        limits: What is accepted from the worker.
        clock: The time.
        worker: The worker's address, for people.
        notice: Told when something changes that a user should know.
    """

    def __init__(
        self,
        cut: BundledCut,
        parts: CutParts,
        channel: WorkerChannel,
        limits: Limits,
        clock: Clock,
        worker: str,
        notice: Callable[[str], None],
    ) -> None:
        self._parts = parts
        self._channel = channel
        self._limits = limits
        self._clock = clock
        self._worker = worker
        self._notice = notice
        self._codecs = frontier_codecs(cut)
        self._has_pillow = has_pillow()
        self._was_welcomed = channel.link.state is LinkState.WELCOMED
        self._explained: set[Reason] = set()

    def ask(self, frame: Frame, known: Arrays, limit_s: float) -> RemoteAnswer:
        """Ask the worker for the rest of a frame, at most until ``limit_s`` on the clock."""
        self._channel.refresh()
        self._tell_changes()
        started_s = self._clock.monotonic()
        obstacle = self._channel.link.obstacle(started_s)
        if obstacle is not None:
            return RemoteAnswer(None, obstacle)
        misfit = self._parts.misfit(known)
        try:
            tensors = () if misfit else self._encode(frame, known)
        except CodecError as error:  # a dtype that the wire lacks, or pixels that are no picture
            misfit = str(error)
        if misfit:
            self._explain(Reason.MISFIT, f"not asked, since {misfit}")
            return RemoteAnswer(None, Reason.MISFIT)
        encode_ms = (self._clock.monotonic() - started_s) * 1000
        exchange = self._channel.exchange(tensors, limit_s)
        if exchange.result is None:
            self._explain(exchange.reason, exchange.detail)
            return self._fruitless(exchange.reason, encode_ms, exchange)
        try:
            self._parts.check_results(exchange.result.tensors)
            misfit = self._parts.result_misfit(exchange.result.tensors)
            if misfit:
                self._explain(Reason.MISFIT, misfit)
                return self._fruitless(Reason.MISFIT, encode_ms, exchange)
            outputs = self._parts.merge(known, self._decode(exchange.result))
        except ProtocolError as error:
            self._channel.distrust()
            self._explain(Reason.BAD_REPLY, str(error))
            return self._fruitless(Reason.BAD_REPLY, encode_ms, exchange)
        times = {"encode_ms": encode_ms, **_split_time(exchange.seconds * 1000, exchange.result)}
        return RemoteAnswer(outputs, Reason.PLANNED, times, exchange.uplink_bytes, exchange.result)

    def _encode(self, frame: Frame, known: Arrays) -> tuple[EncodedTensor, ...]:
        encoded = []
        for name, codec in self._codecs.items():
            if not isinstance(codec, JpegCodec):
                encoded.append(encode_tensor(name, known[name], codec))
            elif frame.pixels is None or not self._has_pillow:
                encoded.append(encode_tensor(name, known[name], _RAW))
                self._count_raw(encoded[-1], frame)
            else:
                encoded.append(encode_tensor(name, frame.pixels, codec))
        return tuple(encoded)

    def _count_raw(self, tensor: EncodedTensor, frame: Frame) -> None:
        counters, size = self._channel.link.counters, len(tensor.payload)
        if not counters.raw_pictures:
            self._notice(
                f"the plan sends {tensor.spec.name!r} as a JPEG, but"
                f" {_why_raw(frame)}; sending it raw, {size} bytes a frame"
            )
        counters.raw_pictures += 1
        counters.raw_picture_bytes += size

    def _decode(self, result: Result) -> Arrays:
        return {tensor.spec.name: decode_tensor(tensor, self._limits) for tensor in result.tensors}

    def _fruitless(self, reason: Reason, encode_ms: float, exchange: Exchange) -> RemoteAnswer:
        times = {"encode_ms": encode_ms, "wait_ms": exchange.seconds * 1000}
        return RemoteAnswer(None, reason, times, exchange.uplink_bytes)

    def _tell_changes(self) -> None:
        link = self._channel.link
        welcomed = link.state is LinkState.WELCOMED
        if welcomed and not self._was_welcomed:
            self._explained.clear()
            self._notice(f"{self._worker} answers; using the cloud")
        elif self._was_welcomed and not welcomed:
            why = link.loss.value.replace("_", " ") if link.loss else "lost"
            self._notice(f"the link to {self._worker} is lost ({why}); answering on the device")
        self._was_welcomed = welcomed
        if link.refusal is not None:
            self._explain(refusal_reason(link.refusal.code), link.refusal.text)

    def _explain(self, reason: Reason, detail: str) -> None:
        """Name the cause of local answers, once for each reason, if there is more to say."""
        detail = detail or _STANDING.get(reason, "")
        if detail and reason not in self._explained:
            self._explained.add(reason)
            self._notice(f"{self._worker}: {detail}; answering on the device ({reason.value})")


def frontier_codecs(cut: BundledCut) -> dict[str, Codec]:
    """The codec that the plan has for each tensor that crosses a cut."""
    return {tensor.slot.name: parse_codec(tensor.codec) for tensor in cut.frontier}


def sent_codecs(cut: BundledCut) -> tuple[str, ...]:
    """Names of the codecs that this device may send with."""
    # Raw is what any codec gives way to for values that it cannot carry.
    codecs = {_RAW.name}
    for codec in frontier_codecs(cut).values():
        if not isinstance(codec, JpegCodec) or has_pillow():
            codecs.add(codec.name)
    return tuple(sorted(codecs))


def has_pillow() -> bool:
    """Whether this device can write JPEGs."""
    return importlib.util.find_spec("PIL") is not None


def _why_raw(frame: Frame) -> str:
    if frame.pixels is None:
        return "these frames are no pictures (a folder of them gives JPEGs)"
    return f"Pillow is not installed ({install_hint('images')})"


def _split_time(trip_ms: float, result: Result) -> dict[str, float]:
    """Tell the worker's time from the network's.

    A worker that claims more time than has passed is not believed.
    """
    spent = result.timings
    worker_ms = spent.queue_ms + spent.decode_ms + spent.inference_ms + spent.encode_ms
    if worker_ms > trip_ms:
        return {"network_ms": trip_ms}
    return {
        "network_ms": trip_ms - worker_ms,
        "queue_ms": spent.queue_ms,
        "decode_ms": spent.decode_ms,
        "cloud_ms": spent.inference_ms,
        "cloud_encode_ms": spent.encode_ms,
    }
