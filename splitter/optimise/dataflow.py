"""What runs and what flows, by number: names cannot matter to a solver that never sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FED = -1  # the maker of a tensor that the device is fed


@dataclass(frozen=True)
class Dataflow:
    """Units in topological order and the tensors between them.

    Attributes:
        unit_count: How many units there are.
        makers: Unit that makes each tensor, or :data:`FED`.
        readers: Units that read each tensor, each once.
        results: Tensors that units make and that the device wants in the end.
    """

    unit_count: int
    makers: tuple[int, ...]
    readers: tuple[tuple[int, ...], ...]
    results: frozenset[int]

    @property
    def tensor_count(self) -> int:
        """How many tensors there are."""
        return len(self.makers)

    @cached_property
    def maker_array(self) -> NDArray[np.int64]:
        """``makers`` as an array."""
        return np.array(self.makers, dtype=np.int64)

    @cached_property
    def reads(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pairs of tensor and reader: two arrays of one length, ordered by tensor."""
        counts = [len(units) for units in self.readers]
        tensors = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        flat = [unit for units in self.readers for unit in units]
        return tensors, np.array(flat, dtype=np.int64)

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
        makers = self.maker_array[tensors]
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
