"""The arena: its rules by hand, its invariants by random use."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from profiler.arena import Arena

KIB = 1 << 10
MIB = 1 << 20


def test_only_what_was_handed_out_is_touched() -> None:
    arena = Arena()
    block = arena.allocate(300)
    assert (arena.touched_bytes, arena.reserved_bytes) == (512, MIB)
    arena.release(block)
    arena.allocate(100)
    assert arena.touched_bytes == 512


def test_regions_double() -> None:
    arena = Arena()
    for _ in range(4):
        arena.allocate(MIB)
    # 1 MiB is full; 2 MiB hold two; then 4 MiB.
    assert arena.reserved_bytes == 7 * MIB


def test_a_large_block_makes_a_region_that_fits_it() -> None:
    arena = Arena()
    arena.allocate(5 * MIB)
    assert arena.reserved_bytes == 8 * MIB
    # It grew to fit, so the next one is no larger.
    arena.allocate(8 * MIB)
    assert arena.reserved_bytes == 16 * MIB


def test_a_chunk_less_than_twice_as_large_is_not_split() -> None:
    arena = Arena()
    arena.allocate(600 * KIB)
    arena.allocate(200 * KIB)
    assert arena.reserved_bytes == 3 * MIB
    assert arena.touched_bytes == 800 * KIB


def test_the_tightest_chunk_is_taken_and_neighbours_are_joined() -> None:
    arena = Arena()
    blocks = [arena.allocate(size * KIB) for size in (100, 10, 40, 10, 200)]
    arena.release(blocks[0])
    arena.release(blocks[2])
    assert arena.allocate(30 * KIB).start == blocks[2].start
    arena.release(blocks[1])
    assert arena.allocate(110 * KIB).start == 0


@given(st.lists(st.tuples(st.integers(1, 3 * MIB), st.booleans(), st.integers(0, 50)), max_size=40))
def test_blocks_never_overlap_and_everything_is_joined_again(
    uses: list[tuple[int, bool, int]],
) -> None:
    arena = Arena()
    held = []
    most = 0
    for size, gives_back, which in uses:
        if gives_back and held:
            arena.release(held.pop(which % len(held)))
        held.append(arena.allocate(size))
        assert held[-1].size_bytes >= size
        ordered = sorted(held)
        for one, other in pairwise(ordered):
            assert one.region != other.region or one.end <= other.start
        most = max(most, sum(block.size_bytes for block in held))
    assert arena.touched_bytes <= arena.reserved_bytes
    for block in held:
        arena.release(block)
    assert sum(block.size_bytes for block in arena._free) == arena.reserved_bytes
    assert len(arena._free) == arena._regions
