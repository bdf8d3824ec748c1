"""What is known of names while a graph is compiled: constants, places and memories."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from profiler.errors import EngineError

__all__ = ["Scope"]


@dataclass
class Scope:
    """The names of one graph.

    Attributes:
        constants: Tensors that never change, in the host's memory.
        homes: In which memory each tensor lies that runs make.
        slots: Which value it is.
        constant_slots: The same of constants, which may lie in both memories.
        values: What a run starts with; the first stands for inputs that are not given.
    """

    constants: dict[str, torch.Tensor]
    homes: dict[str, torch.device] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    constant_slots: dict[tuple[str, torch.device], int] = field(default_factory=dict)
    values: list[torch.Tensor | None] = field(default_factory=lambda: [None])

    def new_slot(self, name: str, home: torch.device) -> int:
        """Give a tensor that runs make its place."""
        self.slots[name], self.homes[name] = len(self.values), home
        self.constants.pop(name, None)  # a body's own tensor may bear the name of an outer constant
        self.values.append(None)
        return self.slots[name]

    def slot(self, name: str, home: torch.device) -> int:
        """Return where a tensor lies; a constant is copied to where it is wanted."""
        if name in self.slots:
            return self.slots[name]
        if name not in self.constants:
            raise EngineError(f"{name!r} is read, but nothing before makes it")
        key = (name, home)
        if key not in self.constant_slots:
            self.constant_slots[key] = len(self.values)
            self.values.append(self.constants[name].to(home))
        return self.constant_slots[key]

    def known(self, name: str) -> torch.Tensor | None:
        """Return a constant, or None where each run makes the tensor anew."""
        return self.constants.get(name)
