"""From a graph to a program: each node is built once, and each value gets its place in memory.

Two memories matter: the host's, and that of the device which computes. Shapes, and what is computed
of them, stay with the host, so that a run seldom waits for an accelerator; weights lie on the
device. Without an accelerator both are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import onnx
import torch

from profiler.errors import EngineError
from profiler.graph.graph import captured_names, node_inputs
from profiler.torch_engine.catalogue import BODIES, Call, find_operator
from profiler.torch_engine.control import Body, ControlOperation, if_operation, loop_operation
from profiler.torch_engine.dtypes import UnsupportedError, torch_dtype
from profiler.torch_engine.operators import Operation, Operator
from profiler.torch_engine.program import NOTHING, OPERATION_ERRORS, Program, Step
from profiler.torch_engine.scope import Scope

__all__ = ["HOST", "Compiler"]

HOST = torch.device("cpu")
_SMALL = 64  # elements; a constant of no more may be part of computing a shape
_INTEGERS = frozenset({torch.int32, torch.int64, torch.bool})


class Compiler:
    """Compiles the graphs of one model, and gathers what cannot be compiled.

    Args:
        opset: Version of the standard operators.
        device: What computes.
        read: Returns a stored weight.

    Attributes:
        problems: What is not supported, and the first node where it was met.
    """

    def __init__(
        self, opset: int, device: torch.device, read: Callable[[onnx.TensorProto], torch.Tensor]
    ) -> None:
        self._opset = opset
        self._device = device
        self._read = read
        self.problems: dict[str, str] = {}

    def compile(self, graph: onnx.GraphProto) -> Program:
        """Compile the model's own graph; its weights are no inputs."""
        weights = {tensor.name for tensor in graph.initializer}
        inputs = [
            (value.name, self._input_home(value))
            for value in graph.input
            if value.name not in weights
        ]
        return self._program(graph, Scope({}), inputs, None)

    def _input_home(self, value: onnx.ValueInfoProto) -> torch.device:
        """Single whole numbers and lists of them often say a shape or a choice."""
        if not value.type.HasField("tensor_type"):
            self._note(f"{value.type.WhichOneof('value') or 'untyped'} values", value.name)
            return self._device
        tensor = value.type.tensor_type
        try:
            dtype = torch_dtype(tensor.elem_type)
        except UnsupportedError as error:
            self._note(str(error), value.name)
            return self._device
        small = tensor.HasField("shape") and len(tensor.shape.dim) <= 1
        return HOST if small and dtype in _INTEGERS else self._device

    def _note(self, what: str, where: str) -> None:
        self.problems.setdefault(what, where)

    def _program(
        self,
        graph: onnx.GraphProto,
        scope: Scope,
        inputs: Iterable[tuple[str, torch.device]],
        output_homes: Sequence[torch.device] | None,
    ) -> Program:
        """Compile one graph; without wanted memories, outputs stay where they are made."""
        slots = tuple((scope.new_slot(name, home), home) for name, home in inputs)
        for tensor in graph.initializer:
            try:
                torch_dtype(tensor.data_type)
                scope.constants[tensor.name] = self._read(tensor)
            except UnsupportedError as error:
                self._note(str(error), tensor.name)
                scope.new_slot(tensor.name, self._device)
        _forget_unread_outputs(graph)
        steps = [step for node in graph.node for step in self._steps(node, scope)]
        if output_homes is None:
            output_homes = [scope.homes.get(value.name, HOST) for value in graph.output]
        outputs = tuple(
            (scope.slot(value.name, home), home)
            for value, home in zip(graph.output, output_homes, strict=True)
        )
        kept = {slot for slot, _ in outputs} | {*scope.constant_slots.values(), NOTHING}
        return Program(tuple(scope.values), slots, _with_frees(steps, kept), outputs)

    def _steps(self, node: onnx.NodeProto, scope: Scope) -> list[Step]:
        """The step of a node; none where its results are known now."""
        name = node.name or next((output for output in node.output if output), node.op_type)
        try:
            if node.op_type in BODIES and not node.domain:
                return [self._control_step(node, name, scope)]
            entry, version = find_operator(node, self._opset)
            constants = [scope.known(source) if source else None for source in node.input]
            call = Call(node, version, constants)
            operation = entry.build(call)
            call.check_all_read()
        except UnsupportedError as error:
            domain = f"{node.domain}." if node.domain else ""
            detail = f" {error}" if str(error) else ""
            self._note(f"{domain}{node.op_type}{detail}", name)
            for output in node.output:
                if output:
                    scope.new_slot(output, self._device)
            return []
        if _folded(node, operation, constants, scope):
            return []
        return [self._plain_step(node, name, entry, operation, scope)]

    def _plain_step(
        self, node: onnx.NodeProto, name: str, entry: Operator, operation: Operation, scope: Scope
    ) -> Step:
        home = self._step_home(node, entry, scope)
        wanted = [HOST if index in entry.host else home for index in range(len(node.input))]
        if entry.shape_only:
            wanted = [scope.homes.get(source, HOST) for source in node.input]
        return self._step(
            node.input, node.output, wanted, home, scope, name, node.op_type, operation
        )

    def _step_home(self, node: onnx.NodeProto, entry: Operator, scope: Scope) -> torch.device:
        """The host computes what depends on nothing but shapes and small constants."""
        if entry.shape_only:
            return HOST
        for index, name in enumerate(node.input):
            if not name or index in entry.host:
                continue
            constant = scope.known(name)
            if constant is not None and constant.numel() > _SMALL:
                return self._device
            if constant is None and scope.homes.get(name) != HOST:
                return self._device
        return HOST

    def _step(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        wanted: Sequence[torch.device],
        home: torch.device,
        scope: Scope,
        name: str,
        kind: str,
        operation: Operation | ControlOperation,
    ) -> Step:
        inputs, moves = [], []
        for position, (source, want) in enumerate(zip(sources, wanted, strict=True)):
            inputs.append(scope.slot(source, want) if source else NOTHING)
            if source in scope.homes and scope.homes[source] != want:
                moves.append((position, want))
        outputs = tuple(scope.new_slot(target, home) if target else NOTHING for target in targets)
        return Step(name, kind, operation, tuple(inputs), tuple(moves), outputs, ())

    def _control_step(self, node: onnx.NodeProto, name: str, scope: Scope) -> Step:
        graphs = {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}
        device = self._device
        operation: ControlOperation
        if node.op_type == "If":
            then = self._body(graphs["then_branch"], scope, [], [])
            otherwise = self._body(graphs["else_branch"], scope, [], [])
            operation = if_operation(then, otherwise)
            captured = (*then.captured, *otherwise.captured)
            host_inputs = 1
        else:
            carried = len(node.input) - 2
            body_graph = graphs["body"]
            homes = [HOST, HOST] + [device] * carried
            body = self._body(body_graph, scope, homes, [HOST])
            operation = loop_operation(body, carried, len(body_graph.output) - 1 - carried)
            captured = body.captured
            host_inputs = 2
        sources = [*node.input, *captured]
        wanted = [HOST] * host_inputs + [device] * (len(node.input) - host_inputs)
        wanted += [scope.homes[source] for source in captured]
        step = self._step(
            sources, node.output, wanted, device, scope, name, node.op_type, operation
        )
        return replace(step, has_bodies=True)

    def _body(
        self,
        graph: onnx.GraphProto,
        outer: Scope,
        homes: Sequence[torch.device],
        first_output_homes: Sequence[torch.device],
    ) -> Body:
        """Compile a body: outer constants are its own, other outer tensors are inputs."""
        names = sorted(captured_names(graph))
        for name in names:
            if name not in outer.homes and outer.known(name) is None:
                raise EngineError(f"{name!r} is read, but nothing before makes it")
        captured = tuple(name for name in names if outer.known(name) is None)
        scope = Scope({name: outer.constants[name] for name in names if name not in captured})
        declared = [(value.name, home) for value, home in zip(graph.input, homes, strict=True)]
        inputs = [*declared, *((name, outer.homes[name]) for name in captured)]
        rest = [self._device] * (len(graph.output) - len(first_output_homes))
        return Body(self._program(graph, scope, inputs, [*first_output_homes, *rest]), captured)


def _forget_unread_outputs(graph: onnx.GraphProto) -> None:
    """Exporters name outputs that nobody reads, such as masks of Dropout; they need not be made."""
    read = {value.name for value in graph.output}
    read.update(name for node in graph.node for name in node_inputs(node))
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name not in read:
                node.output[index] = ""


def _folded(
    node: onnx.NodeProto, operation: Operation, constants: Sequence[Any], scope: Scope
) -> bool:
    """Compute now what never changes, such as weights out of their quantised form."""
    pairs = zip(node.input, constants, strict=True)
    if any(name and value is None for name, value in pairs):
        return False
    try:
        results = operation(list(constants))
    except OPERATION_ERRORS:
        return False  # the run will say what is wrong, if it comes so far
    results = results if isinstance(results, tuple) else (results,)
    named = zip(node.output, results, strict=False)
    scope.constants.update({name: value for name, value in named if name})
    return True


def _with_frees(steps: Sequence[Step], kept: set[int]) -> tuple[Step, ...]:
    """Note at each step which values it is the last to read or the only one to know."""
    done, freeing = set(kept), []
    for step in reversed(steps):
        last = {*step.inputs, *step.outputs} - done
        done |= last
        freeing.append(replace(step, frees=tuple(sorted(last))))
    return tuple(reversed(freeing))
