"""What each placement costs in one situation: profiles, links, codecs, and what was timed. Pure.

Needs onnx and scipy, through the cuts and the solver.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from profiler.energy import FrameBytes, FrameTimes, frame_energy
from profiler.links import TransferTime
from protocol.codecs import RawCodec
from splitter.bundle import Decision
from splitter.cuts import CLOUD_ONLY, DEVICE_ONLY
from splitter.optimise.min_cut import with_codecs
from splitter.optimise.problem import (
    NO_CODEC,
    Allowed,
    Footprint,
    Memory,
    Metric,
    Placement,
    crossing,
    footprint,
    memory_bytes,
)
from splitter.optimise.queueing import Queue
from splitter.plans import Candidate, CrossingTensor, Prediction
from splitter.pricing import Pricing, device_power
from splitter.residence import device_memory
from splitter.situation import PartTimes, Situation

_NOT_TIMED = PartTimes(None, None)
_RAW = RawCodec().name


def decision_of(cut_id: str) -> Decision:
    """Return what choosing a cut means."""
    if cut_id == DEVICE_ONLY:
        return "device"
    return "cloud" if cut_id == CLOUD_ONLY else "split"


class Weighing:
    """Costs of placements in one situation."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.pricing = Pricing(situation)
        self.flow = self.pricing.flow
        self._names = ["\0".join(unit.nodes) for unit in situation.space.units]
        self._node_counts = np.array([len(unit.nodes) for unit in situation.space.units])

    @cached_property
    def queue(self) -> Queue:
        """How frames wait for the worker."""
        load = self.situation.wishes.load
        return Queue("cloud_ms", load.factor, load.frames_per_worker_s / 1e3, {"latency_ms": 1.0})

    @cached_property
    def memory(self) -> Memory:
        """What the device holds."""
        return device_memory(self.pricing)

    def cut_id(self, tiers: NDArray[np.int64]) -> str:
        """Return the id of a placement: a digest of the names of the nodes on each lower tier."""
        highest = len(self.situation.profiles) - 1
        if (tiers == 0).all():
            return DEVICE_ONLY
        if (tiers == highest).all():
            return CLOUD_ONLY
        names = "\1".join(
            "\0".join(self._names[unit] for unit in np.flatnonzero(tiers == tier))
            for tier in range(highest)
        )
        return f"cut-{hashlib.sha256(names.encode()).hexdigest()[:8]}"

    def placement_of(self, units: Collection[int]) -> Placement:
        """Return the cut that runs these units on the device and all others in the cloud.

        Tensors travel in the codec that is the fastest for each; pictures as tensors.
        """
        tiers = np.full(self.flow.unit_count, len(self.situation.profiles) - 1, dtype=np.int64)
        tiers[list(units)] = 0
        usable = np.repeat(self.pricing.tensors.usable[None], len(self.situation.links), axis=0)
        nowhere = np.ones((0, 0), dtype=bool)
        return with_codecs(tiers, self.pricing.latency_ms, Allowed(nowhere, usable, nowhere))

    def candidate(self, placement: Placement) -> Candidate:
        """Return a placement with what it costs."""
        tiers = placement.tiers
        device = np.flatnonzero(tiers == 0)
        cut_id = self.cut_id(tiers)
        crossings = [self._crossing(placement, link) for link in range(len(self.situation.links))]
        return Candidate(
            cut=cut_id,
            decision=decision_of(cut_id),
            tensors=crossings[0],
            units=frozenset(device.tolist()),
            device_nodes=int(self._node_counts[device].sum()),
            predicted=self._prediction(placement, self.situation.timed.get(cut_id, _NOT_TIMED)),
            verified=cut_id in self.situation.timed,
            tiers=tuple(tiers.tolist()),
            onward=tuple(crossings[1:]),
        )

    def _crossing(self, placement: Placement, link: int) -> tuple[CrossingTensor, ...]:
        tensors = self.pricing.tensors
        sent = np.flatnonzero(crossing(self.flow, placement.tiers, link)).tolist()
        picture = self.situation.picture
        found = []
        for number in sent:
            codec = int(placement.codecs[link, number])
            name = tensors.names[number]
            size = round(float(tensors.encoded_bytes[number, codec]))
            if picture is not None and number == tensors.picture and codec == self.picture_codec:
                found.append(CrossingTensor(name, "uint8", picture.shape, picture.codec, size))
                continue
            seen = self.situation.tensors[name]
            carrier = tensors.codecs[number][codec]
            found.append(CrossingTensor(name, seen.slot.dtype, seen.shape, carrier, size))
        return tuple(sorted(found, key=lambda tensor: tensor.name))

    @property
    def picture_codec(self) -> int:
        """Number of the codec that carries the picture."""
        return len(self.pricing.tensors.codecs[0]) - 1

    def _prediction(self, placement: Placement, times: PartTimes) -> Prediction:
        situation, tiers = self.situation, placement.tiers
        used = footprint(self.flow, placement)
        parts = {name: used.value(metric) for name, metric in self._parts.items()}
        device_ms = parts["device"] if times.device_ms is None else times.device_ms
        cloud_ms = parts["cloud"] if times.cloud_ms is None else times.cloud_ms
        queue_ms = self.queue.nearly_full_wait_ms(cloud_ms)
        encode_ms, decode_ms = parts["encode"], parts["decode"]
        uplink_bytes, downlink_bytes = round(parts["up bytes"]), round(parts["down bytes"])
        uplink, exchange_ms = TransferTime(0.0, 0.0, 0.0), 0.0
        downlink_ms = 0.0
        if tiers.max() > 0:
            # Times on the link are those of whole messages: only where rates never change are they
            # the sums that the solver adds up.
            exchange_ms = self.pricing.exchange_ms(0) / 2
            uplink = situation.link.uplink_time(uplink_bytes)
            downlink_ms = situation.link.downlink_ms(downlink_bytes) + exchange_ms
            downlink_ms += parts["result codec"]
        edge_ms, edge_link_ms = parts.get("edge", 0.0), parts.get("edge link", 0.0)
        uplink_ms = uplink.expected_ms + exchange_ms
        lowest = (device_ms, encode_ms, uplink_ms, queue_ms, decode_ms, cloud_ms, downlink_ms)
        latency_ms = math.fsum((*lowest, edge_ms, edge_link_ms))
        fps = situation.wishes.load.fps
        energy = frame_energy(
            FrameTimes(device_ms + encode_ms, latency_ms, None if fps is None else 1000 / fps),
            FrameBytes(uplink_bytes, downlink_bytes),
            device_power(situation.device),
            situation.radio,
            situation.link,
        )
        bottleneck, period_ms = self._slowest(
            used, device_ms - parts["device"], cloud_ms - parts["cloud"]
        )
        return Prediction(
            latency_ms=latency_ms,
            device_ms=device_ms,
            encode_ms=encode_ms,
            uplink_ms=uplink_ms,
            uplink_p50_ms=uplink.p50_ms + exchange_ms,
            uplink_p95_ms=uplink.p95_ms + exchange_ms,
            queue_ms=queue_ms,
            decode_ms=decode_ms,
            cloud_ms=cloud_ms,
            downlink_ms=downlink_ms,
            uplink_bytes=uplink_bytes,
            device_energy_mj=energy.device_energy_mj,
            compute_mj=energy.compute_mj,
            radio_mj=energy.radio_mj,
            waiting_mj=energy.waiting_mj,
            edge_ms=edge_ms,
            edge_link_ms=edge_link_ms,
            downlink_bytes=downlink_bytes,
            period_ms=period_ms,
            bottleneck=bottleneck,
            device_memory_bytes=round(memory_bytes(self.memory, tiers)),
            usd_per_1000=self._usd(used, cloud_ms - parts["cloud"]),
            kl_nats=self._loss(used),
        )

    @cached_property
    def _parts(self) -> dict[str, Metric]:
        pricing = self.pricing
        parts = {
            "device": pricing.device_ms,
            "cloud": pricing.cloud_ms,
            "encode": pricing.encode_ms(0),
            "decode": pricing.decode_ms(0),
            "up bytes": pricing.up_bytes(0),
            "down bytes": pricing.down_bytes(0),
            "result codec": pricing.result_codec_ms(0, up=True).plus(
                pricing.result_codec_ms(0, up=False)
            ),
        }
        middle = range(1, len(self.situation.profiles) - 1)
        if middle:
            parts["edge"] = _total(pricing.runs_ms(tier) for tier in middle)
            parts["edge link"] = _total(pricing.link_ms(tier) for tier in middle)
        return parts

    @cached_property
    def _stages(self) -> dict[str, Metric]:
        return self.pricing.stages()

    def _slowest(self, used: Footprint, device_ms: float, cloud_ms: float) -> tuple[str, float]:
        """The slowest stage; and what was seen longer, on the device and in the cloud."""
        load = self.situation.wishes.load
        times = {name: used.value(stage) for name, stage in self._stages.items()}
        times["stage device"] += device_ms
        times["stage cloud"] += cloud_ms * load.devices / load.workers
        name = max(times, key=times.__getitem__)
        return name.removeprefix("stage "), times[name]

    def _usd(self, used: Footprint, cloud_ms: float) -> float | None:
        """The price of 1,000 frames, with what the cloud was seen to take longer."""
        prices = self.situation.wishes.prices
        if prices is None:
            return None
        return used.value(self._money) + cloud_ms * prices.cloud_usd_per_hour / 3600

    @cached_property
    def _money(self) -> Metric:
        return self.pricing.usd_per_1000()

    def _loss(self, used: Footprint) -> float | None:
        """The sum of the losses of what crosses; ``None`` where one was not measured."""
        known, tensors = self.situation.fidelity_kl, self.pricing.tensors
        total = 0.0
        for numbers, codecs in used.sent:
            for number, codec in zip(numbers.tolist(), codecs.tolist(), strict=True):
                name, carrier = tensors.names[number], tensors.codecs[number][codec]
                if carrier != _RAW:
                    if (name, carrier) not in known:
                        return None
                    total += known[name, carrier]
        return total


def whole_on(weighing: Weighing, tier: int, codecs: NDArray[np.int64]) -> Placement:
    """Return the placement of everything on one tier."""
    return Placement(np.full(weighing.flow.unit_count, tier, dtype=np.int64), codecs)


def no_codecs(weighing: Weighing) -> NDArray[np.int64]:
    """Return codecs of a placement that sends nothing."""
    shape = (len(weighing.situation.links), weighing.flow.tensor_count)
    return np.full(shape, NO_CODEC, dtype=np.int64)


def _total(metrics: Iterable[Metric]) -> Metric:
    first, *rest = metrics
    for metric in rest:
        first = first.plus(metric)
    return first
