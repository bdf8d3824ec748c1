"""A network as few enough boxes to be looked at. Pure and light."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.text import one_line

if TYPE_CHECKING:
    from splitter.cuts import CutSpace

_MOST_BOXES = 48
_MOST_INPUTS = 6
_CHAINS = (1, 2, 3, 4, 6, 8, 12, 16, math.inf)
_NAMED = 6  # nodes that a box names


@dataclass(frozen=True)
class Box:
    """Something that is drawn as one.

    Attributes:
        kind: Whether it computes, or is fed or given back.
        tier: Where it is; the device is 0.
        label: What it is, in few words.
        names: Nodes or tensors in it, for those who look closer.
    """

    kind: str
    tier: int
    label: str
    names: str


@dataclass(frozen=True)
class Boxes:
    """Boxes in topological order, and pairs of which the second reads what the first makes."""

    boxes: tuple[Box, ...]
    edges: frozenset[tuple[int, int]]


def boxes_of(space: CutSpace, tiers: Sequence[int], most: int = _MOST_BOXES) -> Boxes:
    """Return a network in about so many boxes, none of which is on two tiers.

    Chains of units become one box, longer and longer ones until there are few enough boxes; if that
    is not enough, stretches of the topological order do, between places where few tensors are live.
    """
    groups = _groups(space, tiers, most)
    group_of = {unit: number for number, group in enumerate(groups) for unit in group}
    readers: dict[str, set[int]] = {
        name: {group_of[unit] for unit in units} for name, units in space.readers.items()
    }
    inputs = _inputs(space, readers)
    shift = len(inputs)
    boxes = [Box("input", 0, _tensors_label("input", names), _listed(names)) for names, _ in inputs]
    edges = {(number, shift + to) for number, (_, into) in enumerate(inputs) for to in into}
    boxes.extend(_units_box(space, group, tiers[group[0]]) for group in groups)
    for unit in space.units:
        made = group_of[unit.index]
        into = {to for name in unit.outputs for to in readers.get(name, ()) if to != made}
        edges.update((shift + made, shift + to) for to in into)
    for number, group in enumerate(groups):
        outputs = set(space.graph.outputs)
        names = [name for unit in group for name in space.units[unit].outputs if name in outputs]
        if names:
            edges.add((shift + number, len(boxes)))
            label = _tensors_label("output", names)
            boxes.append(Box("output", tiers[group[0]], label, _listed(names)))
    return Boxes(tuple(boxes), frozenset(edges))


def _groups(space: CutSpace, tiers: Sequence[int], most: int) -> list[tuple[int, ...]]:
    for longest in _CHAINS:
        groups = _chains(space, tiers, longest)
        if len(groups) <= most:
            return groups
    return list(_stretches(space, tiers, most * 2 // 3))  # mostly below each other


def _chains(space: CutSpace, tiers: Sequence[int], longest: float) -> list[tuple[int, ...]]:
    """Units that only follow each other together, up to so many; in the order of their heads."""
    followers = _followers(space)
    groups: dict[int, list[int]] = {}  # by their last unit
    for unit in sorted(range(len(space.units)), key=lambda unit: (tiers[unit], unit)):
        needs = space.needs[unit]
        before = next(iter(needs)) if len(needs) == 1 else None
        group: list[int] = []
        if before in groups and followers[before] == {unit} and tiers[before] == tiers[unit]:
            group = groups[before] if len(groups[before]) < longest else []
        if group and before is not None:
            del groups[before]
        groups[unit] = [*group, unit]
    found = sorted(groups.values(), key=lambda group: (tiers[group[0]], group[0]))
    return [tuple(group) for group in found]


def _stretches(space: CutSpace, tiers: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """About so many pieces of the topological order, cut where few tensors are live."""
    order = sorted(range(len(space.units)), key=lambda unit: (tiers[unit], unit))
    live = _live(space, order)
    forced = {end for end in range(1, len(order)) if tiers[order[end - 1]] != tiers[order[end]]}
    width = next(
        (width for width in sorted(set(live)) if sum(each <= width for each in live) >= most / 2),
        max(live),
    )
    ends = [end for end in range(1, len(order)) if live[end] <= width and end not in forced]
    kept = ends if len(ends) <= most else [ends[i * len(ends) // most] for i in range(most)]
    start = 0
    for end in sorted({*kept, *forced, len(order)}):
        yield tuple(order[start:end])
        start = end


def _live(space: CutSpace, order: Sequence[int]) -> list[int]:
    """How many units have made something, before each place in an order, that is still needed."""
    place = {unit: position for position, unit in enumerate(order)}
    changes = [0] * (len(order) + 1)
    for unit, followers in enumerate(_followers(space)):
        if followers:
            changes[place[unit] + 1] += 1
            changes[max(place[each] for each in followers) + 1] -= 1
    live, now = [], 0
    for change in changes:
        now += change
        live.append(now)
    return live


def _followers(space: CutSpace) -> list[set[int]]:
    followers: list[set[int]] = [set() for _ in space.units]
    for unit, needs in enumerate(space.needs):
        for need in needs:
            followers[need].add(unit)
    return followers


def _inputs(
    space: CutSpace, readers: dict[str, set[int]]
) -> list[tuple[list[str], frozenset[int]]]:
    """The model's inputs, those together that the same boxes read."""
    found: dict[frozenset[int], list[str]] = {}
    for slot in space.graph.inputs:
        found.setdefault(frozenset(readers.get(slot.name, ())), []).append(slot.name)
    if len(found) <= _MOST_INPUTS:
        return [(names, into) for into, names in found.items()]
    every = frozenset[int]().union(*found)
    return [([slot.name for slot in space.graph.inputs], every)]


def _units_box(space: CutSpace, group: tuple[int, ...], tier: int) -> Box:
    names = [name for unit in group for name in space.units[unit].nodes]
    operators = list(dict.fromkeys(space.graph.by_name[name].op_type for name in names))
    count = f"{len(group)}: " if len(group) > 1 else ""
    return Box("units", tier, f"{count}{one_line(', '.join(operators))}", _listed(names))


def _tensors_label(kind: str, names: Sequence[str]) -> str:
    return one_line(names[0]) if len(names) == 1 else f"{len(names)} {kind}s"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(one_line(name, 80) for name in names[:_NAMED]) + more
