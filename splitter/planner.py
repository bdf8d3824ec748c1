"""Decide where to cut. A pure function of profiles, link and observation. Needs onnx and scipy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from profiler.graph.observation import ObservedTensor
from profiler.links import Link
from profiler.profile import CodecSpeed, Profile
from profiler.values import ModelIdentity
from protocol.codecs import Codec, RawCodec, parse_codec
from protocol.tensors import TensorSpec
from splitter.bundle import Decision
from splitter.cuts import CLOUD_ONLY, DEVICE_ONLY, Cut, CutSpace
from splitter.errors import PlanError
from splitter.partitioner import CutCosts, best_split, minimum_cut, prefix_costs_ms
from splitter.plan import Candidate, CrossingTensor, Machine, Plan, Prediction

_CANDIDATES = 10
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


def make_plan(situation: Situation) -> Plan:
    """Return the plan of least latency.

    The best cut and the best split are exact for the given costs; the other candidates are cuts
    between neighbours in topological order.

    Raises:
        PlanError: The model's inputs cannot be sent, or a cost is not a cost.
    """
    space = situation.space
    if not space.units or not space.graph.inputs:
        raise PlanError(f"{situation.model.name} computes nothing from inputs; there is no split")
    nothing = space.legal(frozenset())
    if nothing is None:
        names = space.unsendable.intersection((*space.graph.input_names, *space.graph.outputs))
        what = f"{min(names)[:80]!r}" if names else "so many inputs or outputs"
        raise PlanError(
            f"no message carries {what} (its type, or above a limit); the model stays whole"
        )
    weighed = Weighing(situation)
    split = best_split(space, weighed.costs)
    cuts = {
        cut.id: cut for cut in (*_short_list(space, weighed.costs), *([split] if split else []))
    }
    ranked = sorted(
        (weighed.candidate(cut) for cut in cuts.values()),
        key=lambda candidate: candidate.predicted.latency_ms,
    )
    by_id = {candidate.cut: candidate for candidate in ranked}
    chosen = cuts[ranked[0].cut]
    device = [name for index in sorted(chosen.units) for name in space.units[index].nodes]
    on_device = set(device)
    return Plan(
        model=situation.model,
        objective="latency",
        device=_machine(situation.device),
        cloud=_machine(situation.cloud),
        link=situation.link,
        chosen=ranked[0],
        device_nodes=tuple(device),
        cloud_nodes=tuple(node.name for node in space.graph.regular if node.name not in on_device),
        device_only=by_id[DEVICE_ONLY],
        cloud_only=by_id[CLOUD_ONLY],
        best_split=None if split is None else by_id[split.id],
        candidates=tuple(ranked[:_CANDIDATES]),
        notes=(*situation.notes, *_notes(situation, ranked)),
    )


def _short_list(space: CutSpace, costs: CutCosts) -> Iterable[Cut]:
    """The optimum, the two pure modes, and enough of the best prefixes to fill the candidates."""
    totals = prefix_costs_ms(space, costs)
    ranked = sorted(range(len(totals)), key=totals.__getitem__)[: _CANDIDATES + 2]
    for end in {*ranked, 0, len(space.units)}:
        cut = space.legal(frozenset(range(end)))
        if cut is not None and math.isfinite(totals[end]):
            yield cut
    yield minimum_cut(space, costs)


def _machine(profile: Profile) -> Machine:
    return Machine(profile.label, profile.kind, profile.engine.threads, profile.uncertainty)


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
        encode_ms = uplink_ms = decode_ms = downlink_ms = 0.0
        uplink_bytes = 0
        if cloud_nodes:
            encode_ms, sending_ms, decode_ms = self._sums(tensors)
            uplink_ms = (
                sending_ms + situation.link.uplink_ms(_REQUEST_BYTES) + self._exchange_ms / 2
            )
            downlink_ms = situation.link.downlink_ms(_REQUEST_BYTES) + self._exchange_ms / 2
            downlink_ms += math.fsum(self._result_ms(name) for name in cut.results)
            uplink_bytes = _REQUEST_BYTES + sum(tensor.bytes + _TENSOR_BYTES for tensor in tensors)
        border = self._border_bytes(cut.frontier)
        device_ms = situation.device.run_ms(device_nodes, border)
        cloud_ms = situation.cloud.run_ms(cloud_nodes, border)
        parts = (device_ms, encode_ms, uplink_ms, decode_ms, cloud_ms, downlink_ms)
        predicted = Prediction(
            latency_ms=math.fsum(parts),
            device_ms=device_ms,
            encode_ms=encode_ms,
            uplink_ms=uplink_ms,
            queue_ms=0.0,
            decode_ms=decode_ms,
            cloud_ms=cloud_ms,
            downlink_ms=downlink_ms,
            uplink_bytes=uplink_bytes,
        )
        return Candidate(
            cut=cut.id,
            decision=decision_of(cut.id),
            tensors=tensors,
            units=cut.units,
            device_nodes=len(device_nodes),
            predicted=predicted,
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
        """Time to encode, to send and to decode tensors, without the round trip."""
        device, cloud, link = self._situation.device, self._situation.cloud, self._situation.link
        encode = sending = decode = 0.0
        for tensor in tensors:
            raw = _raw_bytes(tensor)
            encode += _speed(device, tensor.codec).encode_ms(raw)
            sending += (tensor.bytes + _TENSOR_BYTES) * 8 / (link.uplink_mbps * 1e3)
            decode += _speed(cloud, tensor.codec).decode_ms(raw)
        return encode, sending, decode

    def _result_ms(self, name: str) -> float:
        """Time to encode a result in the cloud, send it without loss, and decode it."""
        if name not in self._crossing:
            return math.inf
        device, cloud, link = self._situation.device, self._situation.cloud, self._situation.link
        seen = self._situation.tensors[name]
        raw = RawCodec()
        spec = TensorSpec(name, seen.slot.dtype, seen.shape)
        size = seen.encoded_bytes.get(raw.name, raw.max_encoded_bytes(spec)) + _TENSOR_BYTES
        return (
            _speed(cloud, raw.name).encode_ms(seen.raw_bytes)
            + size * 8 / (link.downlink_mbps * 1e3)
            + _speed(device, raw.name).decode_ms(seen.raw_bytes)
        )


def _raw_bytes(tensor: CrossingTensor) -> int:
    return TensorSpec(tensor.name, tensor.dtype, tensor.shape).raw_bytes


def _speed(profile: Profile, codec: str) -> CodecSpeed:
    try:
        return profile.codecs[codec]
    except KeyError:
        known = ", ".join(sorted(profile.codecs)) or "none"
        raise PlanError(
            f"the profile {profile.label!r} does not say how fast the codec {codec!r} is "
            f"(it knows {known}); profile the machine again"
        ) from None


def _notes(situation: Situation, ranked: list[Candidate]) -> Iterable[str]:
    chosen = ranked[0]
    if chosen.decision != "device":
        lossy = sorted({tensor.codec for tensor in chosen.tensors} - {"raw"})
        if lossy:
            yield f"Fidelity of {', '.join(lossy)} was not measured; the answer may change."
    rival = next((item for item in ranked[1:] if item.decision != chosen.decision), None)
    band = max(situation.device.uncertainty, situation.cloud.uncertainty)
    if rival is not None and _could_flip(chosen.predicted, rival.predicted, situation):
        yield (
            f"Within the uncertainty of the costs (up to {band:.0%}) {rival.decision!r} may win "
            f"over {chosen.decision!r}: {rival.predicted.latency_ms:.1f} ms against "
            f"{chosen.predicted.latency_ms:.1f} ms."
        )


def _could_flip(chosen: Prediction, rival: Prediction, situation: Situation) -> bool:
    """Whether some costs within both profiles' bands make the rival the better one.

    Device times scale together, and so do cloud times, so it is enough to look at the corners.
    """
    for device_sign in (-1, 1):
        for cloud_sign in (-1, 1):
            device = device_sign * situation.device.uncertainty
            cloud = cloud_sign * situation.cloud.uncertainty
            gap = rival.latency_ms - chosen.latency_ms
            gap += device * (rival.device_ms - chosen.device_ms)
            gap += cloud * (rival.cloud_ms - chosen.cloud_ms)
            if gap < 0:
                return True
    return False


def default_codec(name: str) -> Codec:
    """Return the codec of this name for frontier tensors; pictures have codecs of their own.

    Raises:
        PlanError: The codec is for pictures.
        CodecError: There is no such codec.
    """
    codec = parse_codec(name)
    if name.startswith("jpeg"):
        raise PlanError(f"codec {name!r} is for pictures; tensors take raw, float16 or affine8")
    return codec
