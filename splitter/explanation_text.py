"""Why a plan is what it is, as text for people. Light."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.console import table
from protocol.text import one_line
from splitter.bars import stacked_bars
from splitter.explanation import Explanation, Neighbour
from splitter.plans import Candidate, Plan
from splitter.sensitivity import Flip

INPUTS = {
    "uplink_mbps": ("the uplink", " Mbit/s"),
    "downlink_mbps": ("the downlink", " Mbit/s"),
    "rtt_ms": ("the round trip", " ms"),
    "device_slowness": ("the device's time", " times"),
    "cloud_slowness": ("the cloud's time", " times"),
}
_NAME_CHARACTERS = 48


def explanation_text(plan: Plan, explanation: Explanation) -> str:
    """Return bars, neighbours, binding rules and flips."""
    parts = [
        stacked_bars(_shown(plan)),
        *_neighbours(explanation),
        "\n".join(_bindings(explanation)),
        "\n".join(_flips(plan, explanation)),
    ]
    return "\n\n".join(filter(None, parts))


def _shown(plan: Plan) -> list[Candidate]:
    """The baselines and the best few, each once."""
    every = (plan.device_only, plan.cloud_only, *plan.candidates)
    return list({each.cut: each for each in every}.values())


def _neighbours(explanation: Explanation) -> Iterator[str]:
    if not explanation.neighbours:
        return
    rows = [
        [
            f"{neighbour.candidate.predicted.latency_ms:.2f}",
            difference(explanation, neighbour),
            one_line(neighbour.moved, _NAME_CHARACTERS),
            neighbour.onto,
            f"{neighbour.candidate.predicted.uplink_bytes:,}",
        ]
        for neighbour in explanation.neighbours
    ]
    yield table(rows, ["ms", "worse by", "if this node moves", "onto", "bytes up"])


def difference(explanation: Explanation, neighbour: Neighbour) -> str:
    """Return by how much a neighbour is worse by the first objective."""
    best, value = explanation.values[0], neighbour.values[0]
    return f"{(value - best) / best:.2%}" if best else f"{value:.3g}"


def _bindings(explanation: Explanation) -> Iterator[str]:
    for binding in explanation.bindings:
        rule = one_line(str(binding.rule))
        if not binding.binds:
            yield f"{rule} does not bind: the plan would be the same without it."
            continue
        values = ", ".join(f"{value:.4g}" for value in binding.without)
        now = ", ".join(f"{value:.4g}" for value in explanation.values)
        yield f"{rule} binds: without it the objective would be {values} instead of {now}."


def _flips(plan: Plan, explanation: Explanation) -> Iterator[str]:
    if explanation.flips is None:
        yield "How far inputs may move is only known for an objective that is one sum of costs."
        return
    for name, (title, unit) in INPUTS.items():
        found = sorted(
            (flip for flip in explanation.flips if flip.input == name), key=lambda flip: flip.at
        )
        if found:
            ends = " or ".join(_flip(flip, unit) for flip in found)
            now = found[0].now
            shown = f"now {now:.4g}{unit}" if unit.strip() != "times" else "as profiled"
            yield f"{plan.chosen.cut} is the best until {title} ({shown}) is {ends}."
    if not explanation.flips:
        yield "No single input flips the decision within a hundredfold of what it is."


def _flip(flip: Flip, unit: str) -> str:
    return f"{flip.at:.4g}{unit} ({flip.cut})"
