"""What runs and borders cost beyond the layers, measured with models made for it. Needs onnx."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from profiler.engine import Engine, Session
    from profiler.timing import FineClock

__all__ = ["cache_evictor", "measure_border", "write_nothing"]

_OPSET = 17
_IR_VERSION = 8
_ROUNDS = 15
_WARM_UP = 3
# A mid-network feature map: 64 channels of 64 x 64 floats, about a megabyte.
_SHAPE = (1, 64, 64, 64)
_MEGABYTES = math.prod(_SHAPE) * 4 / 1e6
_EVICTING_BYTES = 32 << 20  # more than the caches that one core can count on


def measure_border(engine: Engine, folder: Path, clock: FineClock) -> float:
    """Time two convolutions as one model and as two.

    Between runs the caches are filled with other data, as codecs and sockets do in service.

    Args:
        engine: What runs the models.
        folder: Where they are written.
        clock: What to time with.

    Returns:
        What cutting one model into two adds for each 10^6 bytes that cross, in milliseconds; what a
        second run costs, however small its model, is not counted.
    """
    nothing = engine.load(write_nothing(folder / "nothing.onnx"))
    both = engine.load(_convolutions(folder / "both.onnx", "a", "bc"))
    first = engine.load(_convolutions(folder / "first.onnx", "a", "b"))
    second = engine.load(_convolutions(folder / "second.onnx", "b", "c"))
    image = np.random.default_rng(0).standard_normal(_SHAPE).astype(np.float32)
    middle = first.run({"a": image})["b"]
    runs: list[tuple[Session, dict[str, NDArray[Any]]]] = [
        (nothing, {"x": np.zeros(1, np.float32)}),
        (both, {"a": image}),
        (first, {"a": image}),
        (second, {"b": middle}),
    ]
    evict = cache_evictor()
    rounds = []
    for _ in range(_WARM_UP + _ROUNDS):
        times_ms = []
        for session, feeds in runs:
            evict()
            before = clock.monotonic()
            session.run(feeds)
            times_ms.append((clock.monotonic() - before) * 1e3)
        rounds.append(times_ms)
    for session, _ in runs:
        session.close()
    return _border_ms_per_mb(rounds[_WARM_UP:])


def _border_ms_per_mb(rounds: Sequence[Sequence[float]]) -> float:
    """From the times of nothing, both, first and second in each round.

    Lower quartiles: these runs are so short that other work on the machine, which can only add
    time, would otherwise drown their differences.
    """
    nothing, both, first, second = (
        statistics.quantiles(series, n=4)[0] for series in zip(*rounds, strict=True)
    )
    added_ms = float(first + second - both - nothing)
    return max(0.0, added_ms / _MEGABYTES)


def cache_evictor() -> Callable[[], None]:
    """Return what fills the caches with other data, as the rest of the work does in service."""
    source = np.zeros(_EVICTING_BYTES // 2, np.uint8)
    target = np.ones_like(source)

    def evict() -> None:
        np.copyto(target, source)

    return evict


def write_nothing(path: Path) -> Path:
    """Write a model that does nothing with its input ``x``, one float32; return its path."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return _save(path, [node], ("x", [1]), ("y", [1]), [])


def _convolutions(path: Path, source: str, targets: str) -> Path:
    """One convolution with activation for each target, chained from the source."""
    generator = np.random.default_rng(1)
    nodes, weights, current = [], [], source
    for target in targets:
        weight = generator.standard_normal((64, 64, 1, 1)).astype(np.float32) / 8
        weights.append(numpy_helper.from_array(weight, f"weight_{target}"))
        nodes.append(helper.make_node("Conv", [current, f"weight_{target}"], [f"sum_{target}"]))
        nodes.append(helper.make_node("Relu", [f"sum_{target}"], [target]))
        current = target
    return _save(path, nodes, (source, _SHAPE), (current, _SHAPE), weights)


def _save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    source: tuple[str, Sequence[int]],
    target: tuple[str, Sequence[int]],
    weights: Sequence[onnx.TensorProto],
) -> Path:
    graph = helper.make_graph(
        list(nodes),
        path.stem,
        [helper.make_tensor_value_info(source[0], TensorProto.FLOAT, source[1])],
        [helper.make_tensor_value_info(target[0], TensorProto.FLOAT, target[1])],
        list(weights),
    )
    opset = helper.make_opsetid("", _OPSET)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION), path)
    return path
