"""Why no plan keeps all rules: the smallest set of them that conflict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from splitter.optimise.problem import Largest, Sum
from splitter.optimise.solver import solve
from splitter.problems import pose
from splitter.weighing import Weighing
from splitter.wishes import Limit, Rule


def conflict_message(weighing: Weighing, time_limit_s: float) -> str:
    """Return one line that names rules which no plan keeps together, though all but one it does."""
    rules = smallest_conflict(weighing, time_limit_s)
    if not rules:
        return "no plan is possible: a shared worker cannot keep up with the frames of its devices"
    names = " and ".join(map(str, rules))
    if len(rules) > 1:
        return f"no plan keeps {names} together; give up or loosen one of them"
    (rule,) = rules
    least = _least_possible(weighing, rule, time_limit_s) if isinstance(rule, Limit) else None
    possible = "" if least is None else f"; the least possible is {least:.4g}"
    return f"no plan keeps {names}{possible}"


def smallest_conflict(weighing: Weighing, time_limit_s: float) -> tuple[Rule, ...]:
    """Return rules that conflict, none of which can be left out; empty if it is not for the rules.

    Each rule is left out in turn, for good if the rest still conflict.
    """
    rules = list(weighing.situation.wishes.rules)
    for rule in tuple(rules):
        rest = [other for other in rules if other is not rule]
        if not is_possible(weighing, rest, time_limit_s):
            rules = rest
    return tuple(rules)


def is_possible(weighing: Weighing, rules: Sequence[Rule], time_limit_s: float) -> bool:
    """Whether some placement keeps these rules."""
    return any(
        solve(replace(problem, goals=problem.goals[:1]), time_limit_s) is not None
        for problem in pose(weighing, rules).problems
    )


def _least_possible(weighing: Weighing, limit: Limit, time_limit_s: float) -> float | None:
    """The least that a limited metric can be, where that can be minimised."""
    if limit.metric in {"device_memory_mb", "kl_nats"}:
        return None
    posed = pose(weighing, [limit])
    values: list[float] = []
    for problem in posed.problems:
        names = tuple(problem.limits)
        goal = Sum({names[0]: 1.0}) if len(names) == 1 else Largest(names)
        found = solve(replace(problem, goals=(goal,), limits={}), time_limit_s)
        values.extend([] if found is None else found.values)
    return min(values, default=None)
