"""Profiles: what every layer of one model costs on one machine, measured or predicted.

Light.

How costs are defined (all times in ms, for one run with the profile's input shapes):

    whole = overhead + sum(latency + layout of each layer) + unattributed

``overhead`` is paid by every run, however small the model, with caches as cold as other work
leaves them. ``layout`` is the time of kernels that only move a tensor between memory layouts; it
belongs to no layer, but stays on the same side of a cut as the layer it is noted at (a tensor is
brought back to the plain layout by its maker, since only plain tensors cross, and into the blocked
layout by its reader). ``unattributed`` is the time of kernels that belong to no known node; it is
spread over the layers in proportion. So

    cost_of(nodes) = factor * sum((latency + layout of layer) * share of its nodes in the set)
    factor = (whole - overhead) / sum(latency + layout)

and costs of disjoint sets add up to ``whole - overhead`` for all nodes together. A head or a tail,
run as a model of its own, pays the overhead again, and something for each byte that it hands over
(fresh memory, a layout change that was not there before, data that has left the caches):

    run_ms(nodes, border_bytes) = overhead + cost_of(nodes) + border_ms(border_bytes)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from profiler.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from profiler.values import ModelIdentity, TensorSlot

__all__ = ["SCHEMA", "CodecSpeed", "EngineUsed", "LayerCost", "Profile", "ProfileKind"]

SCHEMA = 1
ProfileKind = Literal["measured", "predicted"]


@dataclass(frozen=True)
class LayerCost:
    """What one layer costs: nodes that the runtime executes together.

    Attributes:
        name: The layer's name.
        nodes: Names of the nodes it covers, as in the normalised graph.
        latency_ms: Typical time of its kernels.
        spread_ms: Median distance from that median; 0 where predicted.
        kind: What it does, for people: an operator or an operator class.
        output_bytes: Size of the tensors it hands on, uncompressed.
        layout_ms: Typical time of the layout changes noted at it.
    """

    name: str
    nodes: tuple[str, ...]
    latency_ms: float
    spread_ms: float
    kind: str = ""
    output_bytes: int = 0
    layout_ms: float = 0.0


@dataclass(frozen=True)
class CodecSpeed:
    """How fast one tensor codec is.

    Attributes:
        encode_mb_s: 10^6 bytes of the uncompressed tensor encoded a second.
        decode_mb_s: The same for decoding.
        fixed_ms: What each call costs on top, either way.
    """

    encode_mb_s: float
    decode_mb_s: float
    fixed_ms: float

    def encode_ms(self, raw_bytes: int) -> float:
        """Time to encode a tensor of this uncompressed size."""
        return self.fixed_ms + raw_bytes / (self.encode_mb_s * 1e3)

    def decode_ms(self, raw_bytes: int) -> float:
        """Time to decode a tensor of this uncompressed size."""
        return self.fixed_ms + raw_bytes / (self.decode_mb_s * 1e3)


@dataclass(frozen=True)
class EngineUsed:
    """What ran the model, or what a prediction stands for.

    Attributes:
        name: Such as ``onnxruntime``.
        version: Its version; empty where predicted.
        provider: The execution provider.
        threads: Threads inside one operator; 0 where that is unknown.
        precision: Of the arithmetic, such as ``float32``.
    """

    name: str
    version: str
    provider: str
    threads: int
    precision: str


@dataclass(frozen=True)
class Profile:
    """What every layer of one model costs on one machine; see the module for the definitions.

    Attributes:
        label: The device, for people.
        kind: Whether it was measured here or predicted from a preset.
        model: The model it belongs to.
        inputs: The concrete inputs it holds for.
        engine: What ran it.
        machine: What ``describe_machine`` said, or the preset's description.
        whole_ms: Median time of a whole run.
        whole_spread_ms: Median distance from that median.
        overhead_ms: What every run costs, however small the model.
        border_ms_per_mb: What a cut costs for each 10^6 bytes of tensors that cross it, on this
            machine alone, if head and tail both ran here.
        unattributed_ms: Time in kernels that belong to no known node.
        layers: The costs, in execution order; no node is in two of them.
        exchange_ms: What asking a worker costs over loopback besides model and codecs, both sides
            together: frames, sockets, hand-overs between threads.
        peak_memory_bytes: What loading and running the model added to the process; None if unknown.
        codecs: Speed of each codec by its name.
        uncertainty: Relative band around every time: 0.1 means plus or minus 10 %.
        notes: What a reader should know, one sentence each.
        idle_w: What the machine draws at rest; None if unknown.
        busy_w: What it draws while it runs the model; None if unknown.
    """

    label: str
    kind: ProfileKind
    model: ModelIdentity
    inputs: tuple[TensorSlot, ...]
    engine: EngineUsed
    machine: Mapping[str, Any]
    whole_ms: float
    whole_spread_ms: float
    overhead_ms: float
    border_ms_per_mb: float
    unattributed_ms: float
    layers: tuple[LayerCost, ...]
    exchange_ms: float
    peak_memory_bytes: int | None
    codecs: Mapping[str, CodecSpeed]
    uncertainty: float
    notes: tuple[str, ...] = ()
    idle_w: float | None = None
    busy_w: float | None = None

    @cached_property
    def _node_ms(self) -> dict[str, float]:
        """Cost of each node, such that all of them add up to the whole without the overhead."""
        layers_ms = sum(layer.latency_ms + layer.layout_ms for layer in self.layers)
        factor = (self.whole_ms - self.overhead_ms) / layers_ms if layers_ms else 0.0
        return {
            node: factor * (layer.latency_ms + layer.layout_ms) / len(layer.nodes)
            for layer in self.layers
            for node in layer.nodes
        }

    def cost_of(self, nodes: Collection[str]) -> float:
        """Time these nodes add to a run, in ms. Nodes that no layer covers cost nothing."""
        return sum(self._node_ms.get(node, 0.0) for node in set(nodes))

    def border_ms(self, border_bytes: int) -> float:
        """Time one side of a cut adds for handing over, or taking in, tensors of this size."""
        return border_bytes / 1e6 * self.border_ms_per_mb / 2

    def run_ms(self, nodes: Collection[str], border_bytes: int = 0) -> float:
        """Time that a model of just these nodes takes; nothing at all where there are none.

        Args:
            nodes: What it runs.
            border_bytes: Uncompressed size of the tensors that it hands over at a cut, or takes in.
        """
        if not nodes:
            return 0.0
        return self.overhead_ms + self.cost_of(nodes) + self.border_ms(border_bytes)

    @property
    def layout_ms(self) -> float:
        """Time in kernels that only change the memory layout."""
        return sum(layer.layout_ms for layer in self.layers)

    def scaled(self, factor: float, label: str) -> Profile:
        """Return the profile of a machine whose runtime is ``factor`` times as slow.

        Only the model's times change: an emulated device slows its engine, not codecs and sockets.

        Raises:
            ProfileError: The factor is not above 0.
        """
        if not (math.isfinite(factor) and factor > 0):
            raise ProfileError(f"cannot scale a profile by {factor}; give a factor above 0")
        layers = tuple(
            replace(
                layer,
                latency_ms=layer.latency_ms * factor,
                spread_ms=layer.spread_ms * factor,
                layout_ms=layer.layout_ms * factor,
            )
            for layer in self.layers
        )
        return replace(
            self,
            label=label,
            whole_ms=self.whole_ms * factor,
            whole_spread_ms=self.whole_spread_ms * factor,
            overhead_ms=self.overhead_ms * factor,
            border_ms_per_mb=self.border_ms_per_mb * factor,
            unattributed_ms=self.unattributed_ms * factor,
            layers=layers,
            notes=(*self.notes, f"Times of {self.label!r} multiplied by {factor:g}."),
        )

    def require(self, model: ModelIdentity, inputs: Collection[TensorSlot]) -> None:
        """Check that the profile is about this model, fed with these concrete inputs.

        Raises:
            ProfileError: It is about another model or other shapes.
        """
        if model.sha256 != self.model.sha256:
            raise ProfileError(
                f"the profile {self.label!r} is of {self.model.name} "
                f"(sha256 {self.model.sha256[:12]}...), not of {model.name} "
                f"({model.sha256[:12]}...); profile this model"
            )
        wanted = {slot.name: slot for slot in inputs}
        profiled = {slot.name: slot for slot in self.inputs}
        for name in sorted(wanted.keys() | profiled.keys()):
            if wanted.get(name) != profiled.get(name):
                raise ProfileError(
                    f"the profile {self.label!r} is for input {name!r} {_slot(profiled.get(name))},"
                    f" not {_slot(wanted.get(name))}; profile the model with that input"
                )

    def require_nodes(self, nodes: Collection[str]) -> None:
        """Check that each of these nodes has a cost: one without would count as free.

        Raises:
            ProfileError: Some have none.
        """
        missing = sorted(set(nodes) - self._node_ms.keys())
        if missing:
            raise ProfileError(
                f"the profile {self.label!r} has no cost for {len(missing)} of {len(nodes)} nodes, "
                f"such as {missing[0]!r}; profile the model again"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "schema": SCHEMA,
            "label": self.label,
            "kind": self.kind,
            "model": self.model.to_dict(),
            "inputs": [slot.to_dict() for slot in self.inputs],
            "engine": vars(self.engine).copy(),
            "machine": dict(self.machine),
            "whole_ms": self.whole_ms,
            "whole_spread_ms": self.whole_spread_ms,
            "overhead_ms": self.overhead_ms,
            "border_ms_per_mb": self.border_ms_per_mb,
            "unattributed_ms": self.unattributed_ms,
            "layers": [{**vars(layer), "nodes": list(layer.nodes)} for layer in self.layers],
            "exchange_ms": self.exchange_ms,
            "peak_memory_bytes": self.peak_memory_bytes,
            "codecs": {name: vars(speed).copy() for name, speed in self.codecs.items()},
            "uncertainty": self.uncertainty,
            "notes": list(self.notes),
            "idle_w": self.idle_w,
            "busy_w": self.busy_w,
        }


def _slot(slot: TensorSlot | None) -> str:
    return "absent" if slot is None else f"{slot.dtype} {list(slot.shape)}"
