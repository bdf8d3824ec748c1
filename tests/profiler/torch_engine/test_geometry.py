"""Where windows, pads, samples and slices lie: any of them as ONNX Runtime does it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from profiler.engine import RUNTIME_ERRORS
from profiler.errors import EngineError
from profiler.torch_engine import TorchEngine
from tests.profiler.torch_engine.reference import run_unoptimised

ENGINE = TorchEngine(1)
# Where ONNX Runtime does otherwise than ONNX says, this engine takes neither side.
AMBIGUOUS = (
    "auto_pad=SAME_UPPER with strides longer than the kernel",
    "auto_pad=SAME_LOWER with strides longer than the kernel",
    "auto_pad=SAME_UPPER with strides longer than the window",
    "auto_pad=SAME_LOWER with strides longer than the window",
    "does not fit",
    "mode=nearest with half_pixel_symmetric",
    "align_corners with a scale that does not give a whole length",
    "scales other than 1 that leave all lengths as they are",
)
NO_FLOATS = np.zeros(0, np.float32)
MANY = settings(max_examples=40, deadline=None)


def save(
    path: Path,
    kind: str,
    x: np.ndarray,
    weights: dict[str, np.ndarray],
    opset: int,
    result: np.dtype,
    attributes: dict[str, Any],
) -> Path:
    """One node as a model."""
    given = {key: value for key, value in attributes.items() if value is not None}
    inputs = ["" if name == "none" else name for name in weights]
    node = helper.make_node(kind, ["x", *inputs], ["y"], **given)
    types = [helper.np_dtype_to_tensor_dtype(dtype) for dtype in (x.dtype, result)]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", types[0], x.shape)],
        [helper.make_tensor_value_info("y", types[1], None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items() if name != "none"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return path


def agree(
    kind: str,
    x: np.ndarray,
    weights: dict[str, np.ndarray],
    opset: int = 17,
    result: np.dtype | None = None,
    **attributes: Any,
) -> None:
    """One node on both; what ONNX Runtime refuses is no example. ``none`` is an input left out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        save(path, kind, x, weights, opset, result or x.dtype, attributes)
        try:
            (expected,) = run_unoptimised(path, {"x": x}).values()
        except RUNTIME_ERRORS:
            assume(False)
        assume(expected.size)  # windows that fit nowhere are refused
        try:
            (found,) = ENGINE.load(path).run({"x": x}).values()
        except EngineError as error:
            assume(not any(reason in str(error) for reason in AMBIGUOUS))
            raise
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(np.float32)


@st.composite
def windows(draw: st.DrawFn, *, autos: bool = True) -> dict[str, Any]:
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def axes(low: int, high: int, count: int = rank) -> st.SearchStrategy[list[int]]:
        return st.lists(st.integers(low, high), min_size=count, max_size=count)

    window: dict[str, Any] = {
        "lengths": draw(axes(3, 9)),
        "kernel_shape": draw(axes(1, 3)),
        "strides": draw(st.none() | axes(1, 3)),
        "dilations": draw(st.none() | axes(1, 2)),
    }
    auto = draw(st.sampled_from(["NOTSET"] * 3 + ["SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto != "NOTSET" and autos:
        window["auto_pad"] = auto
        if auto.startswith("SAME"):
            window["dilations"] = None  # ONNX Runtime's Conv does not take both
    else:
        window["pads"] = draw(st.none() | axes(0, 2, 2 * rank))
    return window


@MANY
@given(windows(), st.sampled_from([1, 2, 4]), st.booleans())
def test_conv(window: dict[str, Any], group: int, biased: bool) -> None:
    x = noise(2, 4, *window.pop("lengths"))
    weights = {"w": noise(8, 4 // group, *window["kernel_shape"])}
    if biased:
        weights["b"] = noise(8)
    agree("Conv", x, weights, group=group, **window)


@MANY
@given(windows(), st.sampled_from([1, 2]), st.booleans(), st.data())
def test_conv_transpose(
    window: dict[str, Any], group: int, biased: bool, data: st.DataObject
) -> None:
    x = noise(2, 4, *window.pop("lengths"))
    rank = x.ndim - 2
    weights = {"w": noise(4, 6 // group, *window["kernel_shape"])}
    if biased:
        weights["b"] = noise(6)
    steps = window["strides"] or [1] * rank
    added = [data.draw(st.integers(0, step - 1)) for step in steps]
    window["output_padding"] = data.draw(st.sampled_from([None, added]))
    agree("ConvTranspose", x, weights, group=group, **window)


@MANY
@given(windows(autos=False), st.integers(-2, 2), st.booleans())
def test_conv_transpose_to_a_wanted_shape(window: dict[str, Any], more: int, upper: bool) -> None:
    x = noise(1, 2, *window.pop("lengths"))
    rank = x.ndim - 2
    steps, gaps = window["strides"] or [1] * rank, window["dilations"] or [1] * rank
    spans = zip(x.shape[2:], steps, window["kernel_shape"], gaps, strict=True)
    full = [(n - 1) * step + (size - 1) * gap + 1 for n, step, size, gap in spans]
    window.pop("pads", None)
    window["output_shape"] = [max(length + more, 1) for length in full]
    if upper:
        window["auto_pad"] = "SAME_UPPER"
    agree("ConvTranspose", x, {"w": noise(2, 3, *window["kernel_shape"])}, **window)


@MANY
@given(windows(), st.booleans(), st.sampled_from([12, 17, 22]))
def test_max_pool(window: dict[str, Any], ceil: bool, opset: int) -> None:
    x = noise(1, 2, *window.pop("lengths"))
    agree("MaxPool", x, {}, opset, ceil_mode=int(ceil), **window)


@MANY
@given(windows(), st.booleans(), st.booleans(), st.sampled_from([11, 17, 19, 22]))
def test_average_pool(window: dict[str, Any], ceil: bool, with_pads: bool, opset: int) -> None:
    x = noise(1, 2, *window.pop("lengths"))
    if opset < 19:
        window["dilations"] = None
    flags = {"ceil_mode": int(ceil), "count_include_pad": int(with_pads)}
    agree("AveragePool", x, {}, opset, **flags, **window)


@MANY
@given(
    st.lists(st.integers(2, 4), min_size=1, max_size=4),
    st.sampled_from(["constant", "edge", "reflect", "wrap"]),
    st.data(),
)
def test_pad(shape: list[int], mode: str, data: st.DataObject) -> None:
    low = -1 if mode == "constant" else 0
    sides = st.lists(st.integers(low, 1), min_size=2 * len(shape), max_size=2 * len(shape))
    weights = {"pads": np.array(data.draw(sides)), "value": np.array(1.5, np.float32)}
    agree("Pad", noise(*shape), weights, 19, mode=mode)


@settings(MANY, max_examples=80)
@given(
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(
        ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
    ),
    st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
)
def test_resize_to_sizes(
    mode: str, place: str, rounding: str, source: tuple[int, int], target: tuple[int, int]
) -> None:
    weights = {"roi": NO_FLOATS, "none": NO_FLOATS, "sizes": np.array([1, 2, *target])}
    node = {"mode": mode, "coordinate_transformation_mode": place, "nearest_mode": rounding}
    agree("Resize", noise(1, 2, *source), weights, 19, **node)


@settings(MANY, max_examples=60)
@given(
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(["half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"]),
    st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
    st.tuples(st.integers(2, 9), st.integers(2, 9)),
    st.tuples(*[st.sampled_from([0.5, 0.6, 0.75, 1.0, 1.3, 1.5, 2.0, 3.0, 4.0])] * 2),
)
def test_resize_by_scales(
    mode: str, place: str, rounding: str, source: tuple[int, int], scales: tuple[float, float]
) -> None:
    weights = {"none": NO_FLOATS, "scales": np.array([1, 1, *scales], np.float32)}
    node = {"mode": mode, "coordinate_transformation_mode": place, "nearest_mode": rounding}
    agree("Resize", noise(1, 2, *source), weights, 19, **node)


@MANY
@given(
    st.sampled_from([("Resize", 10), ("Upsample", 9)]),
    st.sampled_from(["nearest", "linear"]),
    st.tuples(st.integers(2, 6), st.integers(2, 6)),
    st.tuples(*[st.sampled_from([1.0, 1.5, 2.0, 3.0])] * 2),
)
def test_resizing_in_old_versions(
    kind: tuple[str, int], mode: str, source: tuple[int, int], scales: tuple[float, float]
) -> None:
    weights = {"scales": np.array([1, 1, *scales], np.float32)}
    agree(kind[0], noise(1, 2, *source), weights, kind[1], mode=mode)


@MANY
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_slice(shape: list[int], data: st.DataObject) -> None:
    count = len(shape)
    bound_lists = st.lists(st.integers(-7, 7), min_size=count, max_size=count)
    steps = data.draw(
        st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), min_size=count, max_size=count)
    )
    ends = data.draw(bound_lists)
    if data.draw(st.booleans()):  # ONNX's words for "to the end" and "to the beginning"
        ends = [2**63 - 1 if step > 0 else -(2**63) for step in steps]
    weights = {
        "starts": np.array(data.draw(bound_lists)),
        "ends": np.array(ends),
        "axes": np.arange(count) - data.draw(st.sampled_from([0, count])),
        "steps": np.array(steps),
    }
    agree("Slice", noise(*shape), weights)


@MANY
@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from([9, 13]))
def test_lrn(size: int, channels: int, opset: int) -> None:
    agree("LRN", noise(2, channels, 3, 3), {}, opset, size=size, alpha=0.1, bias=2.0)


@MANY
@given(
    st.sampled_from([np.uint8, np.int8]),
    st.lists(st.integers(-2000, 2000).map(lambda n: n / 8), min_size=1, max_size=20),
    st.sampled_from([0.25, 0.5, 1.0, 0.1, 3.0]),
    st.integers(0, 100),
)
def test_quantising_rounds_halves_to_even_and_saturates(
    dtype: type, values: list[float], scale: float, zero: int
) -> None:
    weights = {"scale": np.array(scale, np.float32), "zero": np.array(zero, dtype)}
    x = np.array(values, np.float32)
    agree("QuantizeLinear", x, weights, result=np.dtype(dtype))


def test_a_mirror_of_negative_pads_is_refused(tmp_path: Path) -> None:
    x, weights = noise(4), {"pads": np.array([-1, 1])}
    path = save(tmp_path / "m.onnx", "Pad", x, weights, 19, x.dtype, {"mode": "reflect"})
    with pytest.raises(EngineError, match="mode=reflect with negative pads"):
        ENGINE.load(path).run({"x": x})


def test_samples_between_whole_numbers_are_refused(tmp_path: Path) -> None:
    x = np.zeros((1, 1, 4, 4), np.uint8)
    weights = {"none": NO_FLOATS, "scales": np.array([1, 1, 2, 2], np.float32)}
    path = save(tmp_path / "m.onnx", "Resize", x, weights, 13, x.dtype, {"mode": "linear"})
    with pytest.raises(EngineError, match=r"mode=linear of torch\.uint8"):
        ENGINE.load(path).run({"x": x})


def test_backwards_to_the_largest_number_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime takes it for "to the beginning"; Python, and so ONNX, for nothing at all."""
    x = noise(4)
    weights = {
        name: np.array([value]) for name, value in (("a", 3), ("b", 2**63 - 1), ("c", 0), ("d", -1))
    }
    path = save(tmp_path / "m.onnx", "Slice", x, weights, 17, x.dtype, {})
    with pytest.raises(EngineError, match="backwards"):
        ENGINE.load(path).run({"x": x})
