"""A plan family as text for people. Light."""

from __future__ import annotations

from collections.abc import Iterator

from splitter.plans import Plan
from splitter.policy import Policy

POLICIES = {
    "static": "The best cut for all moments of the trace",
    "by rate": "The best cut for the rate of each moment",
    "clairvoyant": "Who knows how long each frame will take",
}
_ENDS = 1e-9


def family_lines(plan: Plan) -> Iterator[str]:
    """Yield where the best plan changes with the uplink, and how well cuts follow a trace."""
    family = plan.family
    if family is None:
        return
    low, high = family.box.uplink_mbps
    if not family.crossovers:
        best = family.best(plan.link.uplink_mbps, family.rtt_ms, family.load)
        yield f"For latency, {best.cut} stays the best from {low:g} to {high:g} Mbit/s up."
    else:
        first, *_ = family.crossovers
        steps = "".join(
            f", from {each.uplink_mbps:.3g} {each.faster}" for each in family.crossovers
        )
        yield f"For latency, by Mbit/s up: below {first.uplink_mbps:.3g} {first.slower}{steps}."
    others = len(family.members)
    if others > 1:
        yield (
            f"{others} cuts are the best for some uplink of {low:g} to {high:g} Mbit/s, round trip "
            f"up to {family.box.rtt_ms[1]:g} ms and load up to {family.box.load[1]:.0%}."
        )
    yield from map(_policy, plan.policies)


def _policy(policy: Policy) -> str:
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
