"""The trial in its child process: it ends in its time, and with whoever asked for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from profiler.graph import trial
from profiler.graph.model import load_model
from profiler.graph.weights import StoredModel, store_model
from tests.zoo import chain_cnn, loop_state

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def endless(tmp_path: Path) -> StoredModel:
    model = loop_state()
    (tmp_path / "endless.onnx").write_bytes(model.proto.SerializeToString())
    feeds = {**model.feeds, "n": np.array(1 << 62)}
    trial.write_job(tmp_path, feeds, feeds, [])
    return store_model(load_model(tmp_path / "endless.onnx"), tmp_path)


def run_limited(stored: StoredModel, seconds: float) -> subprocess.CompletedProcess[str]:
    folder = str(stored.folder)
    code = (
        "from pathlib import Path; from profiler.graph import trial\n"
        f"trial.RUN_LIMIT_S = {seconds}; trial._TIMES_AS_LONG = 0\n"
        f"trial.main(Path({str(stored.full)!r}), Path({folder!r}))"
    )
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_a_run_without_end_is_ended_and_says_what_to_do(endless: StoredModel) -> None:
    done = run_limited(endless, 0.1)
    assert done.returncode == 1
    assert done.stderr.startswith("a run has not ended after 0 s, the limit; look for a Loop")
    assert json.loads((endless.folder / trial.RESULT_FILE).read_text())["step"] == "run"


def test_a_run_is_given_minutes_and_twenty_times_what_loading_took() -> None:
    assert trial.RUN_LIMIT_S >= 300
    assert trial._TIMES_AS_LONG >= 20


def test_the_child_knows_who_asked(tmp_path: Path) -> None:
    model = chain_cnn()
    trial.write_job(tmp_path, model.feeds, model.feeds, [])
    assert json.loads((tmp_path / trial.JOB_FILE).read_text())["parent"] == os.getpid()
