"""Tell by the shapes in ONNX Runtime's profile whether it was recorded with the same inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from profiler.errors import ProfileError
from profiler.graph.graph import Graph
from profiler.graph.observation import Observation
from profiler.kernels import KERNEL_SUFFIX, plain_name
from profiler.trace_events import Event

__all__ = ["check_shapes"]


def check_shapes(events: Sequence[Event], graph: Graph, observation: Observation) -> None:
    """Compare what kernels made there with what was seen here.

    Some may differ in any case: kernels in another memory layout pad or turn their axes, and one
    that is named after its first node hands on the result of its last. So most must agree.

    Raises:
        ProfileError: Most differ. The message names the first.
    """
    compared = dict(_compared(events, graph))
    seen = {tensor: observation.tensors[tensor].shape for tensor in compared}
    wrong = [tensor for tensor in compared if not _alike(compared[tensor], seen[tensor])]
    if 2 * len(wrong) > len(compared):
        raise ProfileError(
            f"it was recorded with other inputs: {wrong[0]!r} is {list(compared[wrong[0]])} there "
            f"and {list(seen[wrong[0]])} here; record it with these inputs, or give its own with "
            "--input or --feed"
        )


def _compared(events: Sequence[Event], graph: Graph) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield tensors that both the model and the profile know, with their shapes in the profile."""
    for event in events:
        if not event.name.endswith(KERNEL_SUFFIX):
            continue
        name = plain_name(event.name.removesuffix(KERNEL_SUFFIX))
        node = graph.producer.get(name) or graph.by_name.get(name)
        shape = _shape(event.arguments.get("output_type_shape"))
        if node is not None and len(node.outputs) == 1 and shape is not None:
            yield node.outputs[0], shape


def _shape(outputs: Any) -> tuple[int, ...] | None:
    """The shape of the only output: ``[{"float": [1, 3]}]``."""
    if not isinstance(outputs, list) or len(outputs) != 1 or not isinstance(outputs[0], Mapping):
        return None
    for axes in outputs[0].values():
        if isinstance(axes, list) and all(isinstance(axis, int) for axis in axes):
            return tuple(axes)
    return None


def _alike(there: tuple[int, ...], here: tuple[int, ...]) -> bool:
    padded_channels = len(there) == len(here) and (*there[:1], *there[2:]) == (*here[:1], *here[2:])
    return padded_channels or sorted(there) == sorted(here)
