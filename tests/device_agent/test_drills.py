"""Failure drills: real workers in processes of their own, real sockets, the fault proxy between."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
import zmq

from device_agent import Agent, ComputedOn, Frame, LinkPolicy, Patience, Reason
from device_agent.testing import make_welcome
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from protocol import Hello, Limits, Request, decode_message, encode_message, worker_socket
from protocol.emulator import EmulatedLink
from splitter.bundle import open_bundle
from tests.device_agent.conftest import SIDE, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from device_agent import Answer

IMAGE = np.linspace(0, 1, 3 * SIDE * SIDE, dtype=np.float32).reshape(1, 3, SIDE, SIDE)
ONE_REQUEST_BYTES = 200  # less than one takes here, more than a HELLO or a ping
POLICY = LinkPolicy(hello_timeout_s=1.0, overdue_limit_s=1.0, backoff_first_s=0.1)


@pytest.fixture
def expected(bundle_folder: Path) -> np.ndarray:
    with Agent(open_bundle(bundle_folder), cut="device") as agent:
        return ask(agent).outputs["logits"]


@pytest.fixture
def link(worker: WorkerProcess) -> Iterator[EmulatedLink]:
    with EmulatedLink(worker.address) as link:
        yield link


@pytest.fixture
def start(bundle_folder: Path) -> Iterator[Callable[[str], Agent]]:
    """Starts an agent at an address; says all it has to say to ``agent.said``."""
    agents: list[Agent] = []

    def start(address: str) -> Agent:
        agent = Agent(
            open_bundle(bundle_folder),
            worker=address,
            engine=OnnxRuntimeEngine(EngineOptions(threads=1)),
            notice=lambda _: None,
            deadline_ms=1500,
            link_policy=POLICY,
            patience=Patience(connect_s=2.0, welcome_s=20.0),
        )
        agents.append(agent)
        return agent.__enter__()

    yield start
    for agent in agents:
        agent.close()


def ask(agent: Agent) -> Answer:
    (answer,) = agent.answers([Frame({"image": IMAGE})])
    return answer


def ask_until(agent: Agent, wanted: Callable[[Answer], bool], expected: np.ndarray) -> Answer:
    """Ask until the answer is the wanted one; between, wait for something to arrive."""
    for _ in range(500):
        answer = ask(agent)
        np.testing.assert_allclose(answer.outputs["logits"], expected, rtol=1e-5)
        if wanted(answer):
            return answer
        assert agent._channel is not None
        agent._channel._pull(time.monotonic() + 1.0)
    raise AssertionError("never came")


def in_the_cloud(answer: Answer) -> bool:
    return answer.computed_on is ComputedOn.CLOUD


def test_a_worker_killed_in_mid_request_is_noticed_before_the_deadline(
    worker: WorkerProcess,
    link: EmulatedLink,
    start: Callable[[str], Agent],
    expected: np.ndarray,
) -> None:
    agent = start(link.address)
    ask_until(agent, in_the_cloud, expected)
    worker.freeze()
    arrived = link.counters.uplink_bytes + ONE_REQUEST_BYTES

    def kill() -> None:
        link.wait_until(lambda counters: counters.uplink_bytes >= arrived)
        worker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    answer = ask_until(agent, lambda _: True, expected)
    killer.join()
    assert (answer.computed_on, answer.reason) == (ComputedOn.DEVICE, Reason.LINK_LOST)


def test_a_stopped_worker_is_late_once_and_used_again_when_it_goes_on(
    worker: WorkerProcess,
    link: EmulatedLink,
    start: Callable[[str], Agent],
    expected: np.ndarray,
) -> None:
    agent = start(link.address)
    ask_until(agent, in_the_cloud, expected)
    worker.freeze()
    assert ask(agent).reason is Reason.LATE
    assert ask(agent).reason is Reason.OVERDUE
    worker.thaw()
    ask_until(agent, in_the_cloud, expected)
    assert agent.counters.late == 1
    assert agent.counters.duplicates == 0


@pytest.mark.parametrize("fault", ["cut", "blackhole", "half_open", "pause"])
def test_a_broken_link_is_survived_and_rejoined(
    fault: str,
    link: EmulatedLink,
    start: Callable[[str], Agent],
    expected: np.ndarray,
) -> None:
    agent = start(link.address)
    ask_until(agent, in_the_cloud, expected)
    getattr(link, fault)()
    ask_until(agent, lambda answer: answer.reason is Reason.NO_SESSION, expected)
    if fault == "pause":
        link.resume()
    link.restore()
    ask_until(agent, in_the_cloud, expected)
    assert agent.counters.duplicates == 0


def test_damaged_bytes_never_become_an_answer(
    link: EmulatedLink, start: Callable[[str], Agent], expected: np.ndarray
) -> None:
    agent = start(link.address)
    ask_until(agent, in_the_cloud, expected)
    link.corrupt(every_bytes=200, direction="down")
    for _ in range(10):
        ask_until(agent, lambda _: True, expected)
    link.restore()
    ask_until(agent, in_the_cloud, expected)


def test_a_restarted_worker_is_joined_again(
    bundle_folder: Path, start: Callable[[str], Agent], expected: np.ndarray
) -> None:
    with WorkerProcess(bundle_folder) as first:
        agent = start(first.address)
        ask_until(agent, in_the_cloud, expected)
    ask_until(agent, lambda answer: not in_the_cloud(answer), expected)
    with WorkerProcess(bundle_folder, bind=first.address):
        ask_until(agent, in_the_cloud, expected)
        assert agent.counters.sessions == 2


def test_a_worker_that_starts_late_is_joined(
    bundle_folder: Path, start: Callable[[str], Agent], expected: np.ndarray
) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{place.getsockname()[1]}"
    agent = start(address)
    assert ask(agent).reason is Reason.NO_SESSION
    with WorkerProcess(bundle_folder, bind=address):
        ask_until(agent, in_the_cloud, expected)


@pytest.mark.parametrize("junk", [[b""], [b"junk"], [b"\x01\x05", b"", b"", b""], [b"x"] * 400])
def test_a_worker_that_answers_with_garbage(
    junk: list[bytes], start: Callable[[str], Agent], expected: np.ndarray
) -> None:
    ready = threading.Event()
    addresses: list[str] = []

    def serve() -> None:
        """Welcome as a worker does; answer each request with junk."""
        with zmq.Context() as context:
            router, address = worker_socket(context, "tcp://127.0.0.1:0", Limits())
            addresses.append(address)
            ready.set()
            while True:
                device, *frames = router.recv_multipart()
                message = decode_message(frames, Limits())
                if isinstance(message, Hello):
                    router.send_multipart([device, *encode_message(make_welcome())])
                elif isinstance(message, Request):
                    router.send_multipart([device, *junk])
                else:
                    break
            router.close()

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    agent = start(addresses[0])
    assert ask_until(agent, lambda _: True, expected).reason is Reason.BAD_REPLY
    assert ask(agent).reason is Reason.NO_SESSION
    assert agent.counters.malformed == 1
    # A goodbye ends the thread; the agent says it once a session stands again.
    assert agent._channel is not None
    agent._channel.greet(Patience(20.0, 20.0))
    agent.close()
    thread.join()


def test_a_port_where_something_else_listens(
    start: Callable[[str], Agent], expected: np.ndarray
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        agent = start(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        answer = ask_until(agent, lambda _: True, expected)
        assert answer.reason is Reason.NO_SESSION
        thread.join()
