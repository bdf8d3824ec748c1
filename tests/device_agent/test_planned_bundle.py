"""A bundle as split-plan makes it, every cut of it run against the worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from device_agent.cli import main as run_agent
from splitter.bundle import open_bundle
from splitter.command import main as run_plan
from tests.device_agent.conftest import LABELS, WorkerProcess

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def planned(bundle_folder: Path, tmp_path: Path) -> Path:
    model, target = bundle_folder / "full.onnx", tmp_path / "planned"
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    config = tmp_path / "config.yaml"
    config.write_text("labels: labels.txt\n")
    where = ["--device", "pi4", "--link", "20mbps", "-o", str(target)]
    where += ["--model-config", str(config)]
    assert run_plan([str(model), *where]) == 0
    return target


def test_every_cut_gives_the_same_classes(planned: Path, tmp_path: Path) -> None:
    scores: dict[str, Any] = {}
    with WorkerProcess(planned) as worker:
        for cut in open_bundle(planned).cuts:
            out = tmp_path / cut
            options = ["--worker", worker.address, "--cut", cut, "--source", "bench"]
            options += ["--deadline-ms", "30000"]  # for a worker on a busy machine
            assert run_agent([str(planned), *options, "--count", "2", "--jsonl", str(out)]) == 0
            lines = [json.loads(line) for line in out.read_text().splitlines()]
            wanted = "device" if cut == "device" else "cloud"
            assert [line["computed_on"] for line in lines] == [wanted] * 2
            scores[cut] = {guess["index"]: guess["score"] for guess in lines[0]["top5"]}
    assert {"cloud", "device"} < set(scores)
    for found in scores.values():
        assert found == pytest.approx(scores["device"], abs=0.02)
