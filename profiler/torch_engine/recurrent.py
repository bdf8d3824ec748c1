"""LSTM, GRU and RNN over a whole sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from profiler.torch_engine.dtypes import UnsupportedError
from profiler.torch_engine.operators import Call, Operation, operator

_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
# Where torch's gates lie in ONNX's order: i o f c becomes i f c o, z r h becomes r z h.
_LSTM_GATES = (0, 2, 3, 1)
_GRU_GATES = (1, 0, 2)


class _Layer:
    """What the three kinds have in common: attributes, directions, and the order of axes."""

    def __init__(self, call: Call, activations: Sequence[str], gates: Sequence[int]) -> None:
        self.direction = call.choice("direction", "forward", _DIRECTIONS)
        self.directions = _DIRECTIONS[self.direction]
        self.layout = call.integer("layout", 0)
        self.gates = gates
        named = call.texts("activations") or [*activations] * self.directions
        if [name.lower() for name in named] != [
            name.lower() for name in [*activations] * self.directions
        ]:
            raise UnsupportedError(f"activations={','.join(named)}")
        if call.present("clip"):
            raise UnsupportedError(f"clip={call.number('clip', 0.0):g}")
        call.forget("hidden_size")
        call.refuse_input(4, "sequence_lens")
        # Weights seldom change: then they are brought into torch's order once.
        fixed = [call.constant(position) for position in (1, 2, 3)]
        known = fixed[0] is not None and fixed[1] is not None
        known = known and (fixed[2] is not None or not call.has(3))
        self._fixed = self._arranged(*fixed) if known else None

    def _arranged(self, w: Any, r: Any, b: Any) -> list[torch.Tensor]:
        """Weights as torch takes them: for inputs, for states, both biases; for each direction."""
        size = r.shape[2]
        arranged = []
        for direction in range(self.directions):
            parts = [w[direction], r[direction]]
            if b is not None:
                parts += [b[direction, : b.shape[1] // 2], b[direction, b.shape[1] // 2 :]]
            arranged += [self._in_order(part, size) for part in parts]
        return arranged

    def _in_order(self, weight: torch.Tensor, size: int) -> torch.Tensor:
        gates = weight.split(size)
        return torch.cat([gates[gate] for gate in self.gates])

    def run(self, inputs: Any, function: Callable[..., Any], states: int) -> Any:
        """Run torch's function and bring its results into ONNX's shapes.

        Args:
            inputs: The node's.
            function: One of torch's, for several directions.
            states: How many kinds of state it has; their starts are inputs from 5 on.
        """
        x, w, r, b, _, *starts = (*inputs, *[None] * 8)[:8]
        if self._fixed is None:
            weights = self._arranged(w, r, b)
        else:
            # Arranged on the host, when the model was loaded; the first run moves them for good.
            weights = self._fixed = [weight.to(x.device) for weight in self._fixed]
        if self.layout:
            x = x.transpose(0, 1)
        backwards = self.direction == "reverse"
        x = x.flip(0) if backwards else x
        begin = [self._start(start, x, r.shape[2]) for start in starts[:states]]
        biased = b is not None
        y, *ends = function(x, begin, weights, biased, 1, 0.0, False, self.directions == 2, False)
        y = y.flip(0) if backwards else y
        length, batch = y.shape[:2]
        y = y.reshape(length, batch, self.directions, -1)
        # ONNX wants [length, directions, batch, size], or with layout=1 the batch first.
        y = y.permute(1, 0, 2, 3) if self.layout else y.permute(0, 2, 1, 3)
        return (y, *(end.transpose(0, 1) if self.layout else end for end in ends))

    def _start(self, start: Any, x: torch.Tensor, size: int) -> torch.Tensor:
        if start is None:
            return x.new_zeros(self.directions, x.shape[1], size)
        return (start.transpose(0, 1) if self.layout else start).contiguous()


@operator("LSTM", 7, 22, outputs=3)
def _lstm(call: Call) -> Operation:
    call.require("input_forget", 0, 0)
    call.refuse_input(7, "P")
    layer = _Layer(call, ("Sigmoid", "Tanh", "Tanh"), _LSTM_GATES)
    return lambda inputs: layer.run(inputs, torch.lstm, 2)


@operator("GRU", 7, 22, outputs=2)
def _gru(call: Call) -> Operation:
    """The reset gate is applied behind the product (``linear_before_reset=1``), as torch does."""
    call.require("linear_before_reset", 1, 0)
    layer = _Layer(call, ("Sigmoid", "Tanh"), _GRU_GATES)
    return lambda inputs: layer.run(inputs, _one_state(torch.gru), 1)


@operator("RNN", 7, 22, outputs=2)
def _rnn(call: Call) -> Operation:
    layer = _Layer(call, ("Tanh",), (0,))
    return lambda inputs: layer.run(inputs, _one_state(torch.rnn_tanh), 1)


def _one_state(function: Callable[..., Any]) -> Callable[..., Any]:
    """The state of these is an argument of its own, not in a list."""
    return lambda x, begin, *rest: function(x, begin[0], *rest)
