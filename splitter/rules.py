"""What a user's rules allow, as masks and limits for the solver. Needs numpy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiler.graph.graph import Graph
from protocol.codecs import RawCodec
from protocol.text import did_you_mean, one_line
from splitter.copies import copies_of
from splitter.errors import PlanError
from splitter.optimise.problem import Allowed
from splitter.pricing import Pricing
from splitter.situation import Situation
from splitter.wishes import Keep, Lack, Limit, Pin, Rule

_SHOWN = 80
_FIRST = "first:"


@dataclass(frozen=True)
class Ruled:
    """What remains allowed, and the limits.

    Attributes:
        allowed: What may happen.
        limits: The most that each metric may be.
    """

    allowed: Allowed
    limits: Mapping[str, float]


def apply_rules(pricing: Pricing, rules: Iterable[Rule]) -> Ruled:
    """Return what the rules leave.

    Raises:
        PlanError: A rule names a tensor, node, operator or tier that there is not.
    """
    allowed = _possible(pricing)
    limits: dict[str, float] = {}
    for rule in rules:
        if isinstance(rule, Limit):
            limits[rule.metric] = min(rule.most, limits.get(rule.metric, math.inf))
            if rule.metric == "kl_nats":
                _forbid_unmeasured(pricing, allowed)
        elif isinstance(rule, Keep):
            _keep(pricing, allowed, rule)
        elif isinstance(rule, Pin):
            tier = _tier(pricing.situation, rule.tier)
            unit = _unit_of(pricing.situation, rule.node)
            allowed.units[:tier, unit] = False
            allowed.units[tier + 1 :, unit] = False
        else:
            _lack(pricing.situation, allowed, rule)
    return Ruled(allowed, limits)


def _possible(pricing: Pricing) -> Allowed:
    """What is possible without any rule: whatever a message carries may cross."""
    tiers, links = len(pricing.situation.profiles), len(pricing.situation.links)
    sendable = pricing.tensors.sendable
    usable = pricing.tensors.usable & sendable[:, None]
    return Allowed(
        units=np.ones((tiers, pricing.flow.unit_count), dtype=bool),
        tensors=np.repeat(usable[None], links, axis=0),
        results=np.repeat(sendable[None], links, axis=0),
    )


def _forbid_unmeasured(pricing: Pricing, allowed: Allowed) -> None:
    """Let nothing cross in a way whose loss nobody has measured."""
    known, raw = pricing.situation.fidelity_kl, RawCodec().name
    for number, name in enumerate(pricing.tensors.names):
        for place, codec in enumerate(pricing.tensors.codecs[number]):
            if codec != raw and (name, codec) not in known:
                allowed.tensors[:, number, place] = False


def _keep(pricing: Pricing, allowed: Allowed, rule: Keep) -> None:
    """Keep nodes on the device, or a tensor: where it is made, where it is read, and its copies."""
    graph = pricing.situation.space.graph
    if rule.what.startswith(_FIRST):
        nodes = [node.name for node in graph.regular[: _first(rule.what, len(graph.regular))]]
        for name in nodes:
            allowed.units[1:, _unit_of(pricing.situation, name)] = False
        return
    tensors = sorted(graph.input_names) if rule.what == "input" else [rule.what]
    known = [name for name in tensors if name in graph.producer or name in graph.input_names]
    is_node = rule.what in graph.by_name
    if not known and not is_node:
        names = (*graph.by_name, *graph.producer, *graph.input_names, "input")
        raise PlanError(
            f"{rule}: no tensor or node of that name{did_you_mean(rule.what, names)}; give one, "
            "input, or first:K"
        )
    if is_node:
        allowed.units[1:, _unit_of(pricing.situation, rule.what)] = False
    for name in known:
        producer = graph.producer.get(name)
        if producer is not None and producer.name not in graph.floating:
            allowed.units[1:, _unit_of(pricing.situation, producer.name)] = False
    for name in copies_of(graph, known):
        if name in pricing.number:
            allowed.tensors[:, pricing.number[name]] = False


def _first(text: str, nodes: int) -> int:
    count = text.removeprefix(_FIRST)
    if not count.isdecimal() or not 1 <= int(count) <= nodes:
        raise PlanError(
            f"--keep-on-device {one_line(text, _SHOWN)}: give first:1 to first:{nodes}, the nodes "
            "of this model"
        )
    return int(count)


def _lack(situation: Situation, allowed: Allowed, rule: Lack) -> None:
    tier = _tier(situation, rule.tier)
    graph = situation.space.graph
    present = _operators(graph)
    for operator in rule.operators:
        if operator not in present:
            raise PlanError(
                f"{rule}: the model has no operator {one_line(operator, _SHOWN)!r}"
                f"{did_you_mean(operator, present)}; it has {', '.join(sorted(present))}"
            )
    lacking = set(rule.operators)
    for unit in situation.space.units:
        if any(_operator(graph, name) in lacking for name in unit.nodes):
            allowed.units[tier, unit.index] = False


def _operators(graph: Graph) -> set[str]:
    return {_operator(graph, node.name) for node in graph.regular}


def _operator(graph: Graph, name: str) -> str:
    node = graph.by_name[name]
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _tier(situation: Situation, name: str) -> int:
    names: Sequence[str] = situation.tier_names
    if name not in names:
        raise PlanError(
            f"no tier {one_line(name, _SHOWN)!r}{did_you_mean(name, names)} in this plan; "
            f"it has {', '.join(names)}"
        )
    return names.index(name)


def _unit_of(situation: Situation, name: str) -> int:
    """The unit that holds a node."""
    graph = situation.space.graph
    if name not in graph.by_name:
        raise PlanError(
            f"no node {one_line(name, _SHOWN)!r}{did_you_mean(name, graph.by_name)} in "
            f"{situation.model.name}"
        )
    unit = situation.space.unit_of.get(name)
    if unit is not None:
        return unit
    raise PlanError(
        f"node {one_line(name, _SHOWN)!r} depends on weights only, so every tier computes it for "
        "itself; pin a node that reads the input"
    )
