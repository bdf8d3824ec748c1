"""What runs of a part: borders in plain and in blocked layouts."""

from __future__ import annotations

from dataclasses import replace

from profiler.graph.runtime import HeldWeight, RuntimeGraph, RuntimeKernel
from profiler.liveness import Step

# x -> conv -> [blocked b] -> conv -> [blocked c] -> reorder -> y
GRAPH = RuntimeGraph(
    kernels=(
        RuntimeKernel(Step("Conv", ("x", ""), ("b",)), 0, ("w0",)),
        RuntimeKernel(Step("Conv", ("b", ""), ("c",)), 1, ("w1", "shared")),
        RuntimeKernel(Step("ReorderOutput", ("c",), ("y",)), 1, ()),
        RuntimeKernel(Step("Gemm", ("y", ""), ("z",)), 2, ("w2", "shared")),
    ),
    tensor_bytes={"x": 1, "b": 20, "c": 30, "y": 28, "z": 4},
    weights={name: HeldWeight(100, 0) for name in ("w0", "w1", "w2", "shared")},
    plain=frozenset({"x", "y", "z"}),
    outputs=frozenset({"z"}),
    unit_nodes={0: 2, 1: 3, 2: 1},
    fixed_shapes=True,
)


def test_the_whole_is_all_kernels() -> None:
    part = GRAPH.part(range(3))
    assert part.steps == tuple(kernel.step for kernel in GRAPH.kernels)
    assert part.results == {"z"}
    assert part.weights == {"w0", "w1", "w2", "shared"}
    assert part.nodes == 6


def test_a_plain_tensor_crosses_as_it_is() -> None:
    head, tail = GRAPH.part({0, 1}), GRAPH.part({2})
    assert head.results == {"y"}
    assert [step.operator for step in head.steps] == ["Conv", "Conv", "ReorderOutput"]
    assert [step.operator for step in tail.steps] == ["Gemm"]
    assert tail.weights == {"w2", "shared"}
    assert (head.nodes, tail.nodes) == (5, 1)


def test_a_blocked_tensor_is_made_plain_and_blocked_again() -> None:
    head, tail = GRAPH.part({0}), GRAPH.part({1, 2})
    assert [step.operator for step in head.steps] == ["Conv", "ReorderOutput"]
    (result,) = head.results
    assert head.steps[1] == Step("ReorderOutput", ("b",), (result,))
    assert head.tensor_bytes[result] == 20
    assert tail.steps[:2] == (Step("ReorderInput", (), ("b",)), GRAPH.kernels[1].step)
    assert tail.results == {"z"}


def test_it_is_blocked_once_for_all_its_readers() -> None:
    again = RuntimeKernel(Step("Conv", ("b", ""), ("d",)), 1, ("w1",))
    graph = replace(GRAPH, kernels=(*GRAPH.kernels[:2], again, *GRAPH.kernels[2:]))
    steps = graph.part({1, 2}).steps
    assert [step.operator for step in steps].count("ReorderInput") == 1


def test_results_that_others_read_too_are_returned() -> None:
    graph = replace(GRAPH, outputs=frozenset({"y", "z"}))
    assert graph.part({0, 1}).results == {"y"}
    assert graph.part(range(3)).results == {"y", "z"}
