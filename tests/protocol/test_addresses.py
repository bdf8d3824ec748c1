from __future__ import annotations

import socket

import pytest

from protocol.addresses import Address, parse_address, resolve_host
from protocol.errors import AddressError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://127.0.0.1:5555", Address("tcp", "127.0.0.1", 5555)),
        ("tcp://worker.local:0", Address("tcp", "worker.local", 0)),
        ("tcp://*:80", Address("tcp", "*", 80)),
        ("tcp://[::1]:65535", Address("tcp", "::1", 65535)),
        ("ipc:///run/worker", Address("ipc", "/run/worker")),
        ("ipc://@abstract", Address("ipc", "@abstract")),
        ("inproc://worker", Address("inproc", "worker")),
    ],
)
def test_addresses_are_read_and_written_alike(text, address):
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tcp://127.0.0.1", "has no port"),
        ("tcp://worker:", "has no port"),
        ("tcp://[::1]", "has no port"),
        ("127.0.0.1:5555", "names no transport"),
        ("worker", "names no transport"),
        ("", "names no transport"),
        ("tpc://worker:1", "did you mean 'tcp'"),
        ("http://worker:80", "unknown transport 'http'"),
        ("TCP://worker:80", "unknown transport 'TCP'"),
        ("tcp://", "ends after its transport"),
        ("ipc://", "ends after its transport"),
        ("tcp://worker:65536", "the highest is 65535"),
        ("tcp://worker:5555/path", "cannot be read"),
        ("tcp://worker:port", "cannot be read"),
        ("tcp://:5555", "cannot be read"),
        ("tcp://a b:5555", "cannot be read"),
        ("tcp://user@worker:5555", "cannot be read"),
        ("tcp://::1:5555", "cannot be read"),
        ("tcp://worker:-1", "cannot be read"),
        ("tcp://worker:5555\n", "cannot be read"),
        ("tcp://worker:٣", "cannot be read"),
        ("ipc:///" + "x" * 107, "the system takes 107"),
    ],
)
def test_everything_else_is_refused_with_advice(text, complaint):
    with pytest.raises(AddressError, match=complaint) as caught:
        parse_address(text)
    assert repr(text) in str(caught.value)
    if "tcp" not in text and not text.startswith("ipc"):
        assert "write tcp://HOST:PORT" in str(caught.value)


def test_hosts_are_resolved_preferring_ipv4(monkeypatch):
    def both(*arguments, **options):
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 1, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 1)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    assert resolve_host(Address("tcp", "x", 1), to_bind=False) == ("127.0.0.1", False)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both()[:1])
    assert resolve_host(Address("tcp", "x", 1), to_bind=False) == ("::1", True)


@pytest.mark.parametrize("host", ["x" * 64 + ".invalid", "nobody.invalid", "a..b"])
def test_hosts_that_nobody_knows_are_refused(host):
    with pytest.raises(AddressError, match="cannot be resolved"):
        resolve_host(Address("tcp", host, 1), to_bind=False)


@pytest.mark.parametrize(
    "text",
    ["x" * 10**6, "x" * 10**6 + "://a:1", "tcp://" + "x" * 10**6, "tcp://" + "x" * 10**6 + ":1",
     "tcp://a:" + "1" * 10**6, "ipc://" + "x" * 10**6, "inproc://" + "x" * 10**6],
)  # fmt: skip
def test_a_complaint_is_bounded_and_still_says_what_is_wrong(text):
    with pytest.raises(
        AddressError, match=r"(: write tcp://HOST|the limit is|system takes)"
    ) as caught:
        parse_address(text)
    assert len(str(caught.value)) < 400
