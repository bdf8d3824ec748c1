"""Operators whose attributes are graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from profiler.torch_engine.program import Program, Watch

__all__ = ["Body", "ControlOperation", "if_operation", "loop_operation"]

ControlOperation = Callable[[Any, Watch], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Body:
    """A compiled body.

    Attributes:
        program: Its inputs are the declared ones, then the captured ones.
        captured: Names of outer tensors that it reads.
    """

    program: Program
    captured: tuple[str, ...]


def if_operation(then: Body, otherwise: Body) -> ControlOperation:
    """One body or the other; inputs are the condition and what each body captures."""
    split = 1 + len(then.captured)

    def choose(inputs: Any, watch: Watch) -> tuple[torch.Tensor, ...]:
        if bool(inputs[0]):
            return tuple(then.program.run(inputs[1:split], watch))
        return tuple(otherwise.program.run(inputs[split:], watch))

    return choose


def loop_operation(body: Body, carried: int, scans: int) -> ControlOperation:
    """So many trips at most, while the condition holds; either bound may be absent.

    Args:
        body: Takes trip, condition and carried values; gives condition, carried values and what
            is gathered of each trip.
        carried: How many values are carried from trip to trip.
        scans: How many are gathered.
    """

    def loop(inputs: Any, watch: Watch) -> tuple[torch.Tensor, ...]:
        most, condition, *rest = inputs
        values, captured = rest[:carried], rest[carried:]
        most = None if most is None else int(most)
        go = True if condition is None else bool(condition)
        gathered: list[list[torch.Tensor]] = [[] for _ in range(scans)]
        trip = 0
        while go and (most is None or trip < most):
            feeds = [torch.tensor(trip), torch.tensor(go), *values, *captured]
            condition, *results = body.program.run(feeds, watch)
            go, trip, values = bool(condition), trip + 1, results[:carried]
            for kept, result in zip(gathered, results[carried:], strict=True):
                kept.append(result)
        if scans and not trip:
            raise ValueError("a Loop of no trips that gathers results, whose shape nobody knows")
        return (*values, *(torch.stack(kept) for kept in gathered))

    return loop
