"""What a reader of a plan should know, one sentence each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from splitter.bands import Bands
from splitter.plans import Candidate
from splitter.situation import Situation


def plan_notes(
    situation: Situation, ranked: Sequence[Candidate], chosen: Candidate
) -> Iterable[str]:
    """Yield the notes of a plan.

    Args:
        situation: What it was decided from.
        ranked: All candidates, best first.
        chosen: The decision.
    """
    if chosen.decision != "device":
        lossy = sorted({tensor.codec for tensor in chosen.tensors} - {"raw"})
        unmeasured = chosen.predicted.kl_nats is None
        if lossy and unmeasured:
            yield f"Fidelity of {', '.join(lossy)} was not measured; the answer may change."
    yield from _link_notes(ranked)
    yield from _pace_notes(situation, chosen)
    if situation.middle and any(0 < tier < len(situation.middle) + 1 for tier in chosen.tiers):
        yield "A plan that uses a machine in between cannot be run yet: agents speak to one worker."
    radio = situation.radio
    if radio is not None and radio.tail_ms and situation.wishes.load.fps is None:
        yield (
            f"Energies are of a lone frame: {radio.tail_mw * radio.tail_ms / 1e3:,.0f} mJ of the "
            f"radio's go into the {radio.tail_ms / 1e3:.1f} s for which it stays awake afterwards."
        )
    if situation.wishes.objective_text == "latency":
        yield from _flip_notes(situation, ranked, chosen)


def _link_notes(ranked: Sequence[Candidate]) -> Iterable[str]:
    sending = next((item for item in ranked if item.predicted.uplink_bytes), None)
    if sending is not None and sending.predicted.uplink_p95_ms != sending.predicted.uplink_ms:
        sent = sending.predicted
        yield (
            f"The link varies: for {sending.cut!r} the uplink takes {sent.uplink_ms:.1f} ms in "
            f"expectation, up to {sent.uplink_p50_ms:.1f} ms for half of the frames and up to "
            f"{sent.uplink_p95_ms:.1f} ms for 95 of 100."
        )


def _pace_notes(situation: Situation, chosen: Candidate) -> Iterable[str]:
    """Whether the plan keeps up with the frames, and what throughput means."""
    fps, cost = situation.wishes.load.fps, chosen.predicted
    if fps is not None and cost.period_ms > 1000 / fps:
        yield (
            f"At {fps:g} frames a second the {cost.bottleneck} falls behind: it takes "
            f"{cost.period_ms:.1f} ms of each {1000 / fps:.1f} ms."
        )
    if situation.wishes.objective_text == "throughput":
        yield (
            f"Up to {1000 / cost.period_ms:.1f} frames a second where all stages overlap, limited "
            f"by the {cost.bottleneck}; an agent that waits for each answer makes "
            f"{1000 / cost.latency_ms:.1f}."
        )


def _flip_notes(
    situation: Situation, ranked: Sequence[Candidate], chosen: Candidate
) -> Iterable[str]:
    rivals = (item for item in ranked if item.decision != chosen.decision and not item.breaks)
    rival = next(rivals, None)
    device, *middle, cloud = (profile.uncertainty for profile in situation.profiles)
    bands = Bands(device, max(middle, default=0.0), cloud)
    band = max(device, *middle, cloud)
    if rival is not None and bands.may_win(rival.predicted, chosen.predicted):
        yield (
            f"Within the uncertainty of the costs (up to {band:.0%}) {rival.decision!r} may win "
            f"over {chosen.decision!r}: {rival.predicted.latency_ms:.1f} ms against "
            f"{chosen.predicted.latency_ms:.1f} ms."
        )
