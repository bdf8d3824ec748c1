"""What runs and what flows, by number: names cannot matter to a solver that never sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
FED = -1  # the maker of a tensor that the device is fed


@dataclass(frozen=True, eq=False)
class Dataflow:
    """Units in topological order and the tensors between them.

    Attributes:
        unit_count: How many units there are.
        makers: Unit that makes each tensor, or :data:`FED`.
        reads: All pairs of a tensor and a unit that reads it, ordered by tensor, each once: two
            arrays of one length.
        results: Numbers of the tensors that units make and that the device wants in the end.
    """

    unit_count: int
    makers: Numbers
    reads: tuple[Numbers, Numbers]
    results: Numbers

    @classmethod
    def of(
        cls,
        unit_count: int,
        makers: Sequence[int],
        readers: Sequence[Sequence[int]],
        results: Iterable[int],
    ) -> Dataflow:
        """Return a dataflow from lists: the maker and the readers of each tensor."""
        counts = [len(units) for units in readers]
        flat = [unit for units in readers for unit in units]
        tensors = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        return cls(
            unit_count,
            np.array(makers, dtype=np.int64),
            (tensors, np.array(flat, dtype=np.int64)),
            np.array(sorted(results), dtype=np.int64),
        )

    @property
    def tensor_count(self) -> int:
        """How many tensors there are."""
        return len(self.makers)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Units that read each tensor."""
        tensors, units = self.reads
        ends = np.searchsorted(tensors, np.arange(self.tensor_count + 1)).tolist()
        flat = units.tolist()
        return tuple(tuple(flat[start:end]) for start, end in pairwise(ends))

    @cached_property
    def is_result(self) -> NDArray[np.bool_]:
        """Whether each tensor is a result."""
        mask = np.zeros(self.tensor_count, dtype=bool)
        mask[self.results] = True
        return mask

    @cached_property
    def last_readers(self) -> NDArray[np.int64]:
        """The last unit that reads each tensor; -1 where none does."""
        last = np.full(self.tensor_count, -1, dtype=np.int64)
        tensors, readers = self.reads
        np.maximum.at(last, tensors, readers)
        return last

    @cached_property
    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pairs of a unit and one that reads what it makes, each pair once."""
        tensors, readers = self.reads
        makers = self.makers[tensors]
        made = makers != FED
        pairs = np.unique(makers[made] * self.unit_count + readers[made])
        return pairs // self.unit_count, pairs % self.unit_count

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """Units that need no other."""
        return np.setdiff1d(np.arange(self.unit_count), self.edges[1])

    @cached_property
    def sinks(self) -> NDArray[np.int64]:
        """Units that no other needs."""
        return np.setdiff1d(np.arange(self.unit_count), self.edges[0])

    def placement_is_legal(self, tiers: Sequence[int] | NDArray[np.integer]) -> bool:
        """Whether no unit is on a lower tier than one that it needs."""
        placed = np.asarray(tiers)
        makers, readers = self.edges
        return bool(np.all(placed[makers] <= placed[readers]))
