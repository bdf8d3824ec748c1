"""Matrix products."""

from __future__ import annotations

from typing import Any

import torch

from profiler.torch_engine.operators import Call, Operation, operator


@operator("MatMul", 1, 13)
def _mat_mul(_call: Call) -> Operation:
    return lambda inputs: torch.matmul(inputs[0], inputs[1])


@operator("Gemm", 7, 13)
def _gemm(call: Call) -> Operation:
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    flip_a, flip_b = call.flag("transA"), call.flag("transB")

    def gemm(inputs: Any) -> torch.Tensor:
        a = inputs[0].t() if flip_a else inputs[0]
        b = inputs[1].t() if flip_b else inputs[1]
        c = inputs[2] if len(inputs) > 2 else None
        if c is not None and a.is_floating_point():
            return torch.addmm(c, a, b, beta=beta, alpha=alpha)
        product = torch.mm(a, b)
        product = product if alpha == 1 else (alpha * product).to(a.dtype)
        return product if c is None else product + (c if beta == 1 else beta * c).to(a.dtype)

    return gemm


@operator("Einsum", 12, 28)
def _einsum(call: Call) -> Operation:
    equation = call.text("equation", "")
    return lambda inputs: torch.einsum(equation, *inputs)
