from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.emulator import LinkSettingsError
from protocol.emulator.corruption import Corruption


@given(st.lists(st.binary(max_size=300)), st.integers(1, 200), st.integers(0, 2**32))
def test_damage_is_one_bit_a_byte_and_counted(
    pieces: list[bytes], every_bytes: int, seed: int
) -> None:
    corruption = Corruption(every_bytes, seed)
    for piece in pieces:
        damaged, count = corruption.apply(piece)
        assert len(damaged) == len(piece)
        flips = [(a ^ b).bit_count() for a, b in zip(piece, damaged, strict=True)]
        assert set(flips) <= {0, 1}
        assert sum(flips) == count


@given(st.binary(min_size=1, max_size=3000), st.data())
def test_damage_does_not_depend_on_how_a_stream_is_cut(stream: bytes, data: st.DataObject) -> None:
    border = data.draw(st.integers(0, len(stream)))
    whole, _ = Corruption(20, 7).apply(stream)
    parts = Corruption(20, 7)
    assert parts.apply(stream[:border])[0] + parts.apply(stream[border:])[0] == whole


def test_about_one_byte_of_every_n_is_damaged() -> None:
    _, count = Corruption(100, 3).apply(bytes(1_000_000))
    assert 9_500 < count < 10_500


def test_every_byte_can_be_damaged() -> None:
    damaged, count = Corruption(1, 0).apply(bytes(50))
    assert count == 50
    assert 0 not in damaged


def test_less_than_one_byte_is_refused() -> None:
    with pytest.raises(LinkSettingsError, match="not of 0"):
        Corruption(0, 0)
