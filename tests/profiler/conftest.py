"""Small models made in code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
import pytest
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


@pytest.fixture
def save_model(tmp_path: Path) -> Callable[..., Path]:
    """Save nodes as a model; inputs and outputs map names to shapes (float32) or ValueInfos."""

    def save(
        nodes: Sequence[onnx.NodeProto],
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        weights: Sequence[onnx.TensorProto] = (),
        name: str = "model.onnx",
    ) -> Path:
        graph = helper.make_graph(
            list(nodes), "graph", _values(inputs), _values(outputs), list(weights)
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, tmp_path / name)
        return tmp_path / name

    return save


def _values(shapes: dict[str, Any]) -> list[onnx.ValueInfoProto]:
    values = []
    for name, shape in shapes.items():
        dtype, axes = shape if isinstance(shape, tuple) else (TensorProto.FLOAT, shape)
        values.append(helper.make_tensor_value_info(name, dtype, axes))
    return values
