"""A plan as text for people. Light."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocol.console import paint, table
from protocol.text import one_line
from splitter.plan import Candidate, Machine, PartMemory, Plan

_NAME_CHARACTERS = 40
_DECISIONS = {
    "device": "run it all on the device",
    "cloud": "send the input to the cloud",
    "split": "split it",
}


def plan_text(plan: Plan) -> str:
    """Return the decision, the modes side by side, and what else was weighed."""
    link = plan.link
    lines = [
        f"{one_line(plan.model.name)} on {_machine(plan.device)} with {_machine(plan.cloud)}",
        (
            f"link {link.uplink_mbps:g}/{link.downlink_mbps:g} Mbit/s up/down, "
            f"round trip {link.rtt_ms:g} ms"
        ),
        *([one_line(link.source)] if link.source else []),
        "",
        paint(_headline(plan), "bold"),
        "",
        _modes(plan),
        *_unknown_energy(plan),
        "",
        _candidates(plan.candidates),
        *(
            ["+ head and tail were timed on this machine, as far as they run here"]
            if any(candidate.verified for candidate in plan.candidates)
            else []
        ),
        *([] if plan.memory is None else [_memory(plan.memory)]),
        *([""] if plan.notes else []),
        *plan.notes,
    ]
    return "\n".join(lines)


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
    text = f"Best: {_DECISIONS[chosen.decision]}, {chosen.predicted.latency_ms:.1f} ms a frame"
    if chosen.decision == "split":
        names = ", ".join(_short(tensor.name) for tensor in chosen.tensors)
        text += f", cut at {names}"
    return text


def _weighed(plan: Plan) -> dict[str, Candidate]:
    modes = {"device only": plan.device_only, "cloud only": plan.cloud_only}
    return modes | ({"best split": plan.best_split} if plan.best_split else {})


def _modes(plan: Plan) -> str:
    modes = _weighed(plan)
    headers = [
        "mode",
        "ms",
        "device",
        "encode",
        "uplink",
        "decode",
        "cloud",
        "downlink",
        "bytes up",
    ]
    rows = [_mode(plan, name, candidate) for name, candidate in modes.items()]
    energies = [candidate.predicted.device_energy_mj for candidate in modes.values()]
    if any(energy is not None for energy in energies):
        headers.append("device mJ")
        for row, energy in zip(rows, energies, strict=True):
            row.append("?" if energy is None else f"{energy:,.0f}")
    return table(rows, headers)


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


def _mode(plan: Plan, name: str, candidate: Candidate) -> list[str]:
    cost = candidate.predicted
    times = (
        cost.latency_ms,
        cost.device_ms,
        cost.encode_ms,
        cost.uplink_ms,
        cost.decode_ms,
        cost.cloud_ms,
        cost.downlink_ms,
    )
    mark = " *" if candidate.cut == plan.chosen.cut else ""
    return [name + mark, *(f"{time:.2f}" for time in times), f"{cost.uplink_bytes:,}"]


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
