"""Legal cuts of a graph and the tensors that cross them. Needs onnx (through the graph)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from profiler.graph.graph import Graph, Unit
from profiler.graph.observation import ObservedTensor
from protocol.limits import Limits
from splitter.errors import CutError

DEVICE_ONLY = "device"
CLOUD_ONLY = "cloud"


@dataclass(frozen=True)
class Cut:
    """Which units stay on the device, and what crosses.

    Attributes:
        id: ``device``, ``cloud``, or ``cut-`` and a digest of the device's node names.
        units: Positions of the units on the device, closed under "needs".
        frontier: Tensors made on the device, or fed, that the cloud needs; each crosses once.
        results: Outputs of the model that the cloud makes.
        kept: Outputs of the model that the device makes.
    """

    id: str
    units: frozenset[int]
    frontier: tuple[str, ...]
    results: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class CutSpace:
    """All legal cuts of one graph.

    Attributes:
        graph: The graph.
        units: Its units in topological order.
        unsendable: Tensors that no message carries: sequences, optionals, strings, exotic floats,
            and what is above the limits of a message.
    """

    graph: Graph
    units: tuple[Unit, ...]
    unsendable: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, graph: Graph, units: tuple[Unit, ...], tensors: Mapping[str, ObservedTensor]
    ) -> CutSpace:
        """Return the cuts that an observation, and what a message may hold, allow."""
        limits = Limits()
        unsendable = frozenset(
            name
            for name, tensor in tensors.items()
            if not tensor.sendable
            or tensor.raw_bytes > limits.tensor_bytes
            or len(tensor.shape) > limits.rank
            or len(name) > limits.name_characters
        )
        return cls(graph, units, unsendable)

    @cached_property
    def maker(self) -> dict[str, int]:
        """Unit that makes each tensor that can cross."""
        return {name: unit.index for unit in self.units for name in unit.outputs}

    @cached_property
    def unit_of(self) -> dict[str, int]:
        """Unit that holds each node."""
        return {name: unit.index for unit in self.units for name in unit.nodes}

    @cached_property
    def needs(self) -> tuple[frozenset[int], ...]:
        """Units whose outputs each unit reads."""
        return tuple(
            frozenset(self.maker[name] for name in unit.inputs if name in self.maker)
            for unit in self.units
        )

    @cached_property
    def readers(self) -> dict[str, tuple[int, ...]]:
        """Units that read each tensor."""
        readers: dict[str, list[int]] = {}
        for unit in self.units:
            for name in unit.inputs:
                readers.setdefault(name, []).append(unit.index)
        return {name: tuple(units) for name, units in readers.items()}

    def frontier(self, units: frozenset[int]) -> tuple[str, ...]:
        """Return the tensors that cross when these units are on the device, in name order."""
        return tuple(
            sorted(
                {
                    name
                    for unit in self.units
                    if unit.index not in units
                    for name in unit.inputs
                    if name not in self.maker or self.maker[name] in units
                }
            )
        )

    def cut(self, units: Iterable[int]) -> Cut:
        """Return the cut that leaves these units on the device.

        Raises:
            CutError: A unit needs one that is not there, or what crosses cannot be sent.
        """
        device = frozenset(units)
        for index in device:
            missing = self.needs[index] - device
            if missing:
                raise CutError(
                    f"node {self.units[index].name!r} cannot stay on the device: it needs "
                    f"{self.units[min(missing)].name!r}, which is in the cloud"
                )
        cut = self._cut(device)
        for name in (*cut.frontier, *cut.results):
            if name in self.unsendable:
                raise CutError(f"tensor {name[:80]!r} cannot cross a cut: no message carries it")
        return cut

    def _cut(self, device: frozenset[int]) -> Cut:
        results = tuple(
            name for name in self.graph.outputs if self.maker.get(name, -1) not in {-1, *device}
        )
        kept = tuple(name for name in self.graph.outputs if name not in results)
        return Cut(self._id(device), device, self.frontier(device), results, kept)

    def _id(self, device: frozenset[int]) -> str:
        if len(device) == len(self.units):
            return DEVICE_ONLY
        if not device:
            return CLOUD_ONLY
        names = "\0".join(name for index in sorted(device) for name in self.units[index].nodes)
        return f"cut-{hashlib.sha256(names.encode()).hexdigest()[:8]}"

    def legal(self, units: frozenset[int]) -> Cut | None:
        """Return the cut, or ``None`` where something that cannot be sent would cross."""
        cut = self._cut(units)
        crossing = (*cut.frontier, *cut.results)
        many = max(len(cut.frontier), len(cut.results)) > Limits().tensors
        return None if many or self.unsendable.intersection(crossing) else cut

    def prefixes(self) -> Iterator[Cut]:
        """Yield the legal cuts after each unit in topological order, from none to all."""
        for end in range(len(self.units) + 1):
            cut = self.legal(frozenset(range(end)))
            if cut is not None:
                yield cut

    def all_cuts(self) -> Iterator[Cut]:
        """Yield every legal cut. There may be exponentially many; meant for small graphs."""
        pending: list[tuple[int, frozenset[int]]] = [(0, frozenset())]
        while pending:
            position, chosen = pending.pop()
            if position == len(self.units):
                cut = self.legal(chosen)
                if cut is not None:
                    yield cut
                continue
            pending.append((position + 1, chosen))
            if self.needs[position] <= chosen:
                pending.append((position + 1, chosen | {position}))

    def sample(self, count: int, seed: int) -> list[Cut]:
        """Return up to ``count`` different legal cuts: prefixes of random topological orders."""
        source = random.Random(seed)  # noqa: S311 (samples need no secrecy)
        found: dict[str, Cut] = {}
        for _ in range(20 * count):
            if len(found) == count:
                break
            order = self._random_order(source)
            cut = self.legal(frozenset(order[: source.randint(0, len(order))]))
            if cut is not None:
                found.setdefault(cut.id, cut)
        return list(found.values())

    def _random_order(self, source: random.Random) -> Sequence[int]:
        waiting = [len(needs) for needs in self.needs]
        after: list[list[int]] = [[] for _ in self.units]
        for index, needs in enumerate(self.needs):
            for need in needs:
                after[need].append(index)
        ready = [index for index, count in enumerate(waiting) if not count]
        order = []
        while ready:
            index = ready.pop(source.randrange(len(ready)))
            order.append(index)
            for following in after[index]:
                waiting[following] -= 1
                if not waiting[following]:
                    ready.append(following)
        return order
