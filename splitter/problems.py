"""The placement problem that a situation and its rules pose. Needs numpy and scipy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from protocol.limits import Limits
from splitter.optimise.min_cut import with_codecs
from splitter.optimise.problem import Allowed, Goal, Largest, Metric, Placement, Problem, Sum
from splitter.rules import apply_rules
from splitter.weighing import Weighing, no_codecs, whole_on
from splitter.wishes import MetricName, Objective, Rule

_STAGES = "period_ms"


@dataclass(frozen=True)
class Posed:
    """What is to be solved.

    Attributes:
        problems: The best solution of any of them is the best plan. The second one, where a picture
            may be sent, runs nothing on the device.
        baselines: Everything on the device, and everything in the cloud, whatever the rules say.
    """

    problems: tuple[Problem, ...]
    baselines: tuple[Placement, ...]


def pose(weighing: Weighing, rules: Iterable[Rule]) -> Posed:
    """Return the problem under these rules.

    Raises:
        PlanError: A metric is not known, or a rule names what there is not.
    """
    rules = tuple(rules)
    ruled = apply_rules(weighing.pricing, rules)
    metrics = _Metrics(weighing)
    goals = tuple(metrics.goal(objective) for objective in weighing.situation.wishes.objectives)
    limits: dict[str, float] = {}
    memory_mb = math.inf
    for name, most in ruled.limits.items():
        if name == "device_memory_mb":
            memory_mb = most
        elif name == _STAGES:
            limits.update(dict.fromkeys(metrics.stages(), most))
        else:
            limits[metrics.add(name)] = most
    limits.update(metrics.message_limits())
    load = weighing.situation.wishes.load
    if load.fps is not None:
        metrics.add("cloud_ms")
    problem = Problem(
        flow=weighing.flow,
        metrics=metrics.found,
        goals=goals,
        allowed=ruled.allowed,
        limits=limits,
        memory=weighing.memory if math.isfinite(memory_mb) else None,
        memory_limit_bytes=memory_mb * 1e6,
        queue=weighing.queue if load.fps is not None else None,
    )
    problems = [problem]
    pictured = _with_picture(weighing, ruled.allowed)
    if pictured is not None:
        problems.append(replace(problem, allowed=pictured))
    return Posed(tuple(problems), _baselines(weighing, problems[-1]))


class _Metrics:
    """Metrics by name, made when they are asked for."""

    def __init__(self, weighing: Weighing) -> None:
        self._pricing = weighing.pricing
        self.found: dict[str, Metric] = {}

    def goal(self, objective: Objective) -> Goal:
        if _STAGES in objective.weights:
            return Largest(self.stages())
        return Sum({self.add(name): weight for name, weight in objective.weights.items()})

    def stages(self) -> tuple[str, ...]:
        stages = self._pricing.stages()
        self.found.update(stages)
        return tuple(stages)

    def message_limits(self) -> dict[str, float]:
        """Limits on how many tensors a message carries, where there are so many."""
        most = Limits().tensors
        limits = {}
        if self._pricing.flow.tensor_count > most:
            for name, metric in self._pricing.message_tensors().items():
                self.found[name] = metric
                limits[name] = float(most)
        return limits

    def add(self, name: MetricName | str) -> str:
        pricing = self._pricing
        makers = {
            "latency_ms": lambda: pricing.latency_ms,
            "device_energy_mj": pricing.energy_mj,
            "usd_per_1000": pricing.usd_per_1000,
            "uplink_bytes": lambda: pricing.up_bytes(0),
            "device_ms": lambda: pricing.device_ms,
            "cloud_ms": lambda: pricing.cloud_ms,
            "kl_nats": pricing.kl_nats,
        }
        if name not in self.found:
            self.found[name] = makers[name]()
        return name


def _with_picture(weighing: Weighing, allowed: Allowed) -> Allowed | None:
    """What is allowed where nothing runs on the device and the picture is sent as one."""
    number = weighing.pricing.tensors.picture
    if number is None or not allowed.tensors[0, number].any():
        return None
    units, tensors = allowed.units.copy(), allowed.tensors.copy()
    units[0] = False
    tensors[0, number, weighing.picture_codec] = True
    return Allowed(units, tensors, allowed.results)


def _baselines(weighing: Weighing, problem: Problem) -> tuple[Placement, ...]:
    """Everything on the device, and everything in the cloud in its cheapest encoding."""
    free = apply_rules(weighing.pricing, ()).allowed
    allowed = _with_picture(weighing, free) or free
    last = len(weighing.situation.profiles) - 1
    sending = with_codecs(
        np.full(weighing.flow.unit_count, last, dtype=np.int64),
        next(iter(problem.goal_metrics)),
        allowed,
    )
    return (whole_on(weighing, 0, no_codecs(weighing)), sending)
