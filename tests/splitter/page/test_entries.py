"""Candidates have one number each, and those marked as not dominated are not."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from splitter.page.entries import Entry, dominates, entries_of, front_metrics, pareto_front
from splitter.plans import Candidate
from tests.splitter.page.plans import split_plan
from tests.splitter.test_bands import prediction

POINTS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.one_of(st.none(), st.integers(0, 3))),
    min_size=1,
    max_size=9,
)


def entry(number: int, latency: float, size: int, energy: float | None, *breaks: str) -> Entry:
    cost = prediction(latency_ms=latency, uplink_bytes=size, device_energy_mj=energy)
    candidate = Candidate(f"cut-{number}", "split", (), frozenset(), 0, cost)
    return Entry(number, candidate, (), breaks, weighed=True)


@given(POINTS)
def test_the_front_is_what_nothing_dominates(points: list[tuple[int, int, int | None]]) -> None:
    entries = [entry(number, *point) for number, point in enumerate(points)]
    metrics = front_metrics(entries)
    front = pareto_front(entries, metrics)
    vectors = [
        [each.candidate.predicted.metric(name) or 0.0 for name in metrics] for each in entries
    ]
    for number, vector in enumerate(vectors):
        beaten = any(dominates(other, vector) for other in vectors)
        assert (number in front) == (not beaten)
    assert front


@given(
    st.lists(st.integers(0, 2), min_size=2, max_size=2),
    st.lists(st.integers(0, 2), min_size=2, max_size=2),
)
def test_dominance(first: list[int], second: list[int]) -> None:
    better = all(a <= b for a, b in zip(first, second, strict=True)) and sum(first) < sum(second)
    assert dominates(first, second) == better
    assert not (dominates(first, second) and dominates(second, first))


def test_what_breaks_a_rule_is_not_on_the_front() -> None:
    entries = [entry(1, 10, 10, None), entry(2, 1, 1, None, "--keep-on-device input")]
    assert pareto_front(entries, front_metrics(entries)) == {1}


def test_what_is_not_known_of_all_does_not_count() -> None:
    known = [entry(1, 10, 10, 5.0), entry(2, 11, 11, 4.0)]
    assert front_metrics(known) == ("latency_ms", "uplink_bytes", "device_energy_mj")
    assert front_metrics([*known, entry(3, 1, 1, None)]) == ("latency_ms", "uplink_bytes")


def test_each_cut_has_one_number(tmp_path: Path) -> None:
    plan = split_plan(tmp_path).plan
    entries = entries_of(plan)
    assert [each.number for each in entries] == list(range(1, len(entries) + 1))
    cuts = [each.candidate.cut for each in entries]
    assert len(set(cuts)) == len(cuts)
    assert cuts[0] == plan.chosen.cut
    assert {member.cut for member in plan.family.members} <= set(cuts) if plan.family else False
    cloud = entries[cuts.index("cloud")]
    assert cloud.breaks == ("--keep-on-device input",)
    assert cloud.roles == ("cloud only",)
