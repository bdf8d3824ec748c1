"""The demo runs; what it measures depends on the machine and is not looked at here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from demos import stage
from demos.__main__ import run_demo
from demos.photos import read_photos


@pytest.mark.timeout(300)
def test_all_labels_are_right_in_three_modes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo(tmp_path, passes=1, rounds=1) == 0
    printed = capsys.readouterr().out
    assert "6 times slower" in printed
    assert "Codec time is not stretched" in printed
    rows = [line for line in printed.splitlines() if line.endswith("5/5")]
    assert [row.split("  ")[0].rstrip(" *") for row in rows] == [
        "device-only",
        "cloud-only (JPEG)",
        "best split",
    ]
    assert sum("*" in row for row in rows) == 1
    assert "WRONG" not in printed
    plan = json.loads((tmp_path / "bundle" / "plan.json").read_text())
    assert plan["device"]["name"] == "this machine x 6"
    assert plan["link"] == {"uplink_mbps": 20, "downlink_mbps": 20, "rtt_ms": 20}
    for name in read_photos():
        assert name in printed


def test_a_worker_that_does_not_start_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(stage.DemoError, match="worker did not start"),
        stage.running_worker(tmp_path / "nowhere"),
    ):
        pass


def test_a_device_that_fails_is_named(tmp_path: Path) -> None:
    answers = stage.run_device(tmp_path, "device", 4, tmp_path, 1, "tcp://127.0.0.1:1")
    with pytest.raises(stage.DemoError, match="exit code 2"):
        list(answers)


def test_commands_run_with_this_interpreter() -> None:
    assert stage._command("splitter.command", ["--help"])[0] == sys.executable
