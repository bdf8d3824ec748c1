"""The tables of the page: parts of latencies, policies, explanations, all figures. Light."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from protocol.text import one_line
from splitter.explanation import Explanation
from splitter.explanation_text import INPUTS, difference
from splitter.family_text import POLICIES, cut_shares
from splitter.page.elements import Markup, joined, number, table, tag
from splitter.page.entries import Entry
from splitter.plans import Plan
from splitter.report import columns_of

_DIGITS = 3
_TIMES = " times"


def parts_table(plan: Plan, entries: Sequence[Entry]) -> Markup:
    """Return the parts of each candidate's latency, as the text report has them."""
    columns = columns_of(plan, [each.candidate.predicted for each in entries])
    rows = []
    for each in entries:
        cost = each.candidate.predicted
        cells = (number(column.text(cost), column.value(cost)) for column in columns.values())
        rows.append([each.short_label, *cells])
    return table("Milliseconds, and bytes sent up", ["candidate", *columns], rows)


def figures_table(entries: Sequence[Entry]) -> Markup:
    """Return everything that is predicted, a row for each figure, named as in JSON."""
    costs = [(each, asdict(each.candidate.predicted)) for each in entries]
    rows = [
        [tag("code", field), *(_figure(each, field, cost[field]) for each, cost in costs)]
        for field in costs[0][1]
    ]
    headers = ["figure", *(each.heading for each in entries)]
    return table("All figures of all candidates", headers, rows, class_="figures-table")


def _figure(entry: Entry, field: str, value: Any) -> str:
    text = "?" if value is None else value if isinstance(value, str) else _exact(value)
    return number(text, value, data_cut=entry.candidate.cut, data_field=field)


def _exact(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    small = value and abs(value) < 10**-_DIGITS
    return f"{value:.3g}" if small else f"{value:,.{_DIGITS}f}"


def policies_table(plan: Plan) -> Markup:
    """Return how ways of choosing cuts do while the link follows its trace."""
    rows = [
        [
            POLICIES[policy.name],
            cut_shares(policy),
            number(f"{policy.latency_ms:,.1f}", policy.latency_ms),
            number(f"{policy.regret_ms:,.1f}", policy.regret_ms),
        ]
        for policy in plan.policies
    ]
    headers = ["choice", "share of the time", "expected ms", "ms above the best possible"]
    return table("Ways of choosing cuts on this trace", headers, rows, class_="policies")


def explanation_tables(explanation: Explanation) -> Iterator[Markup]:
    """Yield the neighbours of the decision, what the rules cost, and what flips it."""
    if explanation.neighbours:
        yield _neighbours(explanation)
    if explanation.bindings:
        yield _bindings(explanation)
    if explanation.flips is None:
        text = "How far inputs may move is only known for an objective that is one sum of costs."
        yield tag("p", text)
    elif explanation.flips:
        yield _flips(explanation)
    else:
        yield tag("p", "No single input flips the decision within a hundredfold of what it is.")


def _neighbours(explanation: Explanation) -> Markup:
    rows = [
        [
            tag("code", one_line(each.moved)),
            each.onto,
            number(
                f"{each.candidate.predicted.latency_ms:,.2f}", each.candidate.predicted.latency_ms
            ),
            difference(explanation, each),
            number(
                f"{each.candidate.predicted.uplink_bytes:,}", each.candidate.predicted.uplink_bytes
            ),
        ]
        for each in explanation.neighbours
    ]
    headers = ["if this node moves", "onto", "ms", "worse by", "bytes up"]
    return table("Plans that differ by one step", headers, rows)


def _bindings(explanation: Explanation) -> Markup:
    rows = [
        [
            one_line(str(each.rule)),
            "yes" if each.binds else "no",
            _values(each.without),
            _values(explanation.values),
        ]
        for each in explanation.bindings
    ]
    headers = ["constraint", "binds", "objective without it", "objective now"]
    return table("What each constraint costs", headers, rows)


def _values(values: Sequence[float]) -> Markup:
    return joined((_value(value) for value in values), ", ")


def _value(value: float) -> str:
    return number(f"{value:,.4g}", value) if math.isfinite(value) else "not known"


def _flips(explanation: Explanation) -> Markup:
    rows = []
    for flip in sorted(
        explanation.flips or (), key=lambda each: (list(INPUTS).index(each.input), each.at)
    ):
        title, unit = INPUTS[flip.input]
        rows.append(
            [
                title,
                "as profiled"
                if unit == _TIMES
                else joined([number(f"{flip.now:,.4g}", flip.now), unit]),
                joined([number(f"{flip.at:,.4g}", flip.at), unit]),
                tag("code", flip.cut),
            ]
        )
    headers = ["if this moves", "from", "to", "this is as good"]
    return table("What flips the decision", headers, rows)
