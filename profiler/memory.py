"""Predict the peak memory of a whole model, a head or a tail. Light.

What ONNX Runtime adds to a process that loads a model and runs it again and again:

    total = overhead + weights + max(loading, activations)

``overhead`` is the runtime's own code and tables, and what it keeps of each node. ``weights``
counts each weight once: it stays a page of the mapped file, or is copied into the layout of a
matrix product and its page given back, or is rewritten by the optimiser, which leaves holes in the
heap. ``loading`` is what the largest weight takes on top while it is turned around. ``activations``
is what the arena ever handed out: a first run takes buffers one by one, later ones take one block
for all of them, and the arena gives nothing back (see :mod:`profiler.arena`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profiler.arena import Arena, Block
from profiler.liveness import Buffer, Step, buffers, packed_bytes, peak_bytes

if TYPE_CHECKING:
    from profiler.engine import EngineOptions
    from profiler.graph.runtime import HeldWeight, RuntimeGraph

__all__ = ["FIXED_BYTES", "NODE_BYTES", "PeakMemory", "predict_peak_memory"]

# Measured with ONNX Runtime 1.32 and glibc 2.36 on x86-64, see docs/decisions/0005.
# The first session of a process makes 9 to 10 MB of the library's pages resident.
FIXED_BYTES = 11_300_000
NODE_BYTES = 7_000
# Of the temporary copies that a rewritten weight needs, half are never filled again.
_HOLES = 0.5
# While a weight is rewritten, its mapped pages and another copy or two are there as well.
_TURNING = 2.5


@dataclass(frozen=True)
class PeakMemory:
    """What loading and running a model adds to a process at most.

    Attributes:
        overhead_bytes: The runtime itself, in the first session of a process.
        weights_bytes: What the weights take once the model is loaded.
        loading_bytes: What loading takes on top for a moment, before there are activations.
        activations_bytes: What the tensors of a run take, and what they leave in the arena.
    """

    overhead_bytes: int
    weights_bytes: int
    loading_bytes: int
    activations_bytes: int

    @property
    def total_bytes(self) -> int:
        """The peak."""
        brief = max(self.loading_bytes, self.activations_bytes)
        return self.overhead_bytes + self.weights_bytes + brief


def predict_peak_memory(
    runtime: RuntimeGraph, units: Collection[int], options: EngineOptions
) -> PeakMemory:
    """Predict the peak memory of a model of just these units; nothing at all where there are none.

    Args:
        runtime: What runs when the whole model runs.
        units: Positions of the units: those of a cut for its head, the others for its tail.
        options: How the model is run; only ``arena`` matters.
    """
    if not units:
        return PeakMemory(0, 0, 0, 0)
    part = runtime.part(units)
    held = [runtime.weights[name] for name in part.weights]
    taken = buffers(part.steps, part.tensor_bytes, part.results, runtime.fixed_shapes)
    resident = _with_arena if options.arena else _without_arena
    return PeakMemory(
        overhead_bytes=FIXED_BYTES + NODE_BYTES * part.nodes,
        weights_bytes=sum(_held_bytes(weight) for weight in held),
        loading_bytes=max((_loading_bytes(weight) for weight in held), default=0),
        activations_bytes=resident(part.steps, taken),
    )


def _held_bytes(weight: HeldWeight) -> int:
    """A weight and the holes that rewriting it leaves: each earlier version, and half a copy."""
    if not weight.rewrites:
        return weight.size_bytes
    return weight.size_bytes + round(weight.size_bytes * (weight.rewrites - 1 + _HOLES))


def _loading_bytes(weight: HeldWeight) -> int:
    """What a weight takes on top while it is copied: its page, or several copies."""
    return round(weight.size_bytes * _TURNING) if weight.rewrites else weight.size_bytes


def _with_arena(steps: Sequence[Step], taken: Sequence[Buffer]) -> int:
    """What two runs leave resident in an arena; later ones repeat the second."""
    arena = Arena()
    ending: dict[int, list[Block]] = {}
    buffers_left = iter(taken)
    following = next(buffers_left, None)
    for place, step in enumerate(steps):
        while following is not None and following.first == place:
            ending.setdefault(following.last, []).append(arena.allocate(following.size_bytes))
            following = next(buffers_left, None)
        _work(arena, step)
        for block in ending.pop(place, ()):
            arena.release(block)
    for block in ending.pop(len(steps), ()):
        arena.release(block)
    inner, results = _split(steps, taken)
    for size_bytes in (packed_bytes(inner), *(buffer.size_bytes for buffer in results)):
        arena.allocate(size_bytes)
    for step in steps:
        _work(arena, step)
    return arena.touched_bytes


def _work(arena: Arena, step: Step) -> None:
    """Take a step's working memory and give it back."""
    for block in [arena.allocate(size_bytes) for size_bytes in step.scratch_bytes]:
        arena.release(block)


def _without_arena(steps: Sequence[Step], taken: Sequence[Buffer]) -> int:
    """The buffers of the first run stay in the heap in pieces; the block fits into none of them."""
    inner, _ = _split(steps, taken)
    scratch_bytes = max((sum(step.scratch_bytes) for step in steps), default=0)
    return peak_bytes(taken) + packed_bytes(inner) + scratch_bytes


def _split(steps: Sequence[Step], taken: Sequence[Buffer]) -> tuple[list[Buffer], list[Buffer]]:
    """Buffers that the block of later runs holds, and those of the results, which it does not."""
    inner = [buffer for buffer in taken if buffer.last < len(steps)]
    return inner, [buffer for buffer in taken if buffer.last == len(steps)]
