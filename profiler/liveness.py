"""When each buffer of a run is taken and given back, in the runtime's order of execution. Light.

Follows ONNX Runtime's allocation planner: a view shares the buffer of what it looks at; an
elementwise kernel writes over an input of the same size that nobody needs afterwards; any other
output has a buffer from the kernel that makes it to the last that reads it, the results of the run
until its end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Buffer", "Step", "buffers", "packed_bytes", "peak_bytes"]

_VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
# Kernels that may write over their first input.
_OVERWRITING = frozenset(
    {"Abs", "Cast", "Ceil", "Clip", "Elu", "Exp", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu"}
    | {"Log", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sum", "Tanh", "ThresholdedRelu"}
)
# Kernels that may write over either of their inputs.
_OVERWRITING_EITHER = frozenset({"Add", "Div", "Mul", "PRelu", "Sub"})
_CONVOLUTION = "Conv"
_SUM_ARGUMENT = 3  # of a convolution that adds a tensor to its result, and may write over it


@dataclass(frozen=True)
class Step:
    """One kernel of a run.

    Attributes:
        operator: What it does.
        inputs: Tensors that it reads; absent ones are empty names.
        outputs: Tensors that it makes; absent ones are empty names.
        scratch_bytes: Sizes of the buffers that it needs for itself while it works.
    """

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch_bytes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Buffer:
    """Memory for one or more tensors.

    Attributes:
        size_bytes: Its size.
        first: The step that takes it.
        last: The last step that needs it; the number of steps where the run returns it.
    """

    size_bytes: int
    first: int
    last: int


def buffers(
    steps: Sequence[Step],
    tensor_bytes: Mapping[str, int],
    results: frozenset[str],
    overwriting: bool = True,
) -> list[Buffer]:
    """Return the buffers of a run, in the order in which they are taken.

    Args:
        steps: The kernels in order.
        tensor_bytes: Size of each tensor.
        results: Tensors that the run returns.
        overwriting: Whether kernels write over inputs.
    """
    last_read = {name: place for place, step in enumerate(steps) for name in step.inputs}
    last_read |= dict.fromkeys(results, len(steps))
    taken: list[Buffer] = []
    held: dict[str, int] = {}  # which buffer each tensor lies in; what is fed lies in none of ours
    for place, step in enumerate(steps):
        for name in filter(None, step.outputs):
            if step.operator in _VIEWS and step.inputs[0] not in held and name not in results:
                continue  # it looks at what is fed
            made = Buffer(tensor_bytes[name], place, last_read.get(name, place))
            shared = None
            if name not in results:
                shared = _shared(step, made, taken, held, overwriting)
            if shared is None:
                shared = len(taken)
                taken.append(made)
            held[name] = shared
            taken[shared] = replace(taken[shared], last=max(made.last, taken[shared].last))
    return taken


def _shared(
    step: Step, made: Buffer, taken: Sequence[Buffer], held: Mapping[str, int], overwriting: bool
) -> int | None:
    """The buffer that a step's output shares with one of its inputs."""
    if step.operator in _VIEWS:
        return held.get(step.inputs[0])
    for name in _overwritten(step) if overwriting else ():
        number = held.get(name)
        if number is None:
            continue
        other = taken[number]
        if other.last == made.first and other.size_bytes == made.size_bytes:
            return number
    return None


def _overwritten(step: Step) -> tuple[str, ...]:
    if step.operator == _CONVOLUTION:
        return step.inputs[_SUM_ARGUMENT : _SUM_ARGUMENT + 1]
    if step.operator in _OVERWRITING_EITHER:
        return step.inputs[:2]
    return step.inputs[:1] if step.operator in _OVERWRITING else ()


def peak_bytes(taken: Sequence[Buffer]) -> int:
    """Return the most bytes that are held at the same time."""
    change: dict[int, int] = {}
    for buffer in taken:
        change[buffer.first] = change.get(buffer.first, 0) + buffer.size_bytes
        change[buffer.last + 1] = change.get(buffer.last + 1, 0) - buffer.size_bytes
    most = now = 0
    for place in sorted(change):
        now += change[place]
        most = max(most, now)
    return most


def packed_bytes(taken: Sequence[Buffer]) -> int:
    """Return the size of the one block that holds all buffers, packed as the runtime packs them.

    Each goes into the tightest gap between those that live when it is taken, otherwise behind them.
    """
    placed: list[tuple[int, Buffer]] = []
    size = 0
    for buffer in taken:
        placed = [(offset, other) for offset, other in placed if other.last >= buffer.first]
        offset = _tightest_gap(placed, buffer.size_bytes)
        placed.append((offset, buffer))
        placed.sort(key=lambda item: item[0])
        size = max(size, offset + buffer.size_bytes)
    return size


def _tightest_gap(placed: Sequence[tuple[int, Buffer]], size_bytes: int) -> int:
    reached, best, waste = 0, None, 0
    for offset, buffer in placed:
        gap = offset - reached
        if gap >= size_bytes and (best is None or gap - size_bytes < waste):
            best, waste = reached, gap - size_bytes
        reached = max(reached, offset + buffer.size_bytes)
    return reached if best is None else best
