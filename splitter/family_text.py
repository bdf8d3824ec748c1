"""A plan family as text for people. Light."""

from __future__ import annotations

from collections.abc import Iterator

from profiler.links import Link
from splitter.family import Family
from splitter.policy import Policy

POLICIES = {
    "static": "The best cut for all moments of the trace",
    "by rate": "The best cut for the rate of each moment",
    "clairvoyant": "Who knows how long each frame will take",
}
_ENDS = 1e-9


def family_lines(family: Family, link: Link) -> Iterator[str]:
    """Yield where the best plan changes with the uplink."""
    low, high = family.box.uplink_mbps
    if not family.crossovers:
        best = family.best(link.uplink_mbps, family.rtt_ms, family.load)
        yield f"For latency, {best.cut} stays the best from {low:.3g} to {high:.3g} Mbit/s up."
    else:
        first, *_ = family.crossovers
        steps = "".join(
            f", from {each.uplink_mbps:.3g} {each.faster}" for each in family.crossovers
        )
        yield f"For latency, by Mbit/s up: below {first.uplink_mbps:.3g} {first.slower}{steps}."
    others = len(family.members)
    if others > 1:
        yield (
            f"{others} cuts are the best for some uplink of {low:.3g} to {high:.3g} Mbit/s, round "
            f"trip up to {family.box.rtt_ms[1]:g} ms and load up to {family.box.load[1]:.0%}."
        )


def policy_line(policy: Policy) -> str:
    """Return how well a way of choosing cuts follows a trace."""
    return (
        f"{POLICIES[policy.name]} ({cut_shares(policy)}): {policy.latency_ms:.1f} ms in "
        f"expectation, {policy.regret_ms:.1f} ms more than the best possible."
    )


def cut_shares(policy: Policy) -> str:
    """Return the cuts that a policy chooses, the most frequent first."""
    return ", ".join(
        f"{cut} {share:.0%}"
        for cut, share in sorted(policy.cuts.items(), key=lambda item: -item[1])
        if share > _ENDS
    )
