"""The command, as a process of its own."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cloud_worker.cli import main
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.model import load_model
from protocol import Failure, FailureCode, Goodbye, Ping, Pong, RefusalCode, Refuse, Result
from tests.cloud_worker import gated_worker
from tests.cloud_worker.bundles import save_bundle
from tests.cloud_worker.support import arrays, hello, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cloud_worker.support import Peer

    Connect = Callable[[str], Peer]

WAIT_S = 60
ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("-c", "import sys; from cloud_worker.cli import main; sys.exit(main())")
IMAGE = np.linspace(-2, 2, 8, dtype=np.float32).reshape(1, 8)


class Process:
    """A worker process that has said where it serves."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.ready = self.line()
        self.address = self.ready.rpartition(" on ")[2]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        """Exit code and standard error."""
        if number is not None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, errors


@contextmanager
def started(models: Path, *options: str, command: tuple[str, ...] = COMMAND) -> Iterator[Process]:
    arguments = [sys.executable, *command, "--models", str(models), "--bind", "tcp://127.0.0.1:0"]
    process = subprocess.Popen(
        [*arguments, *options],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Process(process)
    finally:
        process.kill()
        process.communicate(timeout=WAIT_S)


def offer(models: Path, *frontier: str) -> dict[str, Any]:
    return {
        "model": load_model(models / "net.onnx").identity.sha256,
        "frontier": frontier,
        "results": ("answer",),
    }


def test_serves_two_cuts_and_ends_well(models: Path, connect: Connect) -> None:
    session = OnnxRuntimeEngine(EngineOptions(threads=1)).load(models / "net.onnx")
    expected = session.run({"image": IMAGE})["answer"]
    with started(models, "--name", "rack-7", "--threads", "1", "--credit-mb", "3") as worker:
        assert worker.ready == f"serving 1 model on {worker.address}"
        assert worker.address.startswith("tcp://127.0.0.1:")
        whole, split = connect(worker.address), connect(worker.address)
        welcome = whole.welcome(**offer(models, "image"))
        assert (welcome.worker, welcome.credit_bytes) == ("rack-7", 3 << 20)
        split.welcome(**offer(models, "skip"), incarnation=b"j" * 16)
        one = whole.ask(whole.request(1, tensor(IMAGE, "image")))
        two = split.ask(split.request(1, tensor(IMAGE * 2, "skip")))
        assert isinstance(one, Result)
        assert isinstance(two, Result)
        np.testing.assert_array_equal(arrays(one.tensors)["answer"], expected)
        np.testing.assert_allclose(arrays(two.tensors)["answer"], expected, rtol=1e-6)
        split.send(Goodbye(split.session, "\x1b[2Jdone"))
        assert isinstance(whole.ask(Ping(whole.session, 9)), Pong)
        code, log = worker.end(signal.SIGTERM)
        assert code == 0
        first, second, third = log.splitlines()
        for line in (first, second):
            assert re.fullmatch(r"20\S+T\S+ agent [0-9a-f]{8} joined: net at cut-1", line)
        assert third.endswith(" left cut-1: [2Jdone")
        assert isinstance(whole.receive(), Goodbye)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_while_a_request_is_computed(
    models: Path, connect: Connect, number: signal.Signals
) -> None:
    gated = (str(Path(gated_worker.__file__)),)
    with started(models, command=gated) as worker:
        peer, late = connect(worker.address), connect(worker.address)
        peer.welcome(**offer(models, "image"))
        peer.send(peer.request(1, tensor(IMAGE, "image")))
        assert worker.line() == "running"
        worker.process.send_signal(number)
        # The signal has been seen when a new agent is turned away.
        while not isinstance(refusal := late.ask(hello(**offer(models, "image"))), Refuse):
            continue
        assert refusal.code is RefusalCode.DRAINING
        refused = peer.ask(peer.request(2, tensor(IMAGE, "image")))
        assert isinstance(refused, Failure)
        assert refused.code is FailureCode.DRAINING
        assert worker.process.stdin is not None
        worker.process.stdin.write("go\n")
        worker.process.stdin.flush()
        assert isinstance(peer.receive(), Result)
        assert isinstance(peer.receive(), Goodbye)
        assert worker.end()[0] == 0


def test_second_signal_ends_at_once(models: Path, connect: Connect) -> None:
    gated = (str(Path(gated_worker.__file__)),)
    with started(models, command=gated) as worker:
        peer, late = connect(worker.address), connect(worker.address)
        peer.welcome(**offer(models, "image"))
        peer.send(peer.request(1, tensor(IMAGE, "image")))
        assert worker.line() == "running"
        worker.process.send_signal(signal.SIGTERM)
        while not isinstance(late.ask(hello(**offer(models, "image"))), Refuse):
            continue
        assert worker.end(signal.SIGTERM)[0] == -signal.SIGTERM


def test_bundles_are_served_without_onnx(models: Path, tmp_path: Path, connect: Connect) -> None:
    bundle = save_bundle(models / "net.onnx", tmp_path / "bundle")
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('onnx', 'scipy', 'torch', 'yaml', 'PIL')))\n"
        "from cloud_worker.cli import main\n"
        "sys.exit(main())"
    )
    with started(bundle, command=("-c", code)) as worker:
        peer = connect(worker.address)
        peer.welcome(**offer(models, "skip"))
        assert isinstance(peer.ask(peer.request(1, tensor(IMAGE * 2, "skip"))), Result)
        other = peer.ask(hello(**offer(models, "skip", "hidden")))
        assert isinstance(other, Refuse)
        assert other.code is RefusalCode.LOAD_FAILED
        assert "pip install '.[worker]'" in other.text
        code, log = worker.end(signal.SIGTERM)
        assert code == 0
        assert "refused (load_failed)" in log.splitlines()[-1]


def test_what_cannot_be_served_is_named(models: Path) -> None:
    (models / "broken.onnx").write_bytes(b"no model")
    with started(models) as worker:
        assert worker.ready.startswith("serving 1 model on ")
        code, errors = worker.end(signal.SIGTERM)
    assert code == 0
    [line] = errors.splitlines()
    assert line.startswith("not served: ")
    assert "broken.onnx" in line


def test_one_model_is_served_as_a_file(models: Path, connect: Connect) -> None:
    with started(models / "net.onnx") as worker:
        connect(worker.address).welcome(**offer(models, "image"))


def test_descriptors_up_to_the_hard_limit_are_taken(models: Path) -> None:
    lowered = (
        "import resource, sys\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, hard), hard))\n"
        "from cloud_worker.cli import main\n"
        "sys.exit(main())"
    )
    with started(models, command=("-c", lowered)) as worker:
        soft, hard = resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE)
        assert soft == hard


def test_open_address_warns(models: Path) -> None:
    with started(models, "--bind", "tcp://*:0") as worker:
        code, errors = worker.end(signal.SIGTERM)
    assert code == 0
    [line] = errors.splitlines()
    assert line.startswith("warning: tcp://0.0.0.0:")
    assert "neither encrypted nor authenticated" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--models"]),
        (["--models", "{nowhere}"], ["{nowhere}"]),
        (["--models", "{empty}"], ["{empty}"]),
        (["--models", "{models}", "--bind", "127.0.0.1:1"], ["tcp://"]),
        (["--models", "{models}", "--bind", "tcp://127.0.0.1:99999"], ["99999"]),
        (["--models", "{models}", "--threads", "0"], ["--threads", "'0'"]),
        (["--models", "{models}", "--threads", "two"], ["--threads", "'two'"]),
        (["--models", "{models}", "--credit-mb", "-1"], ["--credit-mb"]),
        (["--models", "{models}", "--credit-mb", "999999999"], ["credit"]),
        (["--models", "{models}", "--name", ""], ["name"]),
        (["--models", "{models}", "--name", "rack-\udcff"], ["name", "no text"]),
        (["--models", "{models}", "--name", "rack\x07"], ["name", "control characters"]),
        (["--models", "{models}", "--run-limit-s", "0"], ["--run-limit-s"]),
        (["--models", "{models}", "--thraeds", "1"], ["--thraeds"]),
    ],
)
def test_bad_input_is_one_line(
    models: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: list[str],
) -> None:
    places = {
        "models": str(models),
        "nowhere": str(tmp_path / "nowhere"),
        "empty": str(tmp_path / "empty"),
    }
    (tmp_path / "empty").mkdir()
    assert main([argument.format(**places) for argument in arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    [line] = output.err.splitlines()
    assert line.startswith("error: ")
    for word in words:
        assert word.format(**places) in line


def test_port_in_use_is_one_line(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with started(models) as worker:
        assert main(["--models", str(models), "--bind", worker.address]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "in use" in line


@pytest.mark.parametrize(
    "name", ["tinygpt_prefill", "silero_vad", "efficientnet_lite0_dynamo_extdata"]
)
def test_real_networks_as_a_whole(
    shared: Path, tmp_path: Path, connect: Connect, name: str
) -> None:
    for path in (shared / "models").glob(f"{name}.onnx*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / f"{name}.onnx"
    with np.load(shared / "models" / f"{name}.feed.npz") as archive:
        feeds = {key.replace("__slash__", "/"): archive[key] for key in archive.files}
    expected = OnnxRuntimeEngine(EngineOptions(threads=1)).load(path).run(feeds)
    with started(tmp_path, "--threads", "1") as worker:
        peer = connect(worker.address)
        peer.welcome(
            model=load_model(path).identity.sha256,
            frontier=tuple(feeds),
            results=tuple(expected),
        )
        answer = peer.ask(peer.request(1, *(tensor(value, key) for key, value in feeds.items())))
        assert isinstance(answer, Result), answer
        found = arrays(answer.tensors)
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value)
