from __future__ import annotations

import math

import pytest

import protocol.emulator
from protocol.emulator import (
    BandwidthTrace,
    LinkSettings,
    LinkSettingsError,
    parse_rates,
)
from protocol.emulator.settings import chunk_bytes


def test_public_names_are_sorted_and_there() -> None:
    assert protocol.emulator.__all__ == sorted(protocol.emulator.__all__)
    for name in protocol.emulator.__all__:
        assert getattr(protocol.emulator, name) is not None


def test_pairs_are_up_and_down() -> None:
    assert parse_rates("20mbps/5mbps") == (20, 5)
    assert parse_rates("20mbps") == (20, 20)
    with pytest.raises(LinkSettingsError, match="1mbps/2mbps/3mbps"):
        parse_rates("1mbps/2mbps/3mbps")
    with pytest.raises(LinkSettingsError, match=r"cannot read the rates 'fast': .* write 20mbps"):
        parse_rates("fast")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"uplink_mbps": 0}, "uplink_mbps must be 0.0001 or more"),
        ({"downlink_mbps": -1}, "downlink_mbps must be 0.0001 or more"),
        ({"uplink_mbps": math.nan}, "uplink_mbps must be 0.0001 or more"),
        ({"rtt_ms": -1}, "rtt_ms must be 0 to 3600000"),
        ({"rtt_ms": math.inf}, "rtt_ms must be 0 to 3600000"),
        ({"rtt_ms": 1e308}, "rtt_ms must be 0 to 3600000, not 1e"),
        ({"rtt_ms": math.nan}, "rtt_ms must be 0 to 3600000"),
        ({"uplink_mbps": 5e-324}, "uplink_mbps must be 0.0001 or more"),
        ({"jitter_ms": 1e8}, "jitter_ms must be 0 to 3600000"),
        ({"jitter_ms": -1}, "jitter_ms must be 0 to 3600000"),
    ],
)
def test_impossible_links_are_refused(changes: dict[str, float], word: str) -> None:
    with pytest.raises(LinkSettingsError, match=word):
        LinkSettings(**changes)


def test_the_queue_is_about_the_bandwidth_delay_product() -> None:
    assert LinkSettings(rtt_ms=40).queue_bytes(20) == 100_000
    assert LinkSettings(rtt_ms=0).queue_bytes(20) == 25_000
    assert LinkSettings(rtt_ms=10).queue_bytes(0.01) == 5792
    assert LinkSettings(rtt_ms=1000).queue_bytes(1000) == 1024 * 1024
    assert LinkSettings().queue_bytes(math.inf) == 1024 * 1024
    assert LinkSettings().queue_bytes(BandwidthTrace((0, 1), (1, 20))) == 25_000


def test_a_chunk_is_about_two_milliseconds() -> None:
    assert chunk_bytes(20) == 5000
    assert chunk_bytes(0.01) == 1448
    assert chunk_bytes(math.inf) == 32 * 1024
