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

_TOLERATED = 0.1  # of the tensors


def check_shapes(events: Sequence[Event], graph: Graph, observation: Observation) -> None:
    """Compare what kernels made there with what was seen here.

    A few may differ in any case: a kernel that is named after its first node hands on the result of
    its last. (None did in 18 real networks; other memory layouts are allowed for.)

    Raises:
        ProfileError: More differ. The message names the first.
    """
    seen = {name: tensor.shape for name, tensor in observation.tensors.items()}
    compared = {
        name: shape
        for name, shape in _compared(events, graph)
        if name in seen and len(shape) == len(seen[name])
    }
    wrong = [name for name in compared if not _alike(compared[name], seen[name])]
    if len(wrong) > _TOLERATED * len(compared):
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
    """Whether shapes are the same but for channels padded to whole blocks, or turned axes."""
    padded = (*there[:1], *there[2:]) == (*here[:1], *here[2:])
    return padded or sorted(there) == sorted(here)
