"""At the limit of file descriptors, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The connections are made before the limit, by a process that inherits none of it.
AT_THE_LIMIT = """
import resource, subprocess, sys
import zmq
from cloud_worker._listener import Listener
from protocol import Limits, worker_socket

CONNECT = '''
import socket, sys
made = []
for _ in range(80):
    try:
        made.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
    except OSError:
        pass
print("connected", flush=True)
sys.stdin.read()
'''
context = zmq.Context()
router, address = worker_socket(context, "tcp://127.0.0.1:0", Limits())
lines = []
listener = Listener(router, address, lines.append)
command = [sys.executable, "-c", CONNECT, address.rpartition(":")[2]]
others = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
assert listener.monitor.poll(30_000)
listener.turn(100.0)
assert listener.resumes_at == 101.0, listener.resumes_at
assert len(lines) == 1 and "descriptor" in lines[0], lines
others.stdout.readline()
while listener.monitor.poll(300):  # until nobody tries any more
    listener.turn(100.5)
assert len(lines) == 1, lines
others.stdin.close()
others.wait()
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
now = 101.0
while listener.resumes_at is not None:
    now += 1.0
    listener.turn(now)
    assert now < 200.0
client = context.socket(zmq.DEALER)
client.connect(address)
client.send(b"hello")
assert router.recv_multipart()[1] == b"hello"
listener.close()
client.close(0)
router.close(0)
context.term()
"""


def test_listening_pauses_at_the_limit_of_descriptors_and_goes_on() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", AT_THE_LIMIT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
