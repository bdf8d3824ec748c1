"""``split-plan`` as people and machines use it: real processes, exit codes, one line a mistake."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import splitter
from profiler.errors import ProfileError
from profiler.graph.model import load_model
from profiler.links.presets import link_preset_names
from profiler.presets import preset_names
from profiler.testing import fake_profile
from splitter.bundle import open_bundle
from splitter.cli import run
from splitter.command import main
from splitter.errors import PlanError
from tests.cloud_worker.support import tails
from tests.cloud_worker.test_server import serve
from tests.splitter.page.plans import figures, read_page
from tests.zoo import batch_concat, chain_cnn, loop_state, runtime_operator

PREDICTED = {
    "latency_ms", "device_ms", "encode_ms", "uplink_ms", "uplink_p50_ms", "uplink_p95_ms",
    "queue_ms", "decode_ms", "cloud_ms", "downlink_ms", "uplink_bytes",
    "device_energy_mj", "compute_mj", "radio_mj", "waiting_mj", "edge_ms", "edge_link_ms",
    "downlink_bytes", "period_ms", "bottleneck", "device_memory_bytes", "usd_per_1000", "kl_nats",
}  # fmt: skip


def split_plan(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "splitter.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "chain.onnx"
    path.write_bytes(chain_cnn().proto.SerializeToString())
    return path


def plan_json(*arguments: object) -> dict[str, Any]:
    process = split_plan(*arguments, "--json")
    assert process.returncode == 0, process.stderr
    plan: dict[str, Any] = json.loads(process.stdout)
    return plan


def test_json_is_one_object_with_the_promised_keys(model: Path) -> None:
    plan = plan_json(model, "--device", "pi4", "--link", "20mbps/5mbps,rtt=30ms")
    assert 0 <= plan["memory"]["head_bytes"] < 1 << 30
    assert plan["memory"]["head_bytes"] + plan["memory"]["tail_bytes"] > 0
    assert plan["schema"] == 1
    assert plan["model"]["name"] == "chain"
    assert len(plan["model"]["sha256"]) == 64
    assert plan["objective"] == "latency"
    assert plan["link"] == {"uplink_mbps": 20.0, "downlink_mbps": 5.0, "rtt_ms": 30.0}
    assert plan["decision"] in {"device", "cloud", "split"}
    keys = {"id", "tensors", "device_nodes", "cloud_nodes", "edge_nodes", "onward_tensors"}
    assert set(plan["cut"]) == keys
    for costs in (plan["predicted"], plan["baselines"]["device"], plan["baselines"]["cloud"]):
        assert set(costs) == PREDICTED
    latencies = [item["predicted"]["latency_ms"] for item in plan["candidates"]]
    assert latencies == sorted(latencies)
    assert latencies[0] == plan["predicted"]["latency_ms"]
    for item in plan["candidates"]:
        for tensor in item["tensors"]:
            assert set(tensor) == {"name", "dtype", "shape", "codec", "bytes"}


def test_a_preset_of_a_link_tells_its_source_and_its_doubts(model: Path) -> None:
    plan = plan_json(model, "--device", "pi4", "--link", "lte,rtt=60ms")
    assert set(plan["link"]) == {"uplink_mbps", "downlink_mbps", "rtt_ms", "source", "power"}
    assert plan["link"]["rtt_ms"] == 60
    assert any(note.startswith("Link preset lte: ") for note in plan["notes"])
    text = split_plan(model, "--device", "pi4", "--link", "lte,rtt=60ms").stdout
    assert "\npreset lte, with the given round trip: " in text


def test_a_trace_is_planned_for_as_it_varies(model: Path, tmp_path: Path) -> None:
    (tmp_path / "drive.csv").write_text("t_s,mbps\n0,200\n1,20\n2,2\n")
    arguments = (model, "--device", "pi4", "--link", f"{tmp_path}/drive.csv,rtt=1ms")
    plan = plan_json(*arguments)
    assert plan["link"]["trace"]["mean_mbps"] == pytest.approx(74)
    cost = plan["baselines"]["cloud"]
    assert cost["uplink_p50_ms"] < cost["uplink_ms"] < cost["uplink_p95_ms"]
    assert "trace drive.csv: mean 74 Mbit/s over 3 s, outages 0%" in split_plan(*arguments).stdout


def test_a_link_to_a_worker_is_measured_and_told(model: Path) -> None:
    """The worker need not serve the model."""
    with serve(tails()) as worker:
        arguments = (model, "--device", "pi4", "--link", f"probe:{worker.address}")
        plan = plan_json(*arguments)
        assert plan["link"]["uplink_mbps"] > 100
        assert plan["link"]["source"].startswith(f"measured to {worker.address} in ")
        assert f"\nmeasured to {worker.address} in " in split_plan(*arguments).stdout


def test_the_table_shows_the_modes_and_no_control_characters(model: Path) -> None:
    process = split_plan(model, "--device", "pi4", "--link", "20mbps")
    assert process.returncode == 0
    for words in ("device only", "cloud only", "best split", "Best:", "pi4 (predicted"):
        assert words in process.stdout
    assert "\x1b" not in process.stdout
    assert process.stderr == ""


def test_a_report_is_a_page_beside_what_is_printed(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    plan = plan_json(model, "--device", "pi4", "--link", "20mbps", "--explain", "--report", page)
    assert figures(read_page(page.read_text(encoding="utf-8")))["device", "latency_ms"] == (
        f"{plan['baselines']['device']['latency_ms']:,.3f}",
        plan["baselines"]["device"]["latency_ms"],
    )
    page.unlink()
    told = split_plan(model, "--device", "pi4", "--link", "20mbps", "--report", page).stdout
    assert told.endswith(f"\nreport written to {page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_report_that_cannot_be_written_is_told_before_the_work(
    model: Path, tmp_path: Path
) -> None:
    for target, reason in ((tmp_path / "no" / "x.html", "no folder"), (tmp_path, "is no file")):
        process = split_plan(model, "--device", "pi4", "--link", "20mbps", "--report", target)
        assert (process.returncode, process.stdout) == (2, "")
        assert reason in process.stderr
        assert process.stderr.count("\n") == 1


def test_local_measures_and_a_bundle_is_written(model: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    plan = plan_json(
        model, "--device", "local", "--cloud", "local", "--link", "1gbps", "-o", bundle
    )
    assert plan["device"]["kind"] == "measured"
    opened = open_bundle(bundle)
    assert opened.model.sha256 == plan["model"]["sha256"]
    assert opened.plan == plan


def test_a_profile_file_is_a_device(model: Path, tmp_path: Path) -> None:
    profile = tmp_path / "p.json"
    subprocess.run(
        [sys.executable, "-m", "profiler.cli", model, "--runs", "5", "-o", profile],
        check=True,
        capture_output=True,
    )
    plan = plan_json(model, "--device", profile, "--link", "20mbps")
    assert plan["device"]["kind"] == "measured"
    other = tmp_path / "other.onnx"
    other.write_bytes(runtime_operator().proto.SerializeToString())
    process = split_plan(other, "--device", profile, "--link", "20mbps")
    assert_one_line(process, "is of chain")


def test_costs_that_other_profilers_recorded_are_device_and_cloud(
    model: Path, tmp_path: Path
) -> None:
    """ONNX Runtime's own profile on one side, a trace in Chrome's format on the other."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "board")
    session = onnxruntime.InferenceSession(str(model), options, ["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    for _ in range(4):
        session.run(None, {given.name: np.ones(given.shape, np.float32)})
    board = Path(session.end_profiling())
    names = [node.output[0] for node in onnx.load(model).graph.node]
    trace = tmp_path / "cloud.trace"
    place = {"ph": "X", "pid": 1, "tid": 1, "dur": 50}
    events = [{"name": name, "ts": 100 * at, **place} for at, name in enumerate(names)]
    trace.write_text(json.dumps(events)[:-1])  # as a process leaves it that was killed
    plan = plan_json(model, "--device", board, "--cloud", trace, "--link", "20mbps")
    assert plan["device"]["name"] == board.name
    assert plan["device"]["kind"] == plan["cloud"]["kind"] == "measured"
    notes = "\n".join(plan["notes"])
    assert f"{board.name}: Recorded by ONNX Runtime's own profiler" in notes
    assert f"{trace.name}: Recorded as a trace (runs: 1)" in notes
    assert "those of the preset pi4" in notes
    assert "those of the preset cloud-cpu" in notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ('[{"name": "conv", "ph": "X"', "is cut short"),
        ('[{"name": "conv", "ph": "X", "ts": 0, "dur": NaN}]', "dur is nan"),
        ('{"traceEvents": [{"name": "dense", "ph": "X", "ts": 0, "dur": 9}]}', "such as 'dense'"),
        ('{"schema": 99}', "update headtail"),
    ],
)
def test_costs_that_are_none_are_one_line(
    model: Path, tmp_path: Path, text: str, message: str
) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(text)
    assert_one_line(split_plan(model, "--device", costs, "--link", "20mbps"), message)


@pytest.mark.parametrize("side", ["--device", "--cloud"])
@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (fake_profile({"a": 1.0}).to_dict(), "'fake' is of fake .* not of chain"),
        ([{"name": "dense", "ph": "X", "ts": 0, "dur": 9}], "none of its 1 events"),
        ([{"name": "a_kernel_time", "ph": "X", "ts": 0, "dur": 9}], "no complete run"),
    ],
)
def test_costs_of_another_model_are_refused_before_it_is_tried_out(
    side: str, costs: Any, message: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("splitter.request.observe")
    path = model.with_name("costs.json")
    path.write_text(json.dumps(costs))
    arguments = [str(model), "--device", "pi4", "--link", "20mbps", side, str(path)]
    with pytest.raises(ProfileError, match=message):
        run(arguments)


def test_a_codec_that_a_profile_lacks_is_refused_before_the_model_is_tried_out(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("splitter.request.observe")
    loaded = load_model(model)
    costs = {node.name: 1.0 for node in loaded.graph.nodes}
    inputs = [
        replace(slot, shape=tuple(axis or 1 for axis in slot.shape)) for slot in loaded.graph.inputs
    ]
    profile = fake_profile(costs, model=loaded.identity, inputs=inputs)
    path = model.with_name("costs.json")
    path.write_text(json.dumps(profile.to_dict()))
    with pytest.raises(PlanError, match="does not say how fast the codec 'affine8' is"):
        run([str(model), "--device", str(path), "--link", "20mbps"])


def test_a_model_config_beside_the_model_is_used(model: Path) -> None:
    model.with_suffix(".yaml").write_text(
        "preprocess: {height: 16, width: 16, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}\n"
    )
    plan = plan_json(model, "--device", "pi4", "--link", "100kbps")
    assert plan["baselines"]["cloud"]["uplink_bytes"] == round(16 * 16 * 2.87 / 8) + 64 + 96


def test_a_jpeg_is_said_to_be_estimated_only_where_one_would_be_sent(model: Path) -> None:
    block = "preprocess: {height: 16, width: 16, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}\n"
    model.with_suffix(".yaml").write_text(block)
    for link, codec, sent in (("100kbps", "affine8", "jpeg90"), ("10gbps", "raw", "raw")):
        plan = plan_json(model, "--device", "pi4", "--link", link, "--codec", codec)
        (cloud,) = (item for item in plan["candidates"] if item["cut"] == "cloud")
        assert [tensor["codec"] for tensor in cloud["tensors"]] == [sent]
        noted = any("a JPEG's size is estimated" in note for note in plan["notes"])
        assert noted == (sent == "jpeg90")


def test_free_axes_are_given_by_shape_or_by_feed(tmp_path: Path) -> None:
    path = tmp_path / "free.onnx"
    path.write_bytes(batch_concat().proto.SerializeToString())
    by_shape = plan_json(path, "--device", "pi4", "--link", "20mbps", "--input", "x:3x4")
    np.savez(tmp_path / "f.npz", x=np.ones((3, 4), np.float32))
    by_feed = plan_json(path, "--device", "pi4", "--link", "20mbps", "--feed", tmp_path / "f.npz")
    assert by_shape["baselines"]["device"] == by_feed["baselines"]["device"]


def test_a_question_mark_among_the_energies_is_explained(model: Path) -> None:
    reason = "\n? the radio's power is not known: typed rates, traces, probes and some presets name"
    assert reason in split_plan(model, "--device", "pi4", "--link", "20mbps").stdout
    for arguments in (("pi4", "wifi"), ("pi4", "lte"), ("cloud-cpu", "20mbps")):
        text = split_plan(model, "--device", arguments[0], "--link", arguments[1]).stdout
        assert "Best: " in text
        assert "?" not in text


def test_the_help_shows_examples_and_all_presets() -> None:
    text = split_plan("--help").stdout
    assert "\n  split-plan model.onnx --device pi4 --link 20mbps,rtt=10ms\n" in text
    known = " ".join(text.rpartition("examples:")[2].split())
    for names in (preset_names(), link_preset_names()):
        assert f": {', '.join(names)}" in known


def assert_one_line(process: subprocess.CompletedProcess[str], message: str) -> None:
    assert process.returncode == 2, process.stderr
    assert process.stdout == ""
    assert process.stderr.startswith("error: ")
    assert process.stderr.count("\n") == 1
    assert message in process.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.onnx"], "there is no file none.onnx"),
        (["."], "name the .onnx file in it"),
        (["garbage.onnx"], "is not an ONNX model"),
        (["free.onnx"], "free axes in input 'x' [?, 4]; fix them with --input x:1x4"),
        (["free.onnx", "--input", "x:3x5"], "the model wants [?, 4]"),
        (["free.onnx", "--input", "y:3x4"], "no input 'y'"),
        (["unknown.onnx"], "Frobnicate"),
        (["chain.onnx", "--device", "pi44"], "did you mean 'pi4'"),
        (["chain.onnx", "--device", "no.json"], "no.json"),
        (["chain.onnx", "--device", "garbage.onnx"], "garbage.onnx"),
        (["chain.onnx", "--cloud", "clod-cpu"], "did you mean 'cloud-cpu'"),
        (["chain.onnx", "--link", "fast"], "20mbps"),
        (["chain.onnx", "--link", "0mbps"], "0mbps"),
        (["chain.onnx", "--link", "5e-324mbps"], "out of range"),
        (["chain.onnx", "--link", "1e308mbps"], "out of range"),
        (["chain.onnx", "--codec", "affine9"], "did you mean 'affine8'"),
        (["chain.onnx", "--codec", "jpeg90"], "tensors take raw, float16, affine8, affine4"),
        (["chain.onnx", "--codec", "jpeg77"], "is for pictures"),
        (["chain.onnx", "--device", "/dev/zero"], "it is a device, not a file"),
        (["chain.onnx", "--device", "."], "it is a folder, not a file"),
        (["chain.onnx", "--model-config", "/dev/zero"], "it is a device, not a file"),
        (["chain.onnx", "--feed", "."], "it is a folder, not a file"),
        (["/dev/zero"], "it is a device, not a file"),
        (["chain.onnx", "--cut", "cloud"], "needs -o BUNDLE"),
        (["chain.onnx", "-o", "new/a/b", "--cut", "cut-0"], "the plan has no cut 'cut-0'"),
        (["chain.onnx", "-o", ""], "the name is empty"),
        (["chain.onnx", "-o", "."], "holds the working folder"),
        (["chain.onnx", "-o", "n" * 300], "File name too long"),
        (["chain.onnx", "-o", "new/a/b", "--link", "fast"], "no link preset 'fast'"),
        (["chain.onnx", "--link", "ltee"], "did you mean 'lte'"),
        (["chain.onnx", "--link", "lte,rtt=5s"], "is no round trip"),
        (["chain.onnx", "--link", "none.csv"], "cannot read the trace 'none.csv'"),
        (["chain.onnx", "--link", "garbage.onnx"], "garbage.onnx is no trace"),
        (["chain.onnx", "--link", "probe:"], "names no transport"),
        (["chain.onnx", "--link", "probe:tcp://127.0.0.1:1"], "start cloud-worker there"),
        (["chain.onnx", "--feed", "none.npz"], "none.npz"),
        (["chain.onnx", "--feed", "garbage.onnx"], "not a readable .npz"),
        (["chain.onnx", "--model-config", "none.yaml"], "none.yaml"),
        (["chain.onnx", "--model-config", "bad.yaml"], "did you mean 'labels'"),
        (["chain.onnx", "--model-config", "size.yaml"], "fits none of the model's 1 inputs"),
        (["chain.onnx", "-o", "chain.onnx"], "exists and is no bundle"),
        (["chain.onnx", "-o", "garbage.onnx/b"], "cannot write"),
        (["chain.onnx", "--frob"], "--frob"),
        ([], "MODEL"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "garbage.onnx").write_bytes(b"garbage")
    (tmp_path / "free.onnx").write_bytes(batch_concat().proto.SerializeToString())
    unknown = runtime_operator().proto
    unknown.graph.node[1].op_type = "Frobnicate"
    (tmp_path / "unknown.onnx").write_bytes(unknown.SerializeToString())
    (tmp_path / "bad.yaml").write_text("label: x.txt\n")
    (tmp_path / "size.yaml").write_text(
        "preprocess: {height: 9, width: 9, mean: [0, 0, 0], std: [1, 1, 1]}\n"
    )
    defaults = [["--device", "pi4"], ["--link", "20mbps"]]
    given = [pair for pair in defaults if pair[0] not in arguments]
    process = split_plan(*arguments, *(word for pair in given for word in pair), cwd=tmp_path)
    assert_one_line(process, message)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "new"))]


def test_a_bundle_runs_the_cut_that_is_asked_for(model: Path, tmp_path: Path) -> None:
    options = (model, "--device", "pi4", "--link", "20mbps")
    ids = [item["cut"] for item in plan_json(*options)["candidates"]]
    wanted = next(cut for cut in reversed(ids) if cut.startswith("cut-"))
    process = split_plan(*options, "-o", tmp_path / "b", "--cut", wanted)
    assert process.returncode == 0, process.stderr
    assert f"it runs {wanted}" in process.stdout
    assert open_bundle(tmp_path / "b").cut_id == wanted


def test_labels_that_no_answer_will_show_are_noted(model: Path) -> None:
    model.with_suffix(".yaml").write_text("labels: l.txt\n")
    model.with_name("l.txt").write_text("cat\ndog\n")
    notes = plan_json(model, "--device", "pi4", "--link", "20mbps")["notes"]
    assert any(note.startswith("No answer will show the 2 labels") for note in notes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_however_it_is_ended_no_child_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    """The trial of a Loop without end is running when the signal comes."""
    path = tmp_path / "endless.onnx"
    path.write_bytes(loop_state().proto.SerializeToString())
    np.savez(tmp_path / "f.npz", **{**loop_state().feeds, "n": np.array(1 << 62)})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "splitter.cli", str(path), "--device", "pi4", "-o"]
    command += [str(tmp_path / "new" / "b"), "--link", "1mbps", "--feed", str(tmp_path / "f.npz")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "", "TMPDIR": str(scratch)},
    ) as process:
        child = wait_for_trial(scratch, process)
        process.send_signal(number)
        output, errors = process.communicate()
    expected = -number if number == signal.SIGKILL else 128 + number
    assert (process.returncode, output, errors) == (expected, "", "")
    # A handle of a process becomes readable when the process has ended.
    assert select.select([child], [], [], 60)[0] == [child]
    os.close(child)
    if number != signal.SIGKILL:
        assert list(scratch.iterdir()) == []
        assert not (tmp_path / "new").exists()


def wait_for_trial(scratch: Path, process: subprocess.Popen[str]) -> int:
    """Wait until the child has begun its run; return a handle of it."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError((process.wait(0.05), process.communicate()))
        for path in scratch.glob("headtail-*/result.json"):
            if '"run"' in path.read_text():
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
                (child,) = children.split()
                return os.pidfd_open(int(child))


def test_exports_are_sorted_and_load() -> None:
    assert list(splitter.__all__) == sorted(splitter.__all__)
    for name in splitter.__all__:
        assert getattr(splitter, name) is not None


def test_wishes_and_their_explanation(model: Path) -> None:
    arguments = ("--device", "pi3", "--link", "20mbps,rtt=5ms", "--explain")
    arguments += ("--objective", "throughput", "--subject-to", "latency_ms<=10000")
    text = split_plan(model, *arguments)
    assert text.returncode == 0, text.stderr
    assert "for throughput, latency_ms<=10000" in text.stdout
    assert "frames a second" in text.stdout
    assert "latency_ms<=10000 does not bind" in text.stdout
    explanation = plan_json(model, *arguments)["explanation"]
    assert [item["constraint"] for item in explanation["constraints"]] == ["latency_ms<=10000"]


def test_a_machine_in_between(model: Path, tmp_path: Path) -> None:
    arguments = ("--device", "pi3", "--link", "wifi", "--edge", "pi5", "--edge-link", "ethernet")
    plan = plan_json(model, *arguments)
    assert len(plan["edges"]) == 1
    assert len(plan["cut"]["edge_nodes"]) == 1
    refused = split_plan(model, *arguments, "-o", tmp_path / "bundle")
    assert refused.returncode == 2
    assert "plan without --edge" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--subject-to", "latency_ms<=0.000001"], "the least possible is"),
        (["--subject-to", "latency_s<=1"], "did you mean 'latency_ms'"),
        (["--minimize", "money"], "give --cloud-usd-per-hour"),
        (["--minimize", "energy"], "name a link preset that has a radio"),
        (["--link-usd-per-gb", "1"], "needs --cloud-usd-per-hour"),
        (["--keep-on-device", "imago"], "no tensor or node of that name"),
        (["--keep-on-device", "first:0"], "give first:1 to"),
        (["--pin", "nobody=cloud"], "no node 'nobody'"),
        (["--pin", "conv"], "is not NODE=TIER"),
        (["--cannot-run", "device:Konv"], "did you mean 'Conv'"),
        (["--cannot-run", "edge:Conv"], "no tier 'edge'"),
        (["--cloud-load", "1"], "give 0 to below 1"),
        (["--cloud-load", "nan"], "give 0 to below 1"),
        (["--fps", "0"], "give a number above 0"),
        (["--devices", "3"], "give --fps too"),
        (["--devices", "1000", "--fps", "1000000", "--cannot-run", "device:Gemm"], "no plan keeps"),
        (["--edge", "pi4"], "there are 1 --edge and 0 --edge-link"),
        (["--codec", "affine8,affine9"], "codec 'affine9' is unknown"),
        (["--time-limit-s", "-1"], "give a number above 0"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused_in_one_line(
    model: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([str(model), "--device", "pi4", "--link", "20mbps", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_preset_says_which_operators_no_measurement_covers(tmp_path: Path) -> None:
    path = tmp_path / "recurrent.onnx"
    model = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        recurrent (float[4,1,3] x) => (float[4,1,1,8] y) { y = RNN <hidden_size=8> (x, w, r) }
        """
    )
    weights = {"w": np.ones((1, 8, 3), np.float32), "r": np.ones((1, 8, 8), np.float32)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in weights.items()
    )
    path.write_bytes(model.SerializeToString())
    notes = plan_json(path, "--device", "pi4", "--link", "20mbps")["notes"]
    assert any(
        note.startswith("pi4: No published row tells the rate of recurrent") for note in notes
    )
    convolutions = tmp_path / "chain.onnx"
    convolutions.write_bytes(chain_cnn().proto.SerializeToString())
    notes = plan_json(convolutions, "--device", "pi4", "--link", "20mbps")["notes"]
    assert not any(note.startswith("pi4: ") for note in notes)
