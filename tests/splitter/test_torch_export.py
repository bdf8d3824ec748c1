"""A network exported from torch, cut anywhere, answers as torch does."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from splitter.extraction import disagreement, run_parts, write_head, write_tail
from tests.splitter.helpers import ENGINE, prepare_file

torch = pytest.importorskip("torch", reason="needs torch, which is never installed by default")


def test_every_cut_of_an_exported_network_answers_as_torch_does(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU6(),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
        torch.nn.Hardswish(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 10),
    ).eval()
    picture = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        answer = network(picture).numpy()
    path = tmp_path / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is deprecated
        torch.onnx.export(
            network, (picture,), path, dynamo=False, input_names=["x"], output_names=["y"]
        )
    feeds = {"x": picture.numpy().astype(np.float32)}
    prepared = prepare_file(path, feeds, tmp_path / "stored")
    cuts = list(prepared.space.all_cuts())
    assert len(cuts) > 4
    for cut in cuts:
        head = write_head(prepared.stored, cut, prepared.slots, "head.onnx")
        tail = write_tail(prepared.stored, cut, prepared.slots, "tail.onnx")
        parts = run_parts(ENGINE, head, tail, feeds)
        assert disagreement({"y": answer}, parts) <= 1e-5
