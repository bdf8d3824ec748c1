"""``splitter.plan`` decides what the command decides, for files and for modules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import splitter
from protocol.errors import HeadtailError
from splitter.cli import run
from splitter.errors import PlanError
from splitter.wishes import Keep, Load, Prices
from tests.zoo import resnet_toy

LINK = "20mbps,rtt=10ms"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    model = resnet_toy()
    path = tmp_path / "toy.onnx"
    path.write_bytes(model.proto.SerializeToString())
    return path


def test_the_function_decides_what_the_command_decides(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(path), "--device", "pi3", "--link", LINK, "--json"]
    arguments += ["--subject-to", "latency_ms<=1000", "--keep-on-device", "input"]
    arguments += ["--codec", "affine8,raw", "--objective", "throughput"]
    assert run(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    plan = splitter.plan(
        path,
        device="pi3",
        link=LINK,
        constraints=["latency_ms<=1000", Keep("input")],
        codecs=["affine8", "raw"],
        objective="throughput",
    )
    assert json.loads(json.dumps(plan.to_dict())) == told


def test_money_and_load_and_edges(path: Path) -> None:
    plan = splitter.plan(
        path,
        device="pi4",
        link="wifi",
        edges=[("laptop-i7-12700h", "ethernet")],
        objective="money, latency",
        prices=Prices(0.5, 0.1),
        load=Load(factor=0.5),
    )
    assert plan.chosen.decision == "device"  # which costs nothing in the cloud
    assert plan.chosen.predicted.usd_per_1000 == 0
    assert plan.cloud_only.predicted.queue_ms > 0
    assert len(plan.edges) == 1


def test_a_bundle_carries_the_family(path: Path, tmp_path: Path) -> None:
    feeds = resnet_toy().feeds
    plan = splitter.plan(path, device="pi3", link=LINK, feeds=feeds, bundle=tmp_path / "bundle")
    bundle = splitter.open_bundle(tmp_path / "bundle")
    assert plan.family is not None
    assert {member.cut for member in plan.family.members} <= set(bundle.cuts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "speed"}, "no metric 'speed'"),
        ({"constraints": ["latency<=3"]}, "did you mean 'latency_ms'"),
        ({"device": "pi9"}, "no device preset 'pi9'"),
        ({"example": 3}, "example is for modules"),
        ({"codecs": ["affine9"]}, "affine9"),
    ],
)
def test_what_is_wrong_is_named(path: Path, changes: dict[str, object], message: str) -> None:
    arguments = {"device": "pi4", "link": LINK, **changes}
    with pytest.raises(HeadtailError, match=message):
        splitter.plan(path, **arguments)  # type: ignore[arg-type]


def test_a_module_is_exported_and_compared() -> None:
    torch = pytest.importorskip("torch", reason="needs torch, which is never installed by default")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.5)
    )
    plan = splitter.plan(network, example=torch.randn(1, 3, 16, 16), device="pi4", link=LINK)
    assert plan.device_nodes or plan.cloud_nodes
    assert network.training  # as it was


def test_modules_that_cannot_be_planned_are_refused() -> None:
    torch = pytest.importorskip("torch", reason="needs torch, which is never installed by default")
    layer = torch.nn.Linear(2, 2)
    with pytest.raises(PlanError, match="give example=TENSOR"):
        splitter.plan(layer, device="pi4", link=LINK)
    with pytest.raises(PlanError, match="cannot be exported to ONNX"):
        splitter.plan(layer, example=torch.zeros(3, 3), device="pi4", link=LINK)

    class Random(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: object) -> object:
            return torch.rand_like(x) + x  # type: ignore[call-overload, operator]

    with pytest.raises(PlanError, match="away from the module"):
        splitter.plan(Random(), example=torch.ones(1, 4), device="pi4", link=LINK)
