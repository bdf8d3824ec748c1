"""The candidates of a plan as the page numbers them, and which are dominated. Pure and light."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from splitter.page.elements import Markup, joined, tag
from splitter.plans import Candidate, Plan, exceeded
from splitter.wishes import MetricName


@dataclass(frozen=True)
class Entry:
    """A candidate with its number, which is the same in all figures.

    Attributes:
        number: From 1, the chosen one's.
        candidate: The candidate.
        roles: What it is besides: the best, a baseline, the best split, best for another link.
        breaks: The user's rules that it breaks.
        weighed: Whether it competed: those that are the best for another link only did not.
    """

    number: int
    candidate: Candidate
    roles: tuple[str, ...]
    breaks: tuple[str, ...]
    weighed: bool

    @property
    def label(self) -> Markup:
        """Number, id, what it is, and which rules it breaks."""
        return self._labelled(f"breaks {rule}" for rule in self.breaks)

    @property
    def short_label(self) -> Markup:
        """Number, id and what it is, for the rows of tables."""
        return self._labelled(["breaks a rule"] if self.breaks else [])

    def _labelled(self, breaks: Iterable[str]) -> Markup:
        roles = (
            tag("span", role, class_="role best" if role == "best" else "role")
            for role in self.roles
        )
        broken = (tag("span", text, class_="role breaks") for text in breaks)
        timed = [tag("span", "timed", class_="role")] if self.candidate.verified else []
        return joined([self.heading, *roles, *broken, *timed], " ")

    @property
    def heading(self) -> Markup:
        """Number and id."""
        sign = tag("span", str(self.number), class_="sign chosen" if self.is_chosen else "sign")
        return joined([sign, tag("code", self.candidate.cut)], " ")

    @property
    def is_chosen(self) -> bool:
        """Whether it is the decision."""
        return self.number == 1

    @property
    def name(self) -> str:
        """Number and id as text."""
        return f"{self.number}: {self.candidate.cut}"


def entries_of(plan: Plan) -> tuple[Entry, ...]:
    """Return the chosen candidate, those that were weighed with it, and the plan family."""
    split = [] if plan.best_split is None else [plan.best_split]
    weighed = (plan.chosen, *plan.candidates, *split, plan.device_only, plan.cloud_only)
    cuts = {each.cut for each in weighed}
    found = {each.cut: each for each in reversed((*weighed, *plan.family_candidates))}
    ordered = dict.fromkeys(each.cut for each in (*weighed, *plan.family_candidates))
    return tuple(
        Entry(
            number,
            found[cut],
            tuple(_roles(plan, found[cut])),
            found[cut].breaks or tuple(map(str, exceeded(plan.rules, found[cut].predicted))),
            cut in cuts,
        )
        for number, cut in enumerate(ordered, 1)
    )


def _roles(plan: Plan, candidate: Candidate) -> list[str]:
    split = () if plan.best_split is None else (plan.best_split.cut,)
    roles = {
        "best": (plan.chosen.cut,),
        "device only": (plan.device_only.cut,),
        "cloud only": (plan.cloud_only.cut,),
        "best split": split,
    }
    return [role for role, cuts in roles.items() if candidate.cut in cuts]


def front_metrics(entries: Sequence[Entry]) -> tuple[MetricName, ...]:
    """Return the metrics of which all that were weighed are known and that tell them apart."""
    wanted: tuple[MetricName, ...] = ("latency_ms", "uplink_bytes", "device_energy_mj", "kl_nats")
    return tuple(
        name
        for name in wanted
        if None not in (values := {each.candidate.predicted.metric(name) for each in entries})
        and (len(values) > 1 or name in wanted[:2])
    )


def pareto_front(entries: Sequence[Entry], metrics: Sequence[MetricName]) -> frozenset[int]:
    """Return the numbers of those that keep the rules and that none of these dominates."""
    points = {
        each.number: [each.candidate.predicted.metric(name) or 0.0 for name in metrics]
        for each in entries
        if not each.breaks
    }
    return frozenset(
        number
        for number, point in points.items()
        if not any(dominates(other, point) for other in points.values())
    )


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether one is nowhere more than the other, and somewhere less."""
    return first != second and all(a <= b for a, b in zip(first, second, strict=True))
