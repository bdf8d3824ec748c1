"""Kernel times out of ONNX Runtime's profile, and which units the kernels belong to. Needs onnx.

A profile costs time itself, so only the proportions of these times mean anything
(onnxruntime#20238); the scale must come from runs without a profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiler.timing import middle_mean, summarise

if TYPE_CHECKING:
    import onnx

    from profiler.graph.graph import Graph, Unit

__all__ = [
    "KERNEL_SUFFIX",
    "Attribution",
    "Kernel",
    "attribute_kernels",
    "plain_name",
    "read_kernels",
]

KERNEL_SUFFIX = "_kernel_time"
_LAYOUT_SUFFIX = "_nchwc"
_REORDERS = frozenset({"ReorderInput", "ReorderOutput"})


@dataclass(frozen=True)
class Kernel:
    """One kernel of the optimised graph, as it was profiled.

    Attributes:
        name: The name of its node in the optimised graph.
        operator: What it does there, such as ``FusedConv``.
        latency_ms: Its time in a run: the mean of the middle half of the runs, since the profile
            counts in whole microseconds.
        spread_ms: Median distance from the median.
        provider: The execution provider that ran it; empty if unknown.
    """

    name: str
    operator: str
    latency_ms: float
    spread_ms: float
    provider: str = ""


@dataclass(frozen=True)
class Attribution:
    """Kernels by the unit that they compute.

    Attributes:
        kernels: For each unit, by its index, the kernels that compute it.
        layout: For each unit, by its index, the kernels that bring what it reads, or what it
            makes, into another memory layout.
        unattributed: Kernels of no known unit.
    """

    kernels: Mapping[int, tuple[Kernel, ...]]
    layout: Mapping[int, tuple[Kernel, ...]]
    unattributed: tuple[Kernel, ...]


def read_kernels(events: Sequence[Mapping[str, Any]], warm_up: int) -> list[Kernel]:
    """Return the time of each kernel in the order of execution.

    Kernels inside the body of an If, Loop or Scan are part of that node's own time and left out.

    Args:
        events: The events of a profile file.
        warm_up: How many of the first runs to drop.
    """
    runs = sorted((event for event in events if event["name"] == "model_run"), key=_start)
    times: dict[str, list[float]] = {}
    arguments: dict[str, Mapping[str, Any]] = {}
    kernels = sorted(
        (event for event in events if event["name"].endswith(KERNEL_SUFFIX)),
        key=lambda event: (_start(event), -event["dur"]),
    )
    outer = iter(_outermost(kernels))
    event = next(outer, None)
    for number, run in enumerate(runs):
        in_run: dict[str, float] = {}
        while event is not None and _start(event) <= _end(run):
            name = event["name"].removesuffix(KERNEL_SUFFIX)
            in_run[name] = in_run.get(name, 0.0) + event["dur"] / 1e3
            arguments[name] = event["args"]
            event = next(outer, None)
        if number >= warm_up:
            for name, time_ms in in_run.items():
                times.setdefault(name, []).append(time_ms)
    return [
        Kernel(
            name,
            arguments[name].get("op_name", ""),
            middle_mean(series),
            summarise(series).spread_ms,
            arguments[name].get("provider", ""),
        )
        for name, series in times.items()
    ]


def plain_name(kernel: str) -> str:
    """Name of a kernel without what fusion and the layout pass add to it."""
    return kernel.removeprefix("fused ").removesuffix(_LAYOUT_SUFFIX)


def _outermost(kernels: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Leave out events that lie inside an earlier one."""
    end = -1
    for event in kernels:
        if _end(event) > end or _start(event) >= end:
            end = max(end, _end(event))
            yield event


def _start(event: Mapping[str, Any]) -> int:
    return int(event["ts"])


def _end(event: Mapping[str, Any]) -> int:
    return int(event["ts"]) + int(event["dur"])


def attribute_kernels(
    kernels: Iterable[Kernel],
    optimised: onnx.GraphProto,
    graph: Graph,
    units: Sequence[Unit],
) -> Attribution:
    """Say which unit each kernel belongs to.

    A kernel bears the name of its node in the optimised graph. That node still has its original
    name, or is named after the last node fused into it or that node's output, or hands on a tensor
    that the original graph knows.

    Args:
        kernels: The profiled kernels.
        optimised: The graph that ran, as the runtime wrote it.
        graph: The original graph.
        units: Its units.
    """
    resolver = _Resolver(optimised, graph, units)
    computing: dict[int, list[Kernel]] = {}
    layout: dict[int, list[Kernel]] = {}
    unattributed: list[Kernel] = []
    for kernel in kernels:
        is_layout = resolver.changes_layout(kernel)
        unit = resolver.unit_beside(kernel) if is_layout else resolver.unit_of(kernel)
        if unit is None:
            unattributed.append(kernel)
        else:
            (layout if is_layout else computing).setdefault(unit, []).append(kernel)
    return Attribution(
        {unit: tuple(group) for unit, group in computing.items()},
        {unit: tuple(group) for unit, group in layout.items()},
        tuple(unattributed),
    )


def units_of_kernels(
    optimised: onnx.GraphProto, graph: Graph, units: Sequence[Unit]
) -> list[int | None]:
    """Return the unit on whose side of a cut each kernel runs, in the order of the graph.

    Args:
        optimised: The graph that runs, as the runtime wrote it.
        graph: The original graph.
        units: Its units.
    """
    resolver = _Resolver(optimised, graph, units)
    kernels = [Kernel(node.name, node.op_type, 0.0, 0.0) for node in optimised.node]
    return [
        resolver.unit_beside(kernel)
        if resolver.changes_layout(kernel)
        else resolver.unit_of(kernel)
        for kernel in kernels
    ]


def units_by_node(graph: Graph, units: Sequence[Unit]) -> dict[str, int]:
    """Return the unit of each node by its name.

    A floating node, such as a DequantizeLinear that was not fused, works for its reader.
    """
    unit_of_node = {name: unit.index for unit in units for name in unit.nodes}
    for original in reversed(graph.nodes):
        for name in original.outputs:
            for reader in graph.consumers.get(name, ()):
                if original.name not in unit_of_node and reader.name in unit_of_node:
                    unit_of_node[original.name] = unit_of_node[reader.name]
    return unit_of_node


class _Resolver:
    """Looks kernels up in the optimised graph and tensors in the original one."""

    def __init__(self, optimised: onnx.GraphProto, graph: Graph, units: Sequence[Unit]) -> None:
        self._node = {node.name: node for node in optimised.node}
        self._consumers: dict[str, list[onnx.NodeProto]] = {}
        for node in optimised.node:
            for name in node.input:
                self._consumers.setdefault(name, []).append(node)
        unit_of_node = units_by_node(graph, units)
        self._unit_by_tensor = {
            name: unit_of_node[original.name]
            for original in graph.nodes
            for name in original.outputs
            if original.name in unit_of_node
        }
        self._unit_by_name = self._unit_by_tensor | unit_of_node
        self._known = set(graph.by_name)

    def changes_layout(self, kernel: Kernel) -> bool:
        """Whether a kernel only reorders memory: the runtime put it in, the model has none."""
        if kernel.operator in _REORDERS:
            return True
        node = self._node.get(kernel.name)
        return (
            kernel.operator == "Transpose"
            and kernel.name not in self._known
            and node is not None
            and not any(name in self._unit_by_tensor for name in node.output)
        )

    def unit_of(self, kernel: Kernel) -> int | None:
        """Return the unit that a computing kernel belongs to."""
        node = self._node.get(kernel.name)
        return _first(
            lambda: self._by_name(kernel.name),
            lambda: self._made_by(node),
            lambda: self._by_prefix(kernel.name),
            lambda: self._reader(node),
        )

    def unit_beside(self, kernel: Kernel) -> int | None:
        """Return the unit on whose side of a cut a layout change is paid.

        Back to the plain layout: with the maker, since a head hands on plain tensors. Into the
        blocked layout: with the reader.
        """
        node = self._node.get(kernel.name)
        return _first(lambda: self._made_by(node), lambda: self._reader(node))

    def _by_name(self, name: str) -> int | None:
        return self._unit_by_name.get(plain_name(name))

    def _by_prefix(self, name: str) -> int | None:
        """The runtime appends to names: ``dense/MatMulAddFusion``, ``y_token_3``."""
        plain = name.removeprefix("fused ")
        for end in range(len(plain) - 1, 0, -1):
            if plain[end] in "/_" and plain[:end] in self._unit_by_name:
                return self._unit_by_name[plain[:end]]
        return None

    def _made_by(self, node: onnx.NodeProto | None) -> int | None:
        names = node.output if node is not None else ()
        found = (self._unit_by_tensor.get(name) for name in names)
        return next((unit for unit in found if unit is not None), None)

    def _reader(self, node: onnx.NodeProto | None) -> int | None:
        """The unit of the nearest kernel after this one that can be told by itself."""
        waiting = [node] if node is not None else []
        seen: set[str] = set()
        for current in waiting:  # grows while it is walked
            seen.add(current.name)
            for name in current.output:
                for reader in self._consumers.get(name, ()):
                    unit = self._by_name(reader.name)
                    unit = self._made_by(reader) if unit is None else unit
                    if unit is not None:
                        return unit
                    if reader.name not in seen:
                        waiting.append(reader)
        return None


def _first(*choices: Callable[[], int | None]) -> int | None:
    found = (choice() for choice in choices)
    return next((unit for unit in found if unit is not None), None)
