"""The reply cache holds the newest answers, and never more bytes than it may."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cloud_worker._replies import ReplyCache, RequestKey
from cloud_worker._work import Failed
from protocol import FailureCode
from tests.cloud_worker.support import KEY

ENTRY_BYTES = 1024


def key(number: int) -> RequestKey:
    return RequestKey(b"i" * 16, KEY, number)


def text(number: int) -> Failed:
    return Failed(FailureCode.BAD_TENSOR, str(number))


@given(st.lists(st.integers(0, 5000), max_size=40), st.integers(1, 20_000))
def test_newest_answers_are_held_within_the_bound(sizes: list[int], limit: int) -> None:
    cache = ReplyCache(limit)
    fitting: list[tuple[int, int]] = []
    for number, size in enumerate(sizes):
        cache.keep(key(number), text(number), size)
        if size + ENTRY_BYTES <= limit:
            fitting.append((number, size + ENTRY_BYTES))
        assert cache.held_bytes <= limit
    held = [number for number, _ in fitting if cache.find(key(number)) == text(number)]
    assert len(cache) == len(held)
    newest = [number for number, _ in fitting][len(fitting) - len(held) :]
    assert held == newest
    if len(held) < len(fitting):
        # The one before the oldest that is held would not have fitted at some point.
        assert sum(size for _, size in fitting[-len(held) - 1 :]) > limit


def test_unknown_request_has_no_answer() -> None:
    assert ReplyCache(1 << 20).find(key(1)) is None


def test_answer_larger_than_the_cache_pushes_nothing_out() -> None:
    cache = ReplyCache(4096)
    cache.keep(key(1), text(1), 10)
    cache.keep(key(2), text(2), 5000)
    assert cache.find(key(1)) == text(1)
    assert cache.find(key(2)) is None
