"""Probes are answered to anybody, within a budget, and take nothing from those in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_worker import WorkerSettings
from cloud_worker.testing import FakeTails
from protocol import (
    PROBE_BYTES,
    Ping,
    Pong,
    Probe,
    Probed,
    RefusalCode,
    Refuse,
    Result,
)
from tests.cloud_worker.core_support import PEER, Bench, only, refused
from tests.cloud_worker.support import tails
from tests.cloud_worker.test_server import WAIT_S, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cloud_worker.support import Peer

    Connect = Callable[[str], Peer]

BURST_BYTES, BYTES_PER_S = 4 << 20, 1 << 20


@pytest.mark.parametrize("size", [0, 1, 1000, PROBE_BYTES])
def test_a_probe_is_answered_with_as_many_bytes_as_it_asks_for(size: int) -> None:
    probed = only(Bench().say(Probe(2**40, size, b"up")), Probed)
    assert (probed.number, len(probed.payload)) == (2**40, size)


def test_bytes_of_an_answer_do_not_compress() -> None:
    probed = only(Bench().say(Probe(1, PROBE_BYTES, b"")), Probed)
    assert len(set(bytes(probed.payload[:4096]))) > 200


def test_all_peers_share_one_budget_that_fills_again() -> None:
    bench = Bench()
    for number in range(BURST_BYTES // PROBE_BYTES):
        only(bench.say(Probe(number, PROBE_BYTES, b""), b"peer-%d" % number), Probed)
    refusal = refused(bench.say(Probe(9, PROBE_BYTES, b""), b"another"), RefusalCode.BUSY)
    assert refusal.retry_after_ms == 500
    bench.now += 0.5
    only(bench.say(Probe(10, PROBE_BYTES, b"")), Probed)
    refused(bench.say(Probe(11, 0, b"")), RefusalCode.BUSY)
    assert bench.core.counts["probes"] == 9
    assert bench.core.counts["probes_refused"] == 2


@given(st.lists(st.tuples(st.integers(0, PROBE_BYTES), st.floats(0, 3)), max_size=40))
def test_answers_never_exceed_the_burst_and_the_rate(probes: list[tuple[int, float]]) -> None:
    bench = Bench()
    bench.say(Probe(0, 0, b""))
    start, answered = bench.now, 0
    for size, pause_s in probes:
        bench.now += pause_s
        (message,) = bench.say(Probe(1, size, b""))
        answered += len(message.payload) if isinstance(message, Probed) else 0
        assert answered <= BURST_BYTES + (bench.now - start) * BYTES_PER_S


def test_small_answers_are_bounded_in_number() -> None:
    bench = Bench()
    said = [bench.say(Probe(number, 0, b""))[0] for number in range(5000)]
    assert sum(isinstance(message, Probed) for message in said) == BURST_BYTES // 1024


def test_agents_are_served_while_the_budget_is_spent() -> None:
    bench = Bench()
    session = bench.welcome().session
    for number in range(20):
        bench.say(Probe(number, PROBE_BYTES, b""), b"prober")
    assert bench.say(Ping(session, 3), PEER) == [Pong(session, 3)]


def test_only_workers_say_probed() -> None:
    bench = Bench()
    assert bench.say(Probed(1, b"x")) == []
    assert bench.core.counts["unexpected"] == 1


def test_a_probe_is_answered_on_the_wire_while_a_model_runs(connect: Connect) -> None:
    source = tails()
    with serve(source) as worker:
        peer, prober = connect(worker.address), connect(worker.address)
        peer.welcome()
        source.engine.gate.clear()
        peer.send(peer.request(1))
        assert source.engine.started.acquire(timeout=WAIT_S)
        answer = prober.ask(Probe(5, PROBE_BYTES, bytes(PROBE_BYTES)))
        assert isinstance(answer, Probed)
        assert (answer.number, len(answer.payload)) == (5, PROBE_BYTES)
        source.engine.gate.set()
        assert isinstance(peer.receive(), Result)


def test_the_largest_probe_fits_into_the_least_credit(connect: Connect) -> None:
    with serve(tails(), settings=WorkerSettings(credit_bytes=1 << 20)) as worker:
        prober = connect(worker.address)
        assert isinstance(prober.ask(Probe(1, PROBE_BYTES, bytes(PROBE_BYTES))), Probed)


def test_answers_that_nobody_reads_take_no_room_of_those_that_agents_await(
    connect: Connect,
) -> None:
    source: FakeTails = tails()
    with serve(source) as worker:
        peer, silent = connect(worker.address), connect(worker.address)
        peer.welcome()
        for number in range(8):
            silent.send(Probe(number, PROBE_BYTES, b""))
        refusal = connect(worker.address)
        for number in range(100):  # until the budget is known to be spent
            if isinstance(refusal.ask(Probe(number, PROBE_BYTES, b"")), Refuse):
                break
        assert worker._outbox.unread_bytes == 0
        assert isinstance(peer.ask(peer.request(1)), Result)
