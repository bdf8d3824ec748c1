"""How ONNX Runtime's arena grows: its best-fit allocator with coalescing, replayed. Light.

Follows ``core/framework/bfc_arena.cc`` of ONNX Runtime with its defaults on a processor: the first
region has 1 MiB, each later one is twice as large or the next power of two that fits, nothing is
given back. A region is asked of the system whole, but becomes resident only where it is written;
so what counts is which of its bytes were ever handed out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Arena", "Block"]

_UNIT_BYTES = 256
_FIRST_REGION_BYTES = 1 << 20
_MOST_WASTED_BYTES = 128 << 20


@dataclass(frozen=True, order=True)
class Block:
    """A piece of a region.

    Attributes:
        region: Which region.
        start: Its first byte.
        end: The byte after its last.
    """

    region: int
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Its length."""
        return self.end - self.start


@dataclass
class Arena:
    """One arena; empty at first.

    Attributes:
        reserved_bytes: What all regions take of the address space.
    """

    reserved_bytes: int = 0
    _next_region_bytes: int = _FIRST_REGION_BYTES
    _regions: int = 0
    _free: set[Block] = field(default_factory=set)
    _touched: list[Block] = field(default_factory=list)

    def allocate(self, size_bytes: int) -> Block:
        """Hand out the smallest free block that is large enough, split if twice as large."""
        wanted = -(-max(size_bytes, 1) // _UNIT_BYTES) * _UNIT_BYTES
        fitting = [block for block in self._free if block.size_bytes >= wanted]
        chosen = min(
            fitting, key=lambda block: (block.size_bytes, -block.region, block.start), default=None
        )
        if chosen is None:
            chosen = self._extend(wanted)
        else:
            self._free.remove(chosen)
        spare = chosen.size_bytes - wanted
        if spare >= min(wanted, _MOST_WASTED_BYTES):
            middle = chosen.start + wanted
            self._free.add(Block(chosen.region, middle, chosen.end))
            chosen = Block(chosen.region, chosen.start, middle)
        self._touched.append(Block(chosen.region, chosen.start, chosen.start + wanted))
        return chosen

    def release(self, block: Block) -> None:
        """Take a block back and join it with its free neighbours."""
        start, end = block.start, block.end
        for other in [free for free in self._free if free.region == block.region]:
            if other.end == start or other.start == end:
                self._free.remove(other)
                start, end = min(start, other.start), max(end, other.end)
        self._free.add(Block(block.region, start, end))

    @property
    def touched_bytes(self) -> int:
        """Bytes that were part of some block, each counted once: what stays resident."""
        total, region, reached = 0, -1, 0
        for block in sorted(self._touched):
            if block.region != region:
                region, reached = block.region, 0
            total += max(0, block.end - max(block.start, reached))
            reached = max(reached, block.end)
        return total

    def _extend(self, wanted: int) -> Block:
        size = self._next_region_bytes
        while size < wanted:
            size *= 2
        # Only a region that needed no doubling for its first block doubles the next one.
        grew = size > self._next_region_bytes
        self._next_region_bytes = size if grew else 2 * size
        self.reserved_bytes += size
        self._regions += 1
        return Block(self._regions, 0, size)
