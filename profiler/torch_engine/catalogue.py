"""All families of operators: importing this module fills the table."""

from __future__ import annotations

from profiler.torch_engine import (
    activations,
    convolution,
    elementwise,
    indexing,
    linear,
    normalisation,
    padding,
    pooling,
    quantisation,
    recurrent,
    reduction,
    resizing,
    shaping,
)
from profiler.torch_engine.operators import Call, find_operator, operator_names

__all__ = ["BODIES", "FAMILIES", "Call", "find_operator", "operator_names"]

FAMILIES = (
    activations, convolution, elementwise, indexing, linear, normalisation, padding, pooling,
    quantisation, recurrent, reduction, resizing, shaping,
)  # fmt: skip
BODIES = frozenset({"If", "Loop"})
