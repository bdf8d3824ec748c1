"""What each cut costs in one situation: profiles, link, codecs, and what was timed. Pure.

Needs onnx and scipy, through the cuts and the partitioner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from profiler.energy import DevicePower, FrameBytes, FrameTimes, Radio, frame_energy
from profiler.graph.observation import ObservedTensor
from profiler.links import Link, TransferTime
from profiler.profile import CodecSpeed, Profile
from profiler.values import ModelIdentity
from protocol.codecs import Codec, RawCodec
from protocol.tensors import TensorSpec
from splitter.bundle import Decision
from splitter.cuts import CLOUD_ONLY, DEVICE_ONLY, Cut, CutSpace
from splitter.errors import PlanError
from splitter.partitioner import CutCosts
from splitter.plan import Candidate, CrossingTensor, Prediction

# Bytes around the payloads: the request's frames and header, and what each tensor adds to it,
# as protocol.message_bytes counts them; rounded up.
_REQUEST_BYTES = 64
_TENSOR_BYTES = 96


@dataclass(frozen=True)
class InputEncoding:
    """A picture as the cloud-only mode sends it.

    Attributes:
        tensor: The model input that the cloud makes from the picture.
        codec: How the picture travels.
        bytes: Its size.
        shape: Height, width and channels of the picture.
    """

    tensor: str
    codec: str
    bytes: int
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class PartTimes:
    """How long the models of a cut were seen to run; ``None`` where a profile must say it.

    Attributes:
        device_ms: The head on the device.
        cloud_ms: The tail in the cloud.
    """

    device_ms: float | None
    cloud_ms: float | None


_NOT_TIMED = PartTimes(None, None)


@dataclass(frozen=True)
class Situation:
    """Everything that a plan is decided from.

    Attributes:
        model: What is to be run.
        space: Its legal cuts.
        tensors: What was seen of each tensor.
        device: Costs on the device.
        cloud: Costs in the cloud.
        link: What lies between.
        codec: How tensors travel.
        picture: How cloud-only sends a picture, if the model's input is one.
        notes: What a reader of the plan should know of the inputs.
        timed: What was seen of the models of some cuts, by the cuts' ids.
        radio: What the device's radio draws, if that is known.
    """

    model: ModelIdentity
    space: CutSpace
    tensors: Mapping[str, ObservedTensor]
    device: Profile
    cloud: Profile
    link: Link
    codec: Codec
    picture: InputEncoding | None = None
    notes: tuple[str, ...] = ()
    timed: Mapping[str, PartTimes] = field(default_factory=dict)
    radio: Radio | None = None


def decision_of(cut_id: str) -> Decision:
    """Return what choosing a cut means."""
    if cut_id == DEVICE_ONLY:
        return "device"
    return "cloud" if cut_id == CLOUD_ONLY else "split"


class Weighing:
    """Costs of units and tensors in one situation."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        space, link = situation.space, situation.link
        names = {*space.readers, *space.graph.outputs}
        self._crossing = {
            name: self._crossing_tensor(name) for name in names if name not in space.unsendable
        }
        # Each side does half of what its whole exchange over loopback takes; half of it on the way
        # there, half on the way back.
        self._exchange_ms = (situation.device.exchange_ms + situation.cloud.exchange_ms) / 2
        empty_ms = link.uplink_ms(_REQUEST_BYTES) + link.downlink_ms(_REQUEST_BYTES)
        self.costs = CutCosts(
            device_ms=[situation.device.cost_of(unit.nodes) for unit in space.units],
            cloud_ms=[situation.cloud.cost_of(unit.nodes) for unit in space.units],
            transfer_ms={
                name: self._transfer_ms(name) if name in self._crossing else math.inf
                for name in space.readers
            },
            result_ms={name: self._result_ms(name) for name in space.graph.outputs},
            cloud_fixed_ms=situation.cloud.overhead_ms + empty_ms + self._exchange_ms,
            device_fixed_ms=situation.device.overhead_ms,
        )

    def candidate(self, cut: Cut) -> Candidate:
        """Return a cut with what it costs; cloud-only takes the cheaper of tensor and picture."""
        tensors = tuple(self._crossing[name] for name in cut.frontier)
        plain = self._candidate(cut, tensors)
        picture = self._situation.picture
        if cut.id != CLOUD_ONLY or picture is None or picture.tensor not in cut.frontier:
            return plain
        others = (tensor for tensor in tensors if tensor.name != picture.tensor)
        sent = CrossingTensor(picture.tensor, "uint8", picture.shape, picture.codec, picture.bytes)
        encoded = self._candidate(cut, (sent, *others))
        return min(plain, encoded, key=lambda item: item.predicted.latency_ms)

    def _candidate(self, cut: Cut, tensors: tuple[CrossingTensor, ...]) -> Candidate:
        space, situation = self._situation.space, self._situation
        device_nodes = [name for index in cut.units for name in space.units[index].nodes]
        on_device = set(device_nodes)
        cloud_nodes = [node.name for node in space.graph.regular if node.name not in on_device]
        encode_ms = decode_ms = exchange_ms = downlink_ms = 0.0
        uplink = TransferTime(0.0, 0.0, 0.0)
        uplink_bytes = result_bytes = 0
        if cloud_nodes:
            # Times on the link are those of whole messages: only where rates never change are they
            # the sums of the costs above.
            encode_ms, _, decode_ms = self._sums(tensors)
            exchange_ms = self._exchange_ms / 2
            uplink_bytes = _REQUEST_BYTES + sum(tensor.bytes + _TENSOR_BYTES for tensor in tensors)
            uplink = situation.link.uplink_time(uplink_bytes)
            result_bytes = _REQUEST_BYTES + sum(self._result_bytes(name) for name in cut.results)
            downlink_ms = situation.link.downlink_ms(result_bytes) + exchange_ms
            downlink_ms += math.fsum(self._result_codec_ms(name) for name in cut.results)
        uplink_ms = uplink.expected_ms + exchange_ms
        border = self._border_bytes(cut.frontier)
        times = situation.timed.get(cut.id, _NOT_TIMED)
        device_ms = times.device_ms
        if device_ms is None:
            device_ms = situation.device.run_ms(device_nodes, border)
        cloud_ms = times.cloud_ms
        if cloud_ms is None:
            cloud_ms = situation.cloud.run_ms(cloud_nodes, border)
        parts = (device_ms, encode_ms, uplink_ms, decode_ms, cloud_ms, downlink_ms)
        latency_ms = math.fsum(parts)
        energy = frame_energy(
            FrameTimes(device_ms + encode_ms, latency_ms),
            FrameBytes(uplink_bytes, result_bytes),
            _power(situation.device),
            situation.radio,
            situation.link,
        )
        predicted = Prediction(
            latency_ms=latency_ms,
            device_ms=device_ms,
            encode_ms=encode_ms,
            uplink_ms=uplink_ms,
            uplink_p50_ms=uplink.p50_ms + exchange_ms,
            uplink_p95_ms=uplink.p95_ms + exchange_ms,
            queue_ms=0.0,
            decode_ms=decode_ms,
            cloud_ms=cloud_ms,
            downlink_ms=downlink_ms,
            uplink_bytes=uplink_bytes,
            device_energy_mj=energy.device_energy_mj,
            compute_mj=energy.compute_mj,
            radio_mj=energy.radio_mj,
            waiting_mj=energy.waiting_mj,
        )
        return Candidate(
            cut=cut.id,
            decision=decision_of(cut.id),
            tensors=tensors,
            units=cut.units,
            device_nodes=len(device_nodes),
            predicted=predicted,
            verified=cut.id in situation.timed,
        )

    def _crossing_tensor(self, name: str) -> CrossingTensor:
        seen = self._situation.tensors[name]
        spec = TensorSpec(name, seen.slot.dtype, seen.shape)
        codec = self._situation.codec.resolve(spec)
        size = seen.encoded_bytes.get(codec.name)
        if size is None:
            size = codec.max_encoded_bytes(spec)
        return CrossingTensor(name, seen.slot.dtype, seen.shape, codec.name, size)

    def _transfer_ms(self, name: str) -> float:
        """What one tensor adds to a cut that it crosses, on both sides and between them."""
        border = self._border_bytes([name])
        borders_ms = sum(
            side.border_ms(border) for side in (self._situation.device, self._situation.cloud)
        )
        return math.fsum((*self._sums([self._crossing[name]]), borders_ms))

    def _border_bytes(self, frontier: Iterable[str]) -> int:
        """Size of what the device makes and hands over; any run takes in its inputs."""
        maker = self._situation.space.maker
        return sum(self._situation.tensors[name].raw_bytes for name in frontier if name in maker)

    def _sums(self, tensors: Iterable[CrossingTensor]) -> tuple[float, float, float]:
        """Time to encode, to send at the effective rate and to decode, without the round trip."""
        device, cloud, link = self._situation.device, self._situation.cloud, self._situation.link
        encode = sending = decode = 0.0
        for tensor in tensors:
            raw = _raw_bytes(tensor)
            encode += codec_speed(device, tensor.codec).encode_ms(raw)
            sending += (tensor.bytes + _TENSOR_BYTES) * 8 / (link.uplink_mbps * 1e3)
            decode += codec_speed(cloud, tensor.codec).decode_ms(raw)
        return encode, sending, decode

    def _result_ms(self, name: str) -> float:
        """Time to encode a result in the cloud, send it without loss, and decode it."""
        if name not in self._crossing:
            return math.inf
        sending_ms = self._result_bytes(name) * 8 / (self._situation.link.downlink_mbps * 1e3)
        return sending_ms + self._result_codec_ms(name)

    def _result_bytes(self, name: str) -> int:
        seen = self._situation.tensors[name]
        raw = RawCodec()
        spec = TensorSpec(name, seen.slot.dtype, seen.shape)
        return seen.encoded_bytes.get(raw.name, raw.max_encoded_bytes(spec)) + _TENSOR_BYTES

    def _result_codec_ms(self, name: str) -> float:
        device, cloud, raw = self._situation.device, self._situation.cloud, RawCodec().name
        size_bytes = self._situation.tensors[name].raw_bytes
        return codec_speed(cloud, raw).encode_ms(size_bytes) + codec_speed(device, raw).decode_ms(
            size_bytes
        )


def _power(device: Profile) -> DevicePower | None:
    if device.idle_w is None or device.busy_w is None:
        return None
    return DevicePower(device.idle_w, device.busy_w)


def _raw_bytes(tensor: CrossingTensor) -> int:
    return TensorSpec(tensor.name, tensor.dtype, tensor.shape).raw_bytes


def codec_speed(profile: Profile, codec: str) -> CodecSpeed:
    """Return how fast a machine encodes and decodes.

    Raises:
        PlanError: The profile does not say it.
    """
    try:
        return profile.codecs[codec]
    except KeyError:
        known = ", ".join(sorted(profile.codecs)) or "none"
        raise PlanError(
            f"the profile {profile.label!r} does not say how fast the codec {codec!r} is "
            f"(it knows {known}); profile the machine again"
        ) from None
