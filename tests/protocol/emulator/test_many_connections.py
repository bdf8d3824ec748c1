"""More connections than select takes, and more than there are descriptors for."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONNECTIONS = 600  # two descriptors each: beyond 1024

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@contextmanager
def an_emulator(limit: int, server: socket.socket) -> Iterator[tuple[str, int]]:
    host, port = server.getsockname()
    command = [sys.executable, "-m", "protocol.emulator", "--to", f"tcp://{host}:{port}"]
    with subprocess.Popen(
        ["/bin/sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split()[1].removeprefix("tcp://")
            link_host, link_port = address.split(":")
            yield link_host, int(link_port)
        finally:
            process.terminate()
            _, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")


def talks(agent: socket.socket, server: socket.socket) -> socket.socket:
    agent.sendall(b"ping")
    worker, _ = server.accept()
    worker.settimeout(20)
    assert worker.recv(4) == b"ping"
    return worker


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as made:
        made.settimeout(20)
        yield made


@pytest.mark.skipif(HARD < 3 * CONNECTIONS, reason="needs more descriptors")
def test_more_connections_than_select_takes(server: socket.socket) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (HARD, HARD))
    try:
        with an_emulator(3 * CONNECTIONS, server) as address, ExitStack() as stack:
            for _ in range(CONNECTIONS):
                agent = stack.enter_context(socket.create_connection(address, timeout=20))
                stack.enter_context(talks(agent, server))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, HARD))


def test_at_the_limit_agents_wait_until_others_have_gone(server: socket.socket) -> None:
    limit = 64
    with an_emulator(limit, server) as address, ExitStack() as stack:
        agents = [
            stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(60)
        ]
        first = stack.enter_context(talks(agents[0], server))
        for agent in agents[:-1]:
            agent.close()
        first.close()
        last = agents[-1]
        last.sendall(b"last")
        while True:
            worker, _ = server.accept()
            with worker:
                worker.settimeout(20)
                if worker.recv(4) == b"last":
                    break
