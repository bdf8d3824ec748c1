"""What units, tensors and links cost in a situation, as numbers for the solver. Needs numpy.

Every part of a frame's time is a metric of its own; latency, energy, money and the stages of
a pipeline are sums of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from profiler.energy import DevicePower
from profiler.profile import Profile
from protocol.codecs import RawCodec
from splitter.errors import PlanError
from splitter.optimise.dataflow import FED, Dataflow
from splitter.optimise.problem import Costs, Metric
from splitter.situation import Situation
from splitter.tensors import Tensors, codec_speed, tensors_of

# Bytes around the payloads: the request's frames and header, and what each tensor adds to it,
# as protocol.message_bytes counts them; rounded up.
REQUEST_BYTES = 64
TENSOR_BYTES = 96
_HOUR_MS = 3.6e6


class Pricing:
    """Costs of units and tensors in one situation.

    Args:
        situation: The machines, the links, and what was seen of the model.

    Raises:
        PlanError: A profile does not know a codec.
    """

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        space = situation.space
        made = [name for name in space.graph.outputs if name in space.maker]
        names = tuple(dict.fromkeys((*space.readers, *made)))
        number = {name: place for place, name in enumerate(names)}
        self.number: Mapping[str, int] = number
        self.flow = Dataflow.of(
            unit_count=len(space.units),
            makers=[space.maker.get(name, FED) for name in names],
            readers=[space.readers.get(name, ()) for name in names],
            results=[number[name] for name in made],
        )
        self.tensors: Tensors = tensors_of(situation, names)
        self._tiers, self._links = len(situation.profiles), len(situation.links)

    def _metric(
        self,
        *,
        units: Mapping[int, Costs] | None = None,
        tensors: Mapping[int, Costs] | None = None,
        results: Mapping[int, Costs] | None = None,
        tiers: Mapping[int, float] | None = None,
        links: Mapping[int, float] | None = None,
    ) -> Metric:
        """A metric from the parts that are not 0, by tier or link."""
        flow = self.flow
        metric = Metric(
            units=np.zeros((self._tiers, flow.unit_count)),
            tensors=np.zeros((self._links, *self.tensors.encoded_bytes.shape)),
            results=np.zeros((self._links, flow.tensor_count)),
            tiers=np.zeros(self._tiers),
            links=np.zeros(self._links),
        )
        for target, parts in (
            (metric.units, units),
            (metric.tensors, tensors),
            (metric.tiers, tiers),
            (metric.links, links),
        ):
            for place, costs in (parts or {}).items():
                target[place] = costs
        for place, costs in (results or {}).items():
            metric.results[place] = costs * flow.is_result
        return metric

    @cached_property
    def _unit_costs(self) -> list[Costs]:
        """What each unit costs on each tier."""
        units = self.situation.space.units
        return [
            np.array([profile.cost_of(unit.nodes) for unit in units])
            for profile in self.situation.profiles
        ]

    def runs_ms(self, tier: int) -> Metric:
        """Time of the model that a tier runs, with its share of what borders cost."""
        profile = self.situation.profiles[tier]
        made = np.where(self.flow.makers == FED, 0.0, self.tensors.raw_bytes)
        border = profile.border_ms_per_mb / 2e6 * made[:, None]
        ends = [link for link in (tier - 1, tier) if 0 <= link < self._links]
        return self._metric(
            units={tier: self._unit_costs[tier]},
            tensors=dict.fromkeys(ends, border),
            tiers={tier: profile.overhead_ms},
        )

    def encode_ms(self, link: int) -> Metric:
        """Time to encode what goes up over a link."""
        return self._metric(tensors={link: self._codec_ms(self.situation.profiles[link], up=True)})

    def decode_ms(self, link: int) -> Metric:
        """Time to decode what came up over a link."""
        profile = self.situation.profiles[link + 1]
        return self._metric(tensors={link: self._codec_ms(profile, up=False)})

    def up_bytes(self, link: int) -> Metric:
        """Bytes of the message that goes up over a link."""
        sent = self.tensors.encoded_bytes + TENSOR_BYTES
        return self._metric(tensors={link: sent}, links={link: REQUEST_BYTES})

    def down_bytes(self, link: int) -> Metric:
        """Bytes of the message that comes down over a link."""
        back = self.tensors.result_bytes + TENSOR_BYTES
        return self._metric(results={link: back}, links={link: REQUEST_BYTES})

    def result_codec_ms(self, link: int, *, up: bool) -> Metric:
        """Time to encode results above a link (``up``), or to decode them below it."""
        profile = self.situation.profiles[link + 1 if up else link]
        speed = codec_speed(profile, RawCodec().name)
        rate = speed.encode_mb_s if up else speed.decode_mb_s
        return self._metric(results={link: speed.fixed_ms + self.tensors.raw_bytes / (rate * 1e3)})

    def exchange_ms(self, link: int) -> float:
        """What an exchange of messages costs both ends of a link, besides the bytes.

        Each end does half of what its whole exchange over loopback takes.
        """
        lower, upper = self.situation.profiles[link : link + 2]
        return (lower.exchange_ms + upper.exchange_ms) / 2

    @cached_property
    def _carriers(self) -> tuple[list[str], NDArray[np.int64]]:
        """Names of the codecs that carry anything, and the number of each tensor's in them."""
        names = sorted({name for row in self.tensors.codecs for name in row})
        number = {name: place for place, name in enumerate(names)}
        rows = [[number[name] for name in row] for row in self.tensors.codecs]
        return names, np.array(rows, dtype=np.int64).reshape(self.tensors.encoded_bytes.shape)

    def _codec_ms(self, profile: Profile, *, up: bool) -> Costs:
        names, carriers = self._carriers
        speeds = [codec_speed(profile, name) for name in names]
        fixed = np.array([speed.fixed_ms for speed in speeds])
        rates = np.array([speed.encode_mb_s if up else speed.decode_mb_s for speed in speeds])
        times: Costs = fixed[carriers] + self.tensors.coded_bytes * 1e-3 / rates[carriers]
        return times

    @property
    def load_is_given(self) -> bool:
        """Whether the cloud's load is a number, not what the devices' own frames make it."""
        return self.situation.wishes.load.fps is None

    @cached_property
    def load_multiplier(self) -> float:
        """How much longer the cloud takes because others use it, apart from these devices."""
        factor = self.situation.wishes.load.factor
        return 1 + factor / (2 * (1 - factor))

    @cached_property
    def cloud_ms(self) -> Metric:
        """Time of the model that the cloud runs."""
        return self.runs_ms(self._tiers - 1)

    @cached_property
    def device_ms(self) -> Metric:
        """Time of the model that the device runs."""
        return self.runs_ms(0)

    @cached_property
    def latency_ms(self) -> Metric:
        """All of a frame's time; what it waits for the load of its own fleet is not in it."""
        waiting = self.load_multiplier if self.load_is_given else 1.0
        total = self.device_ms.plus(self.cloud_ms.weighted(waiting))
        for tier in range(1, self._tiers - 1):
            total = total.plus(self.runs_ms(tier))
        for link in range(self._links):
            total = total.plus(self.link_ms(link))
        return total

    def link_ms(self, link: int) -> Metric:
        """Time between two neighbouring tiers: codecs, bytes both ways, round trip, exchange."""
        between = self.situation.links[link]
        up = self.up_bytes(link).weighted(8e-3 / between.uplink_mbps)
        down = self.down_bytes(link).weighted(8e-3 / between.downlink_mbps)
        fixed_ms = between.uplink_ms(REQUEST_BYTES) + between.downlink_ms(REQUEST_BYTES)
        fixed_ms += self.exchange_ms(link)
        total = self.encode_ms(link).plus(self.decode_ms(link)).plus(up).plus(down)
        total = total.plus(self.result_codec_ms(link, up=True))
        total = total.plus(self.result_codec_ms(link, up=False))
        total.links[link] = fixed_ms  # the empty messages' bytes are in these times
        return total

    def stages(self) -> dict[str, Metric]:
        """The stages of a pipeline, each busy for so many ms with one frame.

        A round trip delays frames and keeps nobody busy. A worker that several devices share is
        busy with the frames of all of them.
        """
        names, load = self.situation.tier_names, self.situation.wishes.load
        found = {}
        for tier, name in enumerate(names):
            busy = self.runs_ms(tier)
            if tier < self._links:
                busy = busy.plus(self.encode_ms(tier)).plus(self.result_codec_ms(tier, up=False))
            if tier > 0:
                busy = busy.plus(self.decode_ms(tier - 1))
                busy = busy.plus(self.result_codec_ms(tier - 1, up=True))
            last = tier == len(names) - 1
            found[f"stage {name}"] = busy.weighted(load.devices / load.workers if last else 1.0)
        for link, between in enumerate(self.situation.links):
            up = self.up_bytes(link).weighted(8e-3 / between.uplink_mbps)
            down = self.down_bytes(link).weighted(8e-3 / between.downlink_mbps)
            name = "link" if link == 0 else f"{names[link]} link"
            found[f"stage {name} up"], found[f"stage {name} down"] = up, down
        return found

    def message_tensors(self) -> dict[str, Metric]:
        """How many tensors each message carries."""
        ones = np.ones(self.tensors.encoded_bytes.shape)
        found = {}
        for link in range(self._links):
            found[f"tensors over link {link}"] = self._metric(tensors={link: ones})
            found[f"results over link {link}"] = self._metric(results={link: ones[:, 0]})
        return found

    def energy_mj(self) -> Metric:
        """What a frame takes from the device; see :mod:`profiler.energy`.

        Raises:
            PlanError: The power of the device or of its radio is not known.
        """
        power, radio = device_power(self.situation.device), self.situation.radio
        if power is None:
            raise PlanError(
                f"nobody knows what {self.situation.device.label!r} draws, so energy cannot be "
                "planned with; name a preset whose power is known, or profile a machine with a "
                "power counter"
            )
        if radio is None:
            raise PlanError(
                "nobody knows what the device's radio draws, so energy cannot be planned with; "
                "name a link preset that has a radio, such as wifi, lte or 5g"
            )
        link, fps = self.situation.link, self.situation.wishes.load.fps
        busy = self.device_ms.plus(self.encode_ms(0))
        sending = radio.sending_mw(link.uplink_mbps) * 8e-6 / link.uplink_mbps
        receiving = radio.receiving_mw(link.downlink_mbps) * 8e-6 / link.downlink_mbps
        total = busy.weighted(power.busy_w - power.idle_w)
        total = total.plus(self.up_bytes(0).weighted(sending))
        total = total.plus(self.down_bytes(0).weighted(receiving))
        awake_ms = radio.tail_ms if fps is None else min(radio.tail_ms, 1000 / fps)
        total.links[0] += radio.tail_mw * awake_ms / 1e3
        if fps is None:
            return total.plus(self.latency_ms.weighted(power.idle_w))
        total.units[:, 0] += power.idle_w * 1000 / fps  # whatever runs where, it waits for the next
        return total

    def usd_per_1000(self) -> Metric:
        """What 1,000 frames cost in the cloud and on the first link.

        Raises:
            PlanError: There are no prices.
        """
        prices = self.situation.wishes.prices
        if prices is None:
            raise PlanError(
                "money cannot be planned with unless a price is known; give --cloud-usd-per-hour"
            )
        total = self.cloud_ms.weighted(prices.cloud_usd_per_hour * 1000 / _HOUR_MS)
        moved = self.up_bytes(0).plus(self.down_bytes(0))
        return total.plus(moved.weighted(prices.link_usd_per_gb * 1000 / 1e9))

    def kl_nats(self) -> Metric:
        """Loss of the answer, 0 where none was measured; losses of several tensors add up."""
        known = self.situation.fidelity_kl
        losses = np.array(
            [
                [known.get((name, codec), 0.0) for codec in row]
                for name, row in zip(self.tensors.names, self.tensors.codecs, strict=True)
            ]
        ).reshape(self.tensors.encoded_bytes.shape)
        return self._metric(tensors=dict.fromkeys(range(self._links), losses))


def device_power(device: Profile) -> DevicePower | None:
    """Return what a device draws, if that is known."""
    if device.idle_w is None or device.busy_w is None:
        return None
    return DevicePower(device.idle_w, device.busy_w)
