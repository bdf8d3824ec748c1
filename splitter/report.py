"""A plan as text for people. Light."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from protocol.console import paint, table
from protocol.text import one_line
from splitter.family_text import family_lines
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
        paint(_headline(plan), "bold"),
        *_gap(plan),
        "",
        _modes(plan),
        *_unknown_energy(plan),
        *_broken(plan),
        "",
        _candidates(plan.candidates),
        *(
            ["+ head and tail were timed on this machine, as far as they run here"]
            if any(candidate.verified for candidate in plan.candidates)
            else []
        ),
        *([] if plan.memory is None else [_memory(plan.memory)]),
        *family_lines(plan),
        *([""] if plan.notes else []),
        *plan.notes,
    ]
    return "\n".join(lines)


def _machines(plan: Plan) -> str:
    between = "".join(f" over {_machine(machine)}" for machine, _ in plan.edges)
    model = one_line(plan.model.name)
    return f"{model} on {_machine(plan.device)}{between} with {_machine(plan.cloud)}"


def _links(plan: Plan) -> Iterator[str]:
    for name, link in (("link", plan.link), *(("edge link", link) for _, link in plan.edges)):
        yield (
            f"{name} {link.uplink_mbps:g}/{link.downlink_mbps:g} Mbit/s up/down, "
            f"round trip {link.rtt_ms:g} ms"
        )
        if link.source:
            yield one_line(link.source)


def _wishes(plan: Plan) -> list[str]:
    if plan.objective == _USUAL and not plan.rules:
        return []
    return [", ".join((f"for {plan.objective}", *(one_line(str(rule)) for rule in plan.rules)))]


def _gap(plan: Plan) -> list[str]:
    if not plan.gap:
        return []
    return [f"The time limit came first: a plan that is up to {plan.gap:.1%} better may exist."]


def _memory(memory: PartMemory) -> str:
    head, tail = (f"{size / 1e6:.0f} MB" for size in (memory.head_bytes, memory.tail_bytes))
    if not memory.tail_bytes:
        return f"Peak memory of the best: {head} on the device, nothing in the cloud."
    if not memory.head_bytes:
        return (
            f"Peak memory of the best: {tail} in the cloud, and as much on the device, which runs "
            "the model only where the cloud does not answer."
        )
    return f"Peak memory of the best: head {head}, tail {tail} (the device holds both)."


def _machine(machine: Machine) -> str:
    return f"{one_line(machine.name)} ({machine.kind}, ±{machine.uncertainty:.0%})"


def _headline(plan: Plan) -> str:
    chosen = plan.chosen
    what = "run it all on the edge" if _is_whole(plan) else _DECISIONS[chosen.decision]
    text = f"Best: {what}, {chosen.predicted.latency_ms:.1f} ms a frame"
    if _pipelined(plan, ()):
        text += f", up to {1000 / chosen.predicted.period_ms:.1f} frames a second"
    if chosen.decision == "split" and not _is_whole(plan):
        names = ", ".join(_short(tensor.name) for tensor in chosen.tensors)
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
        title: [cell(cost) for cost in costs]
        for title, (cell, wanted) in _COLUMNS.items()
        if wanted(plan, costs)
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


def _unknown_energy(plan: Plan) -> list[str]:
    """Why a cell of the energies is a question mark: the device is known, the radio is not."""
    known = [mode.predicted.device_energy_mj is not None for mode in _weighed(plan).values()]
    if all(known) or not any(known):
        return []
    reason = (
        "? the radio's power is not known: typed rates, traces, probes and some presets name no "
        "radio; give a link preset that does, such as wifi or lte"
    )
    return [reason]


Cell = Callable[[Prediction], str]
Wanted = Callable[[Plan, Sequence[Prediction]], bool]


def _always(_plan: Plan, _costs: Sequence[Prediction]) -> bool:
    return True


def _where(field: str) -> Wanted:
    """A column that is there where some cost is known and not 0."""
    return lambda _, costs: any(getattr(cost, field) for cost in costs)


def _pipelined(plan: Plan, _costs: Sequence[Prediction]) -> bool:
    wished = {name for objective in plan.objectives for name in objective.weights}
    limited = {rule.metric for rule in plan.rules if isinstance(rule, Limit)}
    return "period_ms" in wished | limited


def _limited_memory(plan: Plan, _costs: Sequence[Prediction]) -> bool:
    return any(isinstance(rule, Limit) and rule.metric == "device_memory_mb" for rule in plan.rules)


def _ms(field: str) -> Cell:
    return lambda cost: f"{getattr(cost, field):.2f}"


def _known(field: str, digits: int) -> Cell:
    def cell(cost: Prediction) -> str:
        value = getattr(cost, field)
        return "?" if value is None else f"{value:,.{digits}f}"

    return cell


_COLUMNS: Mapping[str, tuple[Cell, Wanted]] = {
    "ms": (_ms("latency_ms"), _always),
    "device": (_ms("device_ms"), _always),
    "encode": (_ms("encode_ms"), _always),
    "uplink": (_ms("uplink_ms"), _always),
    "decode": (_ms("decode_ms"), _always),
    "edge": (_ms("edge_ms"), _where("edge_ms")),
    "edge link": (_ms("edge_link_ms"), _where("edge_link_ms")),
    "queue": (_ms("queue_ms"), _where("queue_ms")),
    "cloud": (_ms("cloud_ms"), _always),
    "downlink": (_ms("downlink_ms"), _always),
    "bytes up": (lambda cost: f"{cost.uplink_bytes:,}", _always),
    "device mJ": (_known("device_energy_mj", 0), _where("device_energy_mj")),
    "USD/1000": (_known("usd_per_1000", 4), _where("usd_per_1000")),
    "stage ms": (_ms("period_ms"), _pipelined),
    "device MB": (lambda cost: f"{cost.device_memory_bytes / 1e6:.1f}", _limited_memory),
}


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
        yield f"{_short(tensor.name)} {list(tensor.shape)} {tensor.codec}"
    if len(candidate.tensors) > len(shown):
        yield f"{len(candidate.tensors) - len(shown)} more"


def _short(name: str) -> str:
    name = one_line(name)
    return name if len(name) <= _NAME_CHARACTERS else f"...{name[3 - _NAME_CHARACTERS :]}"
