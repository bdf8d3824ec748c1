"""The command with another engine or provider, as a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

from cloud_worker.cli import main
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.model import load_model
from protocol import RefusalCode, Refuse, Result
from tests.cloud_worker.support import arrays, hello, tensor
from tests.cloud_worker.test_cli import IMAGE, offer, started

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cloud_worker.support import Peer

    Connect = Callable[[str], Peer]


def save_detector(path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1,4,4] x, float[1,1,4] scores) => (int64[n,3] kept) {
      boxes = Relu (x)
      kept = NonMaxSuppression (boxes, scores) }"""
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())


def test_torch_answers_as_onnx_runtime_does_and_refuses_what_it_lacks(
    models: Path, connect: Connect
) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    save_detector(models / "detector.onnx")
    session = OnnxRuntimeEngine(EngineOptions(threads=1)).load(models / "net.onnx")
    expected = session.run({"image": IMAGE})["answer"]
    with started(models, "--engine", "torch", "--threads", "1") as worker:
        assert worker.ready.startswith("serving 2 models on ")
        refused = connect(worker.address).ask(
            hello(
                model=load_model(models / "detector.onnx").identity.sha256,
                frontier=("boxes", "scores"),
                results=("kept",),
            )
        )
        assert isinstance(refused, Refuse), refused
        assert refused.code is RefusalCode.LOAD_FAILED, refused
        assert "it has no NonMaxSuppression" in refused.text
        for number, frontier in enumerate(("image", "skip")):
            peer = connect(worker.address)
            peer.welcome(**offer(models, frontier), incarnation=bytes([number]) * 16)
            feed = IMAGE if frontier == "image" else IMAGE * 2
            answer = peer.ask(peer.request(1, tensor(feed, frontier)))
            assert isinstance(answer, Result), answer
            np.testing.assert_allclose(arrays(answer.tensors)["answer"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--provider", "nonesuch"], "no execution provider 'nonesuch'"),
        (["--engine", "tensorflow"], "invalid choice: 'tensorflow'"),
    ],
)
def test_engines_and_providers_that_are_not_there(
    models: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--models", str(models), "--bind", "tcp://127.0.0.1:0", *options]) == 2
    assert message in capsys.readouterr().err
