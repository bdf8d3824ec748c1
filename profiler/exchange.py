"""What asking a worker costs this machine besides model, codecs and link. Light."""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np
import zmq

from profiler.timing import FineClock
from protocol.codecs import EncodedTensor, RawCodec, encode_tensor
from protocol.frames import decode_message, encode_message
from protocol.limits import Limits
from protocol.messages import SESSION_BYTES, Request, Result, Timings
from protocol.sockets import agent_socket, worker_socket

__all__ = ["measure_exchange"]

_ROUNDS = 40
_WARM_UP = 5
# Frames come one by one: a thread that has waited for the next one wakes up slower than a busy one.
_IDLE_S = 0.02
_REQUEST_ELEMENTS = 5_000  # 20 kB, a small frontier
_RESULT_ELEMENTS = 1_000
_PATIENCE_S = 10.0
_STOP = b"stop"


def measure_exchange(clock: FineClock, sleep: Callable[[float], None] = time.sleep) -> float:
    """Time request and result over loopback, one at a time, with pauses between them.

    What is timed is what agent and worker do for every frame: writing and reading frames, sockets,
    and handing the request to the thread that computes and back. Nothing is encoded or computed.

    Args:
        clock: What to time with.
        sleep: Waits between exchanges, in seconds.

    Returns:
        The median, in milliseconds, of both sides together.
    """
    limits = Limits()
    addresses: queue.SimpleQueue[str] = queue.SimpleQueue()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    thread = threading.Thread(
        target=_serve, args=(context, addresses, limits), name="echo", daemon=True
    )
    thread.start()
    agent = agent_socket(context, addresses.get(timeout=_PATIENCE_S), limits)
    agent.setsockopt(zmq.RCVTIMEO, round(_PATIENCE_S * 1000))
    try:
        request = _request()
        times_ms = []
        for _ in range(_WARM_UP + _ROUNDS):
            sleep(_IDLE_S)
            before = clock.monotonic()
            agent.send_multipart(encode_message(request), copy=False)
            decode_message(agent.recv_multipart(), limits)
            times_ms.append((clock.monotonic() - before) * 1e3)
    finally:
        agent.send_multipart([_STOP])
        thread.join(_PATIENCE_S)
        agent.close()
        context.destroy(linger=0)
    return statistics.median(times_ms[_WARM_UP:])


def _serve(
    context: zmq.Context[zmq.Socket[bytes]], addresses: queue.SimpleQueue[str], limits: Limits
) -> None:
    """Answer requests as a worker does: one thread has the socket, another one computes."""
    socket, address = worker_socket(context, "tcp://127.0.0.1:0", limits)
    addresses.put(address)
    asked: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
    answered: queue.SimpleQueue[Result] = queue.SimpleQueue()
    results = (_tensor(_RESULT_ELEMENTS),)

    def compute() -> None:
        while (request := asked.get()) is not None:
            timings = Timings(0.0, 0.0, 0.0, 0.0)
            answered.put(Result(request.session, request.number, timings, results))

    computing = threading.Thread(target=compute, name="echo-compute")
    computing.start()
    while True:
        peer, *frames = socket.recv_multipart()
        if frames == [_STOP]:
            break
        request = decode_message(frames, limits)
        if isinstance(request, Request):
            asked.put(request)
            socket.send_multipart([peer, *encode_message(answered.get())], copy=False)
    asked.put(None)
    computing.join()
    socket.close()


def _request() -> Request:
    return Request(bytes(SESSION_BYTES), 1, 1000, (_tensor(_REQUEST_ELEMENTS),))


def _tensor(elements: int) -> EncodedTensor:
    values = np.random.default_rng(0).standard_normal(elements).astype(np.float32)
    return encode_tensor("tensor", values, RawCodec())
