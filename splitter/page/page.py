"""A plan as one HTML page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from profiler.links import Link
from protocol.text import one_line
from splitter.explanation import Explanation, plan_content
from splitter.family_text import family_lines
from splitter.page.elements import Markup, embedded_json, tag
from splitter.page.entries import Entry, entries_of
from splitter.page.latency_figure import prediction_bands, stacked_latency
from splitter.page.network_figure import network_figure
from splitter.page.pareto_figure import pareto_figures
from splitter.page.rate_figure import rate_sweep
from splitter.page.style import stylesheet
from splitter.page.tables import (
    explanation_tables,
    figures_table,
    parts_table,
    policies_table,
)
from splitter.plans import Plan
from splitter.report import (
    gap_lines,
    headline,
    link_text,
    machine_text,
    memory_text,
    unknown_energy_lines,
)

if TYPE_CHECKING:
    from splitter.cuts import CutSpace

# Nothing is loaded and nothing runs, whatever names in the model say.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def plan_page(plan: Plan, space: CutSpace, explanation: Explanation | None = None) -> str:
    """Return a page about a plan that needs nothing but itself.

    Args:
        plan: What was decided.
        space: The graph that it is about.
        explanation: Why, if that is known.
    """
    entries = entries_of(plan)
    sections = list(_sections(plan, space, explanation, entries))
    links = (tag("li", tag("a", title, href=f"#{identifier}")) for identifier, title, _ in sections)
    title = f"Plan for {one_line(plan.model.name)}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(stylesheet())),
    )
    body = tag(
        "body",
        tag("header", *_header(plan)),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag(
            "main",
            *(
                tag("section", tag("h2", title), *content, id=identifier)
                for identifier, title, content in sections
            ),
        ),
        tag("footer", "Written by split-plan. The plan itself is in this page, as JSON."),
        embedded_json(plan_content(plan, explanation), "plan"),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(plan: Plan) -> Iterator[Markup]:
    yield tag("p", f"Plan for {one_line(plan.model.name)}", class_="of")
    yield tag("h1", headline(plan))
    yield tag("ul", *_modes(plan), class_="modes")
    yield tag(
        "dl",
        *(
            tag(name, text)
            for pair in _terms(plan)
            for name, text in zip(("dt", "dd"), pair, strict=True)
        ),
    )
    memory = [] if plan.memory is None else [memory_text(plan.memory)]
    notes = [*gap_lines(plan), *memory, *plan.notes, *unknown_energy_lines(plan)]
    yield tag("ul", *(tag("li", one_line(note)) for note in notes), class_="notes")


def _modes(plan: Plan) -> Iterator[Markup]:
    """The whole modes and the best split, each with its latency against the decision's."""
    best = plan.chosen.predicted.latency_ms
    modes = {
        "device only": plan.device_only,
        "cloud only": plan.cloud_only,
        "best split": plan.best_split,
    }
    for name, candidate in modes.items():
        if candidate is None:
            yield tag(
                "li", tag("span", name), tag("b", "none"), tag("span", "no split keeps the rules")
            )
            continue
        cost, chosen = candidate.predicted, candidate.cut == plan.chosen.cut
        times = f"{cost.latency_ms / best:.2f} times the best" if best else ""
        what = "the best" if chosen else times
        if candidate.breaks:
            what = f"breaks {one_line(', '.join(candidate.breaks))}"
        yield tag(
            "li",
            tag("span", name),
            tag("b", f"{cost.latency_ms:,.1f} ms"),
            tag("span", what),
            class_="chosen" if chosen else None,
        )


def _terms(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "device", machine_text(plan.device)
    yield "link", _link(plan.link)
    for machine, link in plan.edges:
        yield "edge", machine_text(machine)
        yield "edge link", _link(link)
    yield "cloud", machine_text(plan.cloud)
    yield "objective", plan.objective
    rules = ", ".join(one_line(str(rule)) for rule in plan.rules)
    yield "constraints", rules or "none"
    yield "model", f"{one_line(plan.model.name)}, SHA-256 {plan.model.sha256[:16]}…"


def _link(link: Link) -> str:
    return one_line("; ".join(filter(None, (link_text(link), link.source))))


_Section = tuple[str, str, Sequence[Markup]]


def _sections(
    plan: Plan, space: CutSpace, explanation: Explanation | None, entries: Sequence[Entry]
) -> Iterator[_Section]:
    weighed = [each for each in entries if each.weighed]
    yield (
        "latency",
        "Where the time goes",
        [
            _hint("Each candidate has a number, the same in all figures; 1 is the decision."),
            stacked_latency(weighed),
            parts_table(plan, weighed),
        ],
    )
    yield "bands", "How sure that is", [_hint(_BANDS), prediction_bands(plan, weighed)]
    yield "front", "What can be had for what", [_hint(_FRONT), pareto_figures(entries)]
    if plan.family is not None:
        numbers = {each.candidate.cut: each.number for each in entries}
        lines = " ".join(family_lines(plan.family, plan.link))
        yield "rates", "Other links", [_hint(lines), rate_sweep(plan, plan.family, numbers)]
    if plan.policies:
        yield "policies", "A link that varies", [policies_table(plan)]
    yield "network", "The network and its cut", [_hint(_NETWORK), network_figure(plan, space)]
    if explanation is not None:
        yield "why", "Why", list(explanation_tables(explanation))
    yield "figures", "All figures", [_hint(_FIGURES), figures_table(entries)]


_BANDS = (
    "The dot is the prediction. The line is what the bands of the machines make of it; the grey "
    "ground is the decision's. The times of one machine move together, so that lines overlap does "
    "not say that another candidate may win; those that may are marked."
)
_FRONT = (
    "Filled dots are not dominated: no other candidate that keeps the rules is as good in all that "
    "is known and better in something. The decision's number has a star; a cross breaks a rule."
)
_NETWORK = "Boxes are operators that stay together, or several of them; inputs are at the top."
_FIGURES = (
    "Names are those of --json, and ? is not known. Candidates beyond those weighed are the best "
    "for other links."
)


def _hint(text: str) -> Markup:
    return tag("p", text, class_="hint")
