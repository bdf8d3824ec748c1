"""The command, against the real worker and without one."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from device_agent.cli import main
from profiler.engine import OnnxRuntimeSession
from profiler.errors import EngineError
from protocol import Progress
from tests.chrome_rules import check_trace
from tests.device_agent.conftest import LABELS, SIDE, WorkerProcess, write_bundle

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "tcp://127.0.0.1:9"  # the discard port; nobody listens there
PATIENT = ("--deadline-ms", 30_000)  # for a worker on a busy machine


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def value(table: str, name: str) -> str:
    """The cell beside a name in the summary."""
    (cell,) = re.findall(rf"^{name}  +(\S+)", table, re.MULTILINE)
    return str(cell)


class TestWithTheWorker:
    @pytest.mark.parametrize("cut", ["middle", "cloud"])
    def test_pictures_get_their_labels_in_the_cloud(
        self,
        cut: str,
        bundle_folder: Path,
        photos: Path,
        worker: WorkerProcess,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        out = tmp_path / "out.jsonl"
        source = ("--source", photos, "--jsonl", out, "--cut", cut, *PATIENT)
        assert run(bundle_folder, "--worker", worker.address, *source) == 0
        answers = lines(out)
        assert [answer["frame"] for answer in answers] == [0, 1, 2]
        assert [answer["source"] for answer in answers] == ["blue.png", "green.png", "red.png"]
        for answer in answers:
            assert answer["computed_on"] == "cloud"
            assert answer["reason"] == "planned"
            assert f"{answer['top5'][0]['label']}.png" == answer["source"]
            assert answer["uplink_bytes"] > 0
            parts = sum(
                value
                for name, value in answer.items()
                if name.endswith("_ms") and name not in ("latency_ms", "preprocess_ms")
            )
            assert parts == pytest.approx(answer["latency_ms"], abs=0.02)
        shown = capsys.readouterr()
        assert value(shown.out, "computed on cloud") == "3"
        assert value(shown.out, "latency")
        assert shown.err == ""

    def test_a_run_is_a_time_line(
        self, bundle_folder: Path, photos: Path, worker: WorkerProcess, tmp_path: Path
    ) -> None:
        out = tmp_path / "trace.json"
        source = ("--source", photos, "--chrome-trace", out, *PATIENT)
        assert run(bundle_folder, "--worker", worker.address, *source) == 0
        events = check_trace(out.read_text())
        json.loads(out.read_text())
        names = Counter(event["name"] for event in events)
        assert [names[f"frame {number}"] for number in range(3)] == [1, 1, 1]
        for part in ("preprocess", "head", "encode", "uplink", "decode", "tail", "downlink"):
            assert names[part] == 3, part

    def test_split_and_device_give_the_same_answers(
        self, bundle_folder: Path, photos: Path, worker: WorkerProcess, tmp_path: Path
    ) -> None:
        tops = []
        for name, options in (
            ("split", ("--worker", worker.address, *PATIENT)),
            ("device", ("--cut", "device")),
        ):
            out = tmp_path / name
            assert run(bundle_folder, *options, "--source", photos, "--jsonl", out) == 0
            tops.append([answer["top5"] for answer in lines(out)])
        assert [[guess["index"] for guess in top] for top in tops[0]] == [
            [guess["index"] for guess in top] for top in tops[1]
        ]

    def test_json_lines_on_standard_output_stand_alone(
        self, bundle_folder: Path, worker: WorkerProcess, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ("--source", "bench", "--count", 4, "--jsonl", "-", "--threads", 1, *PATIENT)
        assert run(bundle_folder, "--worker", worker.address, *options) == 0
        shown = capsys.readouterr()
        answers = [json.loads(line) for line in shown.out.splitlines()]
        assert [answer["frame"] for answer in answers] == [0, 1, 2, 3]
        assert value(shown.err, "frames") == "4"

    def test_a_model_that_the_worker_does_not_serve(
        self, worker: WorkerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = tmp_path / "other"
        other.mkdir()
        write_bundle(other, model="d1" * 32)
        assert run(other, "--worker", worker.address, "--source", "bench", *PATIENT) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: the worker refused the session (unknown_model): ")
        assert "d1d1d1d1d1d1" in line
        assert "c0c0c0c0c0c0" in line
        assert "--models" in line


class TestWithoutAWorker:
    def test_one_warning_and_every_frame_answered(
        self, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "out.jsonl"
        options = ("--source", "bench", "--count", 5, "--jsonl", out)
        assert run(bundle_folder, "--worker", NOWHERE, *options) == 0
        assert [answer["reason"] for answer in lines(out)] == ["no_session"] * 5
        shown = capsys.readouterr()
        assert shown.err == f"warning: no answer from {NOWHERE}; answering on the device\n"
        assert value(shown.out, "on the device because no_session") == "5"

    def test_the_cut_device_needs_none(
        self, bundle_folder: Path, photos: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(bundle_folder, "--source", photos, "--cut", "device") == 0
        shown = capsys.readouterr()
        assert value(shown.out, "computed on device") == "3"
        assert shown.err == ""

    def test_a_feed_file(self, bundle_folder: Path, tmp_path: Path) -> None:
        path, out = tmp_path / "feed.npz", tmp_path / "out.jsonl"
        images = np.zeros((2, 1, 3, SIDE, SIDE), np.float32)
        images[0, 0, 1] = images[1, 0, 2] = 1
        np.savez(path, image=images)
        assert run(bundle_folder, "--source", path, "--cut", "device", "--jsonl", out) == 0
        assert [answer["top5"][0]["label"] for answer in lines(out)] == ["green", "blue"]

    def test_a_broken_picture_is_named_and_the_others_are_answered(
        self, bundle_folder: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for path in photos.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 broken")
        assert run(bundle_folder, "--source", tmp_path, "--cut", "device") == 2
        shown = capsys.readouterr()
        first, last = shown.err.splitlines()
        assert re.fullmatch("warning: .*broken.jpg .*; skipped", first)
        assert last == (
            "error: 1 of 4 frames have no answer: 1 could not be read, 0 do not fit the model;"
            " the warnings above name each"
        )
        assert value(shown.out, "frames") == "3"
        assert value(shown.out, "skipped") == "1"

    def test_a_frame_that_the_model_fails_on_is_named_and_the_others_are_answered(
        self,
        bundle_folder: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        run_session, runs = OnnxRuntimeSession.run, count()

        def fail_once(session: OnnxRuntimeSession, feeds: Any) -> Any:
            if next(runs) == 1:
                raise EngineError("index 9 is out of bounds")
            return run_session(session, feeds)

        monkeypatch.setattr(OnnxRuntimeSession, "run", fail_once)
        out = tmp_path / "out.jsonl"
        options = ("--source", "bench", "--count", 3, "--cut", "device", "--jsonl", out)
        assert run(bundle_folder, *options) == 2
        shown = capsys.readouterr()
        assert shown.err.splitlines()[0] == "warning: frame 1: index 9 is out of bounds; no answer"
        assert "1 of 3 frames have no answer" in shown.err.splitlines()[1]
        assert value(shown.out, "unanswered") == "1"
        answers = lines(out)
        assert [answer["frame"] for answer in answers] == [0, 1, 2]
        assert answers[1] == {"frame": 1, "source": None, "error": "index 9 is out of bounds"}

    def test_outputs_are_saved_a_file_a_frame(self, bundle_folder: Path, tmp_path: Path) -> None:
        out, folder = tmp_path / "out.jsonl", tmp_path / "outputs"
        options = ("--source", "bench", "--count", 3, "--cut", "device", "--jsonl", out)
        assert run(bundle_folder, *options, "--outputs", folder) == 0
        names = [f"frame-00000{number}.npz" for number in range(3)]
        assert sorted(path.name for path in folder.iterdir()) == names
        with np.load(folder / names[2]) as saved:
            assert saved["logits"].shape == (1, 4)
        assert [answer["deadline_missed"] for answer in lines(out)] == [False] * 3

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_the_run_with_a_summary(self, number: int, bundle_folder: Path) -> None:
        script = "import sys; from device_agent.cli import main; sys.exit(main())"
        options = ["--source", "bench", "--cut", "device", "--count", "1000000"]
        with tempfile.TemporaryDirectory() as folder:
            fifo = f"{folder}/lines"
            os.mkfifo(fifo)
            process = subprocess.Popen(
                [sys.executable, "-c", script, str(bundle_folder), *options, "--jsonl", fifo],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            with open(fifo) as stream:  # noqa: PTH123  # until its reader is there, it waits
                json.loads(stream.readline())
                process.send_signal(number)
                while stream.read(1 << 16):  # else it would wait for room in the pipe
                    pass
            out, err = process.communicate()
        assert process.returncode == 128 + number
        assert int(value(out, "frames")) >= 1
        assert err == ""

    def test_interrupted_it_tells_what_was_done(
        self,
        bundle_folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        done = 0

        def advance(progress: Progress, note: str) -> None:
            nonlocal done
            done += 1
            if done == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(Progress, "advance", advance)
        assert run(bundle_folder, "--source", "bench", "--cut", "device") == 130
        assert value(capsys.readouterr().out, "frames") == "3"


class TestAnUnknownHost:
    def test_is_an_absent_worker_named_in_one_warning(
        self,
        bundle_folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def getaddrinfo(*_: object, **__: object) -> None:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr("protocol.addresses.socket.getaddrinfo", getaddrinfo)
        options = ("--source", "bench", "--count", 3, "--deadline-ms", 200)
        assert run(bundle_folder, "--worker", "tcp://nobody.invalid:5555", *options) == 0
        shown = capsys.readouterr()
        (line,) = shown.err.splitlines()
        assert line.startswith("warning: no answer from tcp://nobody.invalid:5555 (address ")
        assert "host 'nobody.invalid' cannot be resolved" in line
        assert value(shown.out, "on the device because no_session") == "3"


class TestUserErrors:
    """Each is one line that names the thing, and exit code 2."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--source", "bench"), "the cut 'middle' needs a worker"),
            (("--source", "bench", "--cut", "cloud"), "the cut 'cloud' needs a worker"),
            (
                ("--source", "bench", "--cut", "cluod", "--worker", NOWHERE),
                "no cut 'cluod' (did you mean 'cloud'?); it has cloud, device, middle",
            ),
            (("--source", "nowhere.npz", "--cut", "device"), "there is no file nowhere.npz"),
            (
                ("--source", "bench", "--worker", "nonsense"),
                "address 'nonsense' names no transport",
            ),
            (("--source", "bench", "--worker", "tcp://127.0.0.1"), "has no port"),
            (
                ("--source", "bench", "--cut", "device", "--threads", 0),
                "--threads: '0' is not a whole number",
            ),
            (
                ("--source", "bench", "--cut", "device", "--count", 0),
                "--count: '0' is not a whole number",
            ),
            (
                ("--source", "bench", "--cut", "device", "--deadline-ms", 0),
                "--deadline-ms: '0' is not a whole number",
            ),
            (
                ("--source", "bench", "--cut", "device", "--jsonl", "/nowhere/out"),
                "cannot write --jsonl /nowhere/out: No such file or directory",
            ),
            ((), "the following arguments are required: --source"),
            (("--source", "bench", "--count", "many"), "--count: 'many' is not a whole number"),
        ],
    )
    def test_options(
        self,
        options: tuple[object, ...],
        message: str,
        bundle_folder: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert run(bundle_folder, *options) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        assert message in line

    def test_no_bundle(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(tmp_path, "--source", "bench") == 2
        assert "is no bundle" in capsys.readouterr().err

    def test_a_folder_without_a_readable_picture(
        self, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "a.png").write_bytes(b"no picture")
        assert run(bundle_folder, "--source", tmp_path, "--cut", "device") == 2
        *_, last = capsys.readouterr().err.splitlines()
        assert last.startswith("error: source ")


def test_the_reader_of_the_lines_may_go_away(bundle_folder: Path) -> None:
    script = "import sys; from device_agent.cli import main; sys.exit(main())"
    options = ["--source", "bench", "--cut", "device", "--jsonl", "-", "--count", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(bundle_folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read().startswith("what ")  # the summary, and no complaint
    process.stderr.close()


def test_runs_without_the_packages_of_the_planning_machine(
    bundle_folder: Path, photos: Path, worker: WorkerProcess
) -> None:
    script = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("onnx", "scipy", "torch", "yaml", "onnx_ir", "ml_dtypes"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
from device_agent.cli import main
from protocol import Progress
sys.exit(main())
"""
    options = ["--worker", worker.address, "--source", str(photos), "--jsonl", "-"]
    options += map(str, PATIENT)
    done = subprocess.run(
        [sys.executable, "-c", script, str(bundle_folder), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert value(done.stderr, "frames") == "3"
    assert "warning" not in done.stderr
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {answer["computed_on"] for answer in answers} == {"cloud"}
    assert {answer["top5"][0]["label"] for answer in answers} == set(LABELS[:3])
