"""ONNX's own cases for each operator: computed to their tolerance, or refused as listed here."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from profiler.errors import EngineError
from profiler.torch_engine import TorchEngine
from profiler.torch_engine.catalogue import BODIES, operator_names

if TYPE_CHECKING:
    from collections.abc import Iterator

CLAIMED = {*operator_names(), *BODIES}
REFUSED_FILE = Path(__file__).with_name("refused_cases.txt")
# Modules whose cases take seconds to make and are of no claimed operator.
SLOW_MODULES = {"ai_onnx_ml", "image_decoder", "lppool"}
# One unit in the last place of half precision is as wide as the tolerance.
COARSE = {"test_attention_4d_causal_fp16_expanded"}


def cases() -> Iterator[Any]:
    """ONNX offers all at once; making those of one module after the other leaves some out."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cases of overflow and of NaN make numpy warn
        for module in pkgutil.iter_modules(node.__path__):
            if module.name not in SLOW_MODULES:
                importlib.import_module(f"{node.__name__}.{module.name}")
    for case in node._NodeTestCases:
        if {item.op_type for item in case.model.graph.node} <= CLAIMED:
            yield case


def array_of(value: Any) -> np.ndarray:
    is_stored = isinstance(value, onnx.TensorProto)
    return onnx.numpy_helper.to_array(value) if is_stored else np.asarray(value)


def refusal(engine: TorchEngine, case: Any, path: Path) -> str | None:
    """Run a case; return why it was refused."""
    path.write_bytes(case.model.SerializeToString())
    try:
        session = engine.load(path)
        for given, wanted in case.data_sets:
            pairs = zip(session.inputs, given, strict=True)
            results = session.run({slot.name: array_of(value) for slot, value in pairs})
            for result, expected in zip(results.values(), map(array_of, wanted), strict=True):
                assert (result.dtype, result.shape) == (expected.dtype, expected.shape), case.name
                rtol = 2e-3 if case.name in COARSE else case.rtol
                np.testing.assert_allclose(
                    result, expected, rtol=rtol, atol=case.atol, err_msg=case.name
                )
    except EngineError as error:
        return str(error)
    return None


def is_of_a_type_not_carried(text: str) -> bool:
    """Whether nothing but element types is lacking: those are listed in one place, dtypes.py."""
    lacking = re.findall(r"(?:no |, )([^,]*?) \(node ", text)
    return bool(lacking) and all(
        re.search(
            r"(bfloat16|complex\d+|float[468]\w*|u?int[24]|uint16|uint32|uint64) tensors$", what
        )
        for what in lacking
    )


def test_each_case_is_computed_or_refused_as_listed(tmp_path: Path) -> None:
    engine, refused, computed = TorchEngine(1), set(), 0
    for case in cases():
        text = refusal(engine, case, tmp_path / "case.onnx")
        computed += text is None
        if text is not None and not is_of_a_type_not_carried(text):
            refused.add(case.name)
    assert sorted(refused) == REFUSED_FILE.read_text().split()
    assert computed > 1000


def test_what_all_networks_here_use_is_claimed() -> None:
    """The types of the 22 networks beside the checkout; the table must not lose one."""
    assert set(NETWORK_OPERATORS.split()) <= CLAIMED


NETWORK_OPERATORS = """
Add AveragePool BatchNormalization Cast Clip Concat Constant ConstantOfShape Conv ConvTranspose
DequantizeLinear Div Dropout Equal Erf Exp Expand Flatten Gather Gemm GlobalAveragePool
GlobalMaxPool HardSigmoid HardSwish Identity If InstanceNormalization LRN LSTM LayerNormalization
LessOrEqual MatMul Max MaxPool Mul Not PRelu Pad Pow QuantizeLinear Range Reciprocal ReduceL2
ReduceMax ReduceMean ReduceSum Relu Reshape Resize Shape Sigmoid Size Slice Softmax Split Sqrt
Squeeze Sub Sum Tanh Transpose Unsqueeze Where
"""
