"""Real networks on the torch engine: what ONNX Runtime computes, whole and cut."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from profiler.graph.feeds import read_feeds
from profiler.torch_engine import TorchEngine
from profiler.torch_engine.compiling import Compiler
from profiler.torch_engine.reading import read_for_torch, read_weight, standard_opset
from splitter.extraction import run_parts, write_head, write_tail
from tests.profiler.torch_engine.reference import run_unoptimised
from tests.splitter.helpers import ENGINE, prepare_file
from tests.splitter.test_extraction import SHARED_NETWORKS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from profiler.engine import Session

    Arrays = Mapping[str, NDArray[Any]]

QUANTISED = "efficientnet_lite0_qdq_int8"
FLOATING = [name for name in SHARED_NETWORKS if name != QUANTISED]


def assert_close(results: Arrays, expected: Arrays) -> None:
    """Within 1e-4 of the largest magnitude."""
    assert results.keys() == expected.keys()
    for name, array in expected.items():
        assert (results[name].dtype, results[name].shape) == (array.dtype, array.shape)
        largest = max(float(np.abs(array).max(initial=0)), 1e-6)
        np.testing.assert_allclose(results[name], array, rtol=0, atol=1e-4 * largest)


@pytest.mark.parametrize("name", FLOATING)
def test_a_network_is_computed_as_by_onnx_runtime(name: str, shared: Path) -> None:
    path = shared / "models" / f"{name}.onnx"
    feeds = read_feeds(path.with_suffix(".feed.npz"))
    expected = ENGINE.load(path).run(feeds)
    assert_close(TorchEngine(1).load(path).run(feeds), expected)


class TestAQuantisedNetwork:
    """Where a float sum lies next to a half, two libraries round it to different whole numbers.

    Such a step goes through all later layers. ONNX Runtime itself, with its integer kernels, ends
    18 steps away from its own plain kernels, and takes another class for the likeliest.
    """

    def test_no_result_is_more_than_two_steps_away(self, shared: Path) -> None:
        path = shared / "models" / f"{QUANTISED}.onnx"
        feeds = read_feeds(path.with_suffix(".feed.npz"))
        (expected,) = run_unoptimised(path, feeds).values()
        (result,) = TorchEngine(1).load(path).run(feeds).values()
        step = np.diff(np.unique(expected)).min()
        assert np.abs(result - expected).max() < 2.5 * step
        assert result.argmax() == expected.argmax()

    def test_from_the_same_values_each_layer_is_at_most_a_step_away(
        self, shared: Path, tmp_path: Path
    ) -> None:
        """Each quantised tensor is computed from those that ONNX Runtime made before it."""
        path = shared / "models" / f"{QUANTISED}.onnx"
        feeds = read_feeds(path.with_suffix(".feed.npz"))
        made = [node.output[0] for node in onnx.load(path).graph.node if is_quantising(node)]
        whole = tmp_path / "whole.onnx"
        onnx.save(with_outputs(onnx.load(path), made), whole)
        expected = run_unoptimised(whole, feeds)
        layers = with_outputs(onnx.load(path), made)
        for node in layers.graph.node:
            if node.op_type == "DequantizeLinear" and node.input[0] in made:
                node.input[0] = f"given:{node.input[0]}"
        types = {name: (onnx.TensorProto.UINT8, expected[name].shape) for name in made}
        layers.graph.input.extend(
            onnx.helper.make_tensor_value_info(f"given:{name}", *kind)
            for name, kind in types.items()
        )
        onnx.save(layers, tmp_path / "layers.onnx")
        given = {f"given:{name}": expected[name] for name in made}
        results = TorchEngine(1).load(tmp_path / "layers.onnx").run({**feeds, **given})
        differing = 0
        for name in made:
            steps = np.abs(results[name].astype(int) - expected[name].astype(int))
            differing += np.count_nonzero(steps)
            assert steps.max() <= 1
        assert differing < 1e-4 * sum(expected[name].size for name in made)


def is_quantising(node: onnx.NodeProto) -> bool:
    return node.op_type == "QuantizeLinear"


def with_outputs(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in known
    )
    return model


class HeadsElsewhere:
    """Loads heads with ONNX Runtime and tails with torch, as a device and a worker do."""

    name, version = "both", "1"

    def load(self, path: Path) -> Session:
        return (TorchEngine(1) if path.name == "tail.onnx" else ENGINE).load(path)


@pytest.mark.parametrize(
    "name", ["efficientnet_lite0", "mtcnn_onet", "silero_vad_16k_sequence", "tinygpt_prefill"]
)
def test_tails_end_as_the_whole_does(name: str, shared: Path, tmp_path: Path) -> None:
    path = shared / "models" / f"{name}.onnx"
    prepared = prepare_file(path, read_feeds(path.with_suffix(".feed.npz")), tmp_path)
    expected = ENGINE.load(path).run(prepared.feeds)
    for cut in prepared.space.sample(2, seed=1):
        head = write_head(prepared.stored, cut, prepared.slots, "head.onnx")
        tail = write_tail(prepared.stored, cut, prepared.slots, "tail.onnx")
        values = run_parts(HeadsElsewhere(), head, tail, prepared.feeds)
        assert_close({name: values[name] for name in expected}, expected)


@pytest.mark.parametrize(
    "name",
    ["efficientnet_lite0", "magika_v3_3", "ppocrv4_rec", "tinygpt_decode", "xfeat_480x640"],
)
def test_an_accelerator_is_not_waited_for(name: str, shared: Path) -> None:
    """On torch's device ``meta``, which has no values to be read; see test_engine.py."""
    path = shared / "models" / f"{name}.onnx"
    feeds = read_feeds(path.with_suffix(".feed.npz"))
    with torch.inference_mode():
        proto = read_for_torch(path)
        compiler = Compiler(standard_opset(proto), torch.device("meta"), partial(read_weight, path))
        program = compiler.compile(proto.graph)
        tensors = [torch.from_numpy(feeds[value.name]) for value in proto.graph.input]
        results = program.run(tensors, lambda _: None)
    expected = ENGINE.load(path).run(feeds)
    assert [tuple(result.shape) for result in results] == [a.shape for a in expected.values()]
