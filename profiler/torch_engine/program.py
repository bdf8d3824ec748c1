"""A compiled graph: a flat list of steps over numbered values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from profiler.errors import EngineError
from profiler.torch_engine.operators import Operation, Results
from protocol.text import one_line

__all__ = ["NOTHING", "OPERATION_ERRORS", "Program", "Step", "Watch"]

NOTHING = 0  # the value that stands for an input that is not given
# What torch, and the few lines around it, raise where shapes, types or values do not fit.
OPERATION_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip
_LONGEST_REASON = 300

# Called before each step, those in bodies included; what it raises ends the run.
Watch = Callable[["Step"], None]


@dataclass(frozen=True, eq=False)
class Step:
    """One node.

    Attributes:
        name: The node's.
        operator: Its type.
        operation: What it computes; with bodies, it also takes the watch.
        inputs: Which values it reads.
        moves: Positions of inputs that lie in another memory than the step wants, and that memory.
        outputs: Which values it makes; ``NOTHING`` where nobody wants one.
        frees: Values that no later step reads.
        has_bodies: Whether the operation runs programs of its own.
    """

    name: str
    operator: str
    operation: Operation | Callable[[Any, Watch], Results]
    inputs: tuple[int, ...]
    moves: tuple[tuple[int, torch.device], ...]
    outputs: tuple[int, ...]
    frees: tuple[int, ...]
    has_bodies: bool = False


@dataclass(frozen=True, eq=False)
class Program:
    """A graph, or the body of a control-flow node.

    Attributes:
        values: What a run starts with: constants, and None for all that is still to come.
        inputs: Which value each input is, and the memory in which it is wanted.
        steps: In the order of execution.
        outputs: Which value each output is, and the memory in which it is wanted.
    """

    values: Sequence[torch.Tensor | None]
    inputs: tuple[tuple[int, torch.device], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, torch.device], ...]

    def run(self, feeds: Iterable[torch.Tensor | None], watch: Watch) -> list[torch.Tensor]:
        """Compute the outputs.

        Raises:
            EngineError: A step failed, naming it; or what the watch raises.
        """
        values = list(self.values)
        for (slot, home), feed in zip(self.inputs, feeds, strict=True):
            values[slot] = feed if feed is None else feed.to(home)
        for step in self.steps:
            watch(step)
            arguments = [values[slot] for slot in step.inputs]
            results = _run_step(step, arguments, watch)
            for slot, result in zip(step.outputs, results, strict=False):
                values[slot] = result
            values[NOTHING] = None
            for slot in step.frees:
                values[slot] = None
        return [_present(values[slot]).to(home) for slot, home in self.outputs]


def _present(value: torch.Tensor | None) -> torch.Tensor:
    if value is None:
        raise EngineError("torch cannot run the model: an output was not made")
    return value


def _run_step(step: Step, arguments: list[Any], watch: Watch) -> Sequence[torch.Tensor | None]:
    try:
        for position, home in step.moves:
            if arguments[position] is not None:
                arguments[position] = arguments[position].to(home)
        operation: Any = step.operation
        results = operation(arguments, watch) if step.has_bodies else operation(arguments)
    except EngineError:
        raise  # of a step in a body, or a stop
    except OPERATION_ERRORS as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EngineError(
            f"torch cannot run the model: {step.operator} {step.name!r}: "
            f"{one_line(reason, _LONGEST_REASON)}"
        ) from error
    if not isinstance(results, tuple):
        return (results,)
    if len(results) < len(step.outputs):
        raise EngineError(
            f"torch cannot run the model: {step.operator} {step.name!r} has {len(step.outputs)} "
            f"outputs, but {len(results)} were made"
        )
    return results
