"""What ONNX Runtime really runs of a model: kernels, tensors and weights. Light.

:mod:`profiler.graph.runtime_observation` makes these values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from profiler.liveness import Step

__all__ = ["HeldWeight", "RuntimeGraph", "RuntimeKernel", "RuntimePart"]


@dataclass(frozen=True)
class RuntimeKernel:
    """One kernel of the optimised graph.

    Attributes:
        step: What it reads and makes; weights are no inputs.
        unit: Position of the unit that it belongs to; None where no unit needs it.
        weights: Weights that it reads, those of its bodies included.
    """

    step: Step
    unit: int | None
    weights: tuple[str, ...]


@dataclass(frozen=True)
class HeldWeight:
    """A weight as the runtime holds it.

    Attributes:
        size_bytes: Its size.
        rewrites: How often the optimiser made a new version of it: by folding something into it,
            by bringing it into another layout.
    """

    size_bytes: int
    rewrites: int


@dataclass(frozen=True)
class RuntimePart:
    """What runs of a head, a tail or a whole model.

    Attributes:
        steps: The kernels in the order of execution.
        tensor_bytes: Size of each tensor.
        results: Tensors that a run returns.
        weights: Names of the weights.
        nodes: How many nodes of the original model it is, those of bodies included.
    """

    steps: tuple[Step, ...]
    tensor_bytes: Mapping[str, int]
    results: frozenset[str]
    weights: frozenset[str]
    nodes: int


@dataclass(frozen=True)
class RuntimeGraph:
    """What runs when the whole model runs.

    Attributes:
        kernels: In the order of execution.
        tensor_bytes: Size of each tensor that a kernel makes or the user feeds.
        weights: The weights by name.
        plain: Tensors that the original model knows. Others, those in the blocked layout of
            convolutions above all, cannot cross a cut as they are.
        outputs: Tensors that the user gets.
        unit_nodes: How many nodes of the original model each unit is, those of bodies included.
        fixed_shapes: Whether the model says all shapes; where it does not, the runtime cannot tell
            that two tensors are of one size, and lets no kernel write over its input.
    """

    kernels: tuple[RuntimeKernel, ...]
    tensor_bytes: Mapping[str, int]
    weights: Mapping[str, HeldWeight]
    plain: frozenset[str]
    outputs: frozenset[str]
    unit_nodes: Mapping[int, int]
    fixed_shapes: bool

    def part(self, units: Collection[int]) -> RuntimePart:
        """Return what runs of a model of just these units.

        Where a cut goes through a blocked tensor, the maker brings it into the plain layout, and
        the reader back into the blocked one.
        """
        inside = [kernel for kernel in self.kernels if kernel.unit in units]
        outside = [kernel.step for kernel in self.kernels if kernel.unit not in units]
        foreign = {name for step in outside for name in step.outputs if name} - self.plain
        wanted = {name for step in outside for name in step.inputs} | self.outputs
        sizes = dict(self.tensor_bytes)
        steps: list[Step] = []
        results: set[str] = set()
        for kernel in inside:
            step = kernel.step
            for name in sorted(foreign.intersection(step.inputs)):
                foreign.discard(name)
                steps.append(Step("ReorderInput", (), (name,)))
            steps.append(step)
            for name in filter(wanted.__contains__, step.outputs):
                if name not in self.plain:
                    sizes[_plain(name)] = sizes[name]
                    steps.append(Step("ReorderOutput", (name,), (_plain(name),)))
                results.add(name if name in self.plain else _plain(name))
        return RuntimePart(
            steps=tuple(steps),
            tensor_bytes=sizes,
            results=frozenset(results),
            weights=frozenset(_weights(inside)),
            nodes=sum(count for unit, count in self.unit_nodes.items() if unit in units),
        )


def _plain(blocked: str) -> str:
    """A name, of no tensor of any model, for the same tensor in the plain layout."""
    return f"{blocked}\0plain"


def _weights(kernels: Collection[RuntimeKernel]) -> Iterator[str]:
    for kernel in kernels:
        yield from kernel.weights
