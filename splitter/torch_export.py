"""A module of PyTorch as a model file: exported, and compared with the module's own answer.

Light until a module comes along: that needs the extra ``torch``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.graph.feeds import Feeds
from protocol.text import one_line
from splitter.errors import PlanError
from splitter.extraction import disagreement

if TYPE_CHECKING:
    import torch

_TOLERANCE = 1e-3
_LONGEST_REASON = 300


def is_module(model: object) -> TypeGuard[torch.nn.Module]:
    """Whether something is a module; whoever has one has imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def export_module(module: torch.nn.Module, example: Any, path: Path) -> tuple[Path, Feeds]:
    """Write a module as an ONNX model.

    Args:
        module: In any mode; what is exported is its evaluation, and its mode is restored.
        example: One input tensor, or a tuple of them.
        path: Where to write.

    Returns:
        The path, and the example as feeds.

    Raises:
        PlanError: There is no example, the module cannot be exported, or the exported model does
            not answer what the module answers.
    """
    import torch  # only who has a module needs it

    inputs = example if isinstance(example, tuple) else (example,)
    if not inputs or not all(isinstance(each, torch.Tensor) for each in inputs):
        raise PlanError(
            "a module is exported with an example of its inputs; give example=TENSOR, or a tuple "
            "of tensors"
        )
    training = module.training
    module.eval()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's own, of no use to whoever plans
            answer = module(*inputs)
            names = [f"input{i}" for i in range(len(inputs))]
            torch.onnx.export(module, inputs, str(path), input_names=names, dynamo=False)
    except Exception as error:  # exporters raise whatever went wrong inside
        reason = one_line(str(error), _LONGEST_REASON)
        raise PlanError(f"the module cannot be exported to ONNX: {reason}") from error
    finally:
        module.train(training)
    feeds = {name: each.detach().cpu().numpy() for name, each in zip(names, inputs, strict=True)}
    _compare(answer, feeds, path)
    return path, feeds


def _compare(answer: Any, feeds: Feeds, path: Path) -> None:
    """Run the exported model, which must answer as the module does."""
    session = OnnxRuntimeEngine(EngineOptions(threads=1)).load(path)
    wanted = {slot.name for slot in session.inputs}
    results = session.run({name: feed for name, feed in feeds.items() if name in wanted})
    session.close()
    flat = [each.detach().cpu().numpy() for each in _flat(answer)]
    if len(flat) != len(results):
        raise PlanError(
            f"the module answers with {len(flat)} tensors, its export with {len(results)}"
        )
    expected = dict(zip(results, flat, strict=True))
    apart = disagreement(expected, results)
    if apart > _TOLERANCE:
        raise PlanError(
            f"the exported model is {apart:.1e} away from the module (limit {_TOLERANCE:.0e}); "
            "does it do something random?"
        )


def _flat(answer: Any) -> list[Any]:
    if isinstance(answer, (tuple, list)):
        return [tensor for each in answer for tensor in _flat(each)]
    if isinstance(answer, dict):
        return [tensor for each in answer.values() for tensor in _flat(each)]
    return [answer]
