"""How long a frame waits for a worker that it shares. Pure.

A worker serves one run at a time, each as long as the last, and frames of many devices arrive at
random: the queue M/D/1, in which a frame waits ``C * rho / (2 * (1 - rho))`` on average for a
service time C (Pollaczek-Khinchine).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

FULL = 0.999  # a queue has no length at a load of 1


@dataclass(frozen=True)
class Queue:
    """What waits, and for how long.

    Attributes:
        service: Name of the metric that is the service time, in ms.
        factor: Load by others, from 0 to below 1.
        frames_per_ms: How often frames like this one arrive at the worker.
        weights: How much each metric grows with a millisecond of waiting.
    """

    service: str
    factor: float
    frames_per_ms: float
    weights: Mapping[str, float]

    @property
    def longest_service_ms(self) -> float:
        """The longest service time at which the worker keeps up."""
        if not self.frames_per_ms:
            return math.inf
        return max(0.0, FULL - self.factor) / self.frames_per_ms

    def wait_ms(self, service_ms: float) -> float:
        """How long a frame waits on average; infinite where the worker cannot keep up."""
        load = self.factor + self.frames_per_ms * service_ms
        if service_ms == 0:
            return 0.0
        if service_ms > self.longest_service_ms:
            return math.inf
        return service_ms * load / (2 * (1 - load))

    def nearly_full_wait_ms(self, service_ms: float) -> float:
        """How long a frame waits, as if the load were :data:`FULL` where it is higher."""
        load = min(self.factor + self.frames_per_ms * service_ms, FULL)
        return service_ms * load / (2 * (1 - load))

    def tangent(self, service_ms: float) -> tuple[float, float]:
        """Slope and intercept of the line that touches the waiting time at a service time."""
        service_ms = min(service_ms, self.longest_service_ms)
        load = self.factor + self.frames_per_ms * service_ms
        free = 1 - load
        slope = load / (2 * free) + service_ms * self.frames_per_ms / (2 * free * free)
        return slope, self.wait_ms(service_ms) - slope * service_ms
