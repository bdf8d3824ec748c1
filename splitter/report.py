"""A plan as text for people. Light."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from profiler.links import Link
from protocol.console import paint, table
from protocol.text import one_line
from splitter.family_text import family_lines, policy_line
from splitter.plans import Candidate, Machine, PartMemory, Plan, Prediction
from splitter.wishes import Limit

_NAME_CHARACTERS = 40
_USUAL = "latency"
_DECISIONS = {
    "device": "run it all on the device",
    "cloud": "send the input to the cloud",
    "split": "split it",
}


def plan_text(plan: Plan) -> str:
    """Return the decision, the modes side by side, and what else was weighed."""
    lines = [
        _machines(plan),
        *_links(plan),
        *_wishes(plan),
        "",
        paint(headline(plan), "bold"),
        *gap_lines(plan),
        "",
        _modes(plan),
        *unknown_energy_lines(plan),
        *_broken(plan),
        "",
        _candidates(plan.candidates),
        *(
            ["+ head and tail were timed on this machine, as far as they run here"]
            if any(candidate.verified for candidate in plan.candidates)
            else []
        ),
        *([] if plan.memory is None else [memory_text(plan.memory)]),
        *([] if plan.family is None else family_lines(plan.family, plan.link)),
        *map(policy_line, plan.policies),
        *([""] if plan.notes else []),
        *plan.notes,
    ]
    return "\n".join(lines)


def _machines(plan: Plan) -> str:
    between = "".join(f" over {machine_text(machine)}" for machine, _ in plan.edges)
    model = one_line(plan.model.name)
    return f"{model} on {machine_text(plan.device)}{between} with {machine_text(plan.cloud)}"


def _links(plan: Plan) -> Iterator[str]:
    for name, link in (("link", plan.link), *(("edge link", link) for _, link in plan.edges)):
        yield f"{name} {link_text(link)}"
        if link.source:
            yield one_line(link.source)


def link_text(link: Link) -> str:
    """Return the rates and the round trip of a link."""
    return (
        f"{link.uplink_mbps:g}/{link.downlink_mbps:g} Mbit/s up/down, round trip {link.rtt_ms:g} ms"
    )


def _wishes(plan: Plan) -> list[str]:
    if plan.objective == _USUAL and not plan.rules:
        return []
    return [", ".join((f"for {plan.objective}", *(one_line(str(rule)) for rule in plan.rules)))]


def gap_lines(plan: Plan) -> list[str]:
    """Return by how much a better plan may be better, if the time limit came first."""
    if not plan.gap:
        return []
    return [f"The time limit came first: a plan that is up to {plan.gap:.1%} better may exist."]


def memory_text(memory: PartMemory) -> str:
    """Return what the parts of the chosen cut take in memory."""
    head, tail = (f"{size / 1e6:.0f} MB" for size in (memory.head_bytes, memory.tail_bytes))
    if not memory.tail_bytes:
        return f"Peak memory of the best: {head} on the device, nothing in the cloud."
    if not memory.head_bytes:
        return (
            f"Peak memory of the best: {tail} in the cloud, and as much on the device, which runs "
            "the model only where the cloud does not answer."
        )
    return f"Peak memory of the best: head {head}, tail {tail} (the device holds both)."


def machine_text(machine: Machine) -> str:
    """Return a machine, how its costs are known, and their band."""
    return f"{one_line(machine.name)} ({machine.kind}, ±{machine.uncertainty:.0%})"


def headline(plan: Plan) -> str:
    """Return the decision in one line."""
    chosen = plan.chosen
    what = "run it all on the edge" if _is_whole(plan) else _DECISIONS[chosen.decision]
    text = f"Best: {what}, {chosen.predicted.latency_ms:.1f} ms a frame"
    if _pipelined(plan, ()):
        text += f", up to {1000 / chosen.predicted.period_ms:.1f} frames a second"
    if chosen.decision == "split" and not _is_whole(plan):
        names = ", ".join(short_name(tensor.name) for tensor in chosen.tensors)
        text += f", cut at {names}"
    return text


def _is_whole(plan: Plan) -> bool:
    """Whether one machine between device and cloud runs everything."""
    return plan.chosen.decision == "split" and len(set(plan.chosen.tiers)) == 1


def _weighed(plan: Plan) -> dict[str, Candidate]:
    modes = {"device only": plan.device_only, "cloud only": plan.cloud_only}
    return modes | ({"best split": plan.best_split} if plan.best_split else {})


def _modes(plan: Plan) -> str:
    modes = _weighed(plan)
    costs = [candidate.predicted for candidate in modes.values()]
    columns = {
        title: [column.text(cost) for cost in costs]
        for title, column in columns_of(plan, costs).items()
    }
    names = [f"{name}{_marks(plan, candidate)}" for name, candidate in modes.items()]
    return table(list(zip(names, *columns.values(), strict=True)), ["mode", *columns])


def _marks(plan: Plan, candidate: Candidate) -> str:
    best = " *" if candidate.cut == plan.chosen.cut else ""
    return best + (" !" if candidate.breaks else "")


def _broken(plan: Plan) -> list[str]:
    """Why a mode is no candidate."""
    return [
        f"! {name} breaks {one_line(', '.join(candidate.breaks))}"
        for name, candidate in _weighed(plan).items()
        if candidate.breaks
    ]


def unknown_energy_lines(plan: Plan) -> list[str]:
    """Return why an energy is a question mark: the device is known, the radio is not."""
    known = [mode.predicted.device_energy_mj is not None for mode in _weighed(plan).values()]
    if all(known) or not any(known):
        return []
    reason = (
        "? the radio's power is not known: typed rates, traces, probes and some presets name no "
        "radio; give a link preset that does, such as wifi or lte"
    )
    return [reason]


Wanted = Callable[[Plan, Sequence[Prediction]], bool]


def _always(_plan: Plan, _costs: Sequence[Prediction]) -> bool:
    return True


def _pipelined(plan: Plan, _costs: Sequence[Prediction]) -> bool:
    wished = {name for objective in plan.objectives for name in objective.weights}
    limited = {rule.metric for rule in plan.rules if isinstance(rule, Limit)}
    return "period_ms" in wished | limited


def _limited_memory(plan: Plan, _costs: Sequence[Prediction]) -> bool:
    return any(isinstance(rule, Limit) and rule.metric == "device_memory_mb" for rule in plan.rules)


@dataclass(frozen=True)
class Column:
    """How a figure of predictions is shown.

    Attributes:
        field: Its name in a prediction.
        digits: Behind the point.
        wanted: Whether it tells anything; ``None`` where that takes a value that is not 0.
        unit: What the field is divided by.
    """

    field: str
    digits: int = 2
    wanted: Wanted | None = _always
    unit: float = 1

    def value(self, cost: Prediction) -> float | None:
        """Return the figure of one prediction, if it is known."""
        value: float | None = getattr(cost, self.field)
        return value if value is None or self.unit == 1 else value / self.unit

    def text(self, cost: Prediction) -> str:
        """Return it as it is shown."""
        value = self.value(cost)
        return "?" if value is None else f"{value:,.{self.digits}f}"

    def is_wanted(self, plan: Plan, costs: Sequence[Prediction]) -> bool:
        """Whether the figure tells anything of these predictions."""
        if self.wanted is None:
            return any(getattr(cost, self.field) for cost in costs)
        return self.wanted(plan, costs)


_COLUMNS: Mapping[str, Column] = {
    "ms": Column("latency_ms"),
    "device": Column("device_ms"),
    "encode": Column("encode_ms"),
    "uplink": Column("uplink_ms"),
    "decode": Column("decode_ms"),
    "edge": Column("edge_ms", wanted=None),
    "edge link": Column("edge_link_ms", wanted=None),
    "queue": Column("queue_ms", wanted=None),
    "cloud": Column("cloud_ms"),
    "downlink": Column("downlink_ms"),
    "bytes up": Column("uplink_bytes", 0),
    "device mJ": Column("device_energy_mj", 0, None),
    "USD/1000": Column("usd_per_1000", 4, None),
    "stage ms": Column("period_ms", wanted=_pipelined),
    "device MB": Column("device_memory_bytes", 1, _limited_memory, 1e6),
}


def columns_of(plan: Plan, costs: Sequence[Prediction]) -> dict[str, Column]:
    """Return the figures that tell anything of these predictions, by title."""
    return {title: column for title, column in _COLUMNS.items() if column.is_wanted(plan, costs)}


def _candidates(candidates: Sequence[Candidate]) -> str:
    rows = [
        [
            f"{candidate.predicted.latency_ms:.2f}{' +' if candidate.verified else ''}",
            candidate.cut,
            str(candidate.device_nodes),
            f"{candidate.predicted.uplink_bytes:,}",
            "; ".join(_crossing(candidate)) or "-",
        ]
        for candidate in candidates
    ]
    return table(rows, ["ms", "candidate", "device nodes", "bytes up", "what crosses"])


def _crossing(candidate: Candidate) -> Iterator[str]:
    shown = candidate.tensors[:3]
    for tensor in shown:
        yield f"{short_name(tensor.name)} {list(tensor.shape)} {tensor.codec}"
    if len(candidate.tensors) > len(shown):
        yield f"{len(candidate.tensors) - len(shown)} more"


def short_name(name: str) -> str:
    """Return the end of a long name, on one line."""
    name = one_line(name)
    return name if len(name) <= _NAME_CHARACTERS else f"...{name[3 - _NAME_CHARACTERS :]}"
