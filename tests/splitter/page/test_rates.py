"""The pieces of the sweep are where the family is the best."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from splitter.page.rate_figure import segments
from tests.splitter.page.plans import split_plan


def test_pieces_follow_each_other_and_are_the_best(tmp_path: Path) -> None:
    family = split_plan(tmp_path).plan.family
    assert family is not None
    pieces = segments(family)
    assert pieces[0][0] == family.box.uplink_mbps[0]
    assert pieces[-1][1] == family.box.uplink_mbps[1]
    assert [start for start, _, _ in pieces[1:]] == [end for _, end, _ in pieces[:-1]]
    for start, end, member in pieces:
        moment = (math.sqrt(start * end), family.rtt_ms, family.load)
        best = family.best(*moment)
        assert member.latency_ms(*moment) == pytest.approx(best.latency_ms(*moment))
