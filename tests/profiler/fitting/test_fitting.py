"""Presets are fitted: known rates come back, and the shipped files are what the script writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from profiler import presets
from profiler.costs import Rates
from profiler.errors import PresetError
from profiler.fitting.cli import fitted_sections, main
from profiler.fitting.networks import built_networks, read_networks
from profiler.fitting.regression import fit_rates, leave_one_network_out
from profiler.fitting.table import Measured, Selection, read_rows
from profiler.presets import preset_file, preset_names

if TYPE_CHECKING:
    from pathlib import Path

TRUTH = Rates(
    {"conv1x1": 10.0, "conv3x3": 8.0, "depthwise": 2.0},
    bandwidth_gb_s=4.0,
    layer_us=50,
)


def rows_of(rates: Rates) -> list[Measured]:
    """What a machine of these rates would have published."""
    rows = []
    for name, build in built_networks().items():
        network = build(224)
        latency_ms = sum(rates.latency_ms(work) for work in network)
        rows.append(Measured(name, "tflite", latency_ms, network, "made up"))
    return rows


def test_known_rates_come_back() -> None:
    fit = fit_rates(rows_of(TRUTH))
    for kind in ("conv1x1", "depthwise"):
        assert fit.gmacs_s(kind) == pytest.approx(TRUTH.gmacs_s[kind], rel=1e-3)
    assert fit.gmacs_s("conv3x3@tflite") == pytest.approx(8.0, rel=1e-3)
    assert 1 / fit.ms_by_column["megabyte"] == pytest.approx(4.0, rel=1e-3)
    assert fit.ms_by_column["layer@tflite"] == pytest.approx(0.05, rel=1e-3)


def test_a_network_left_out_is_predicted_by_the_others() -> None:
    left_out = leave_one_network_out(rows_of(TRUTH))
    assert len(left_out) == len(built_networks())
    assert all(abs(item.error) < 1e-3 for item in left_out)


def test_the_engine_factor_slows_everything_down() -> None:
    sections = fitted_sections(rows_of(TRUTH), engine_factor=2.0)
    rates = sections["rates"]
    assert rates["gmacs_s"]["conv1x1"] == rates["gmacs_s"]["conv3x3"] == 5.0
    assert rates["gmacs_s"]["depthwise"] == 1.0
    assert (rates["bandwidth_gb_s"], rates["layer_us"]) == (2.0, 100.0)
    assert sections["error"]["leave_one_network_out_median"] == 0


@pytest.mark.parametrize(
    ("name", "side", "megamacs"),
    [
        # From the papers that define them: arXiv:1704.04861 and 1801.04381; EfficientNet-Lite0 is
        # counted from the network itself.
        ("mobilenet_v1", 224, 569),
        ("mobilenet_v1_0.5", 224, 149),
        ("mobilenet_v2", 224, 300),
        ("mobilenet_v2_1.4", 224, 582),
        ("efficientnet_lite0", 224, 385.19),
    ],
)
def test_built_networks_have_the_published_size(name: str, side: int, megamacs: float) -> None:
    network = built_networks()[name](side)
    total = sum(sum(work.macs.values()) for work in network)
    assert total / 1e6 == pytest.approx(megamacs, rel=0.005)


def test_layers_are_read_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text(
        "model,type,in_shapes,kernel,groups,macs,weight_elems,in_elems,out_elems\n"
        "net,Input,,,,0,0,0,300\n"
        "net,Convolution,10x10x3,3x3,1,2700,27,300,100\n"
        "net,ConvolutionDepthWise,10x10x8,3x3,8,7200,72,800,800\n"
        "net,ConvolutionDepthWise,10x10x8,3x3,2,9,9,9,9\n"
        "net,InnerProduct,800,,,8000,8000,800,10\n"
        "net,Softmax,10,,,,0,10,10\n"
    )
    network = read_networks(path)["net"]
    assert [work.kind for work in network] == [
        "conv3x3",
        "depthwise",
        "conv",
        "dense",
        "elementwise",
    ]
    assert network[0].moved_bytes == 4 * (27 + 300 + 100)
    assert network[3].moved_bytes == 2 * 8000 + 4 * 810  # weights in 16 bits


def test_a_missing_table_or_machine_is_named(tmp_path: Path, shared: Path) -> None:
    with pytest.raises(PresetError, match=r"no measurements_fit\.csv in"):
        read_rows(tmp_path, [])
    with pytest.raises(PresetError, match=r"no row of .*pi99"):
        read_rows(shared / "data" / "devices", [Selection("pi99", "ncnn", "4")])


def test_shipped_presets_are_what_the_script_writes(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: preset_file(name).read_text(encoding="utf-8") for name in preset_names()}
    for name, text in before.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(presets, "_FOLDER", tmp_path)
    assert main(["--table", str(shared / "data" / "devices"), "--write"]) == 0
    for name, text in before.items():
        written = (tmp_path / f"{name}.yaml").read_text(encoding="utf-8")
        assert yaml.safe_load(written) == yaml.safe_load(text)


def test_a_wrong_table_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--table", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: there is no measurements_fit.csv")
