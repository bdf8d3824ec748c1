"""Decide where to cut. A pure function of profiles, link and observation. Needs onnx and scipy."""

from __future__ import annotations

import math
from collections.abc import Iterable

from profiler.profile import Profile
from profiler.values import WHOLE_ONLY
from splitter.cuts import CLOUD_ONLY, DEVICE_ONLY, Cut, CutSpace
from splitter.errors import PlanError
from splitter.partitioner import CutCosts, best_split, minimum_cut, prefix_costs_ms
from splitter.plan import Candidate, Machine, Plan, Prediction
from splitter.weighing import Situation, Weighing

_CANDIDATES = 10


def make_plan(situation: Situation) -> Plan:
    """Return the plan of least latency.

    The best cut and the best split are exact for the profiles' costs; the other candidates are cuts
    between neighbours in topological order. What was timed counts instead of the profiles.

    Raises:
        PlanError: The model's inputs cannot be sent, or a cost is not a cost.
    """
    space = situation.space
    if not space.units or not space.graph.inputs:
        raise PlanError(f"{situation.model.name} computes nothing from inputs; there is no split")
    nothing = space.legal(frozenset())
    if nothing is None:
        names = space.unsendable.intersection((*space.graph.input_names, *space.graph.outputs))
        what = f"{min(names)[:80]!r}, by its type or size" if names else "so many tensors"
        raise PlanError(f"{what}: {WHOLE_ONLY}")
    weighed = Weighing(situation)
    cuts = {cut.id: cut for cut in _short_list(space, weighed.costs)}
    ranked = sorted(
        (weighed.candidate(cut) for cut in cuts.values()),
        key=lambda candidate: candidate.predicted.latency_ms,
    )
    by_id = {candidate.cut: candidate for candidate in ranked}
    chosen = cuts[ranked[0].cut]
    device = [name for index in sorted(chosen.units) for name in space.units[index].nodes]
    on_device = set(device)
    return Plan(
        model=situation.model,
        objective="latency",
        device=_machine(situation.device),
        cloud=_machine(situation.cloud),
        link=situation.link,
        chosen=ranked[0],
        device_nodes=tuple(device),
        cloud_nodes=tuple(node.name for node in space.graph.regular if node.name not in on_device),
        device_only=by_id[DEVICE_ONLY],
        cloud_only=by_id[CLOUD_ONLY],
        best_split=next((item for item in ranked if item.decision == "split"), None),
        candidates=tuple(ranked[:_CANDIDATES]),
        notes=(*situation.notes, *_notes(situation, ranked)),
    )


def _short_list(space: CutSpace, costs: CutCosts) -> Iterable[Cut]:
    """The optimum, the best split, the two pure modes, and enough of the best prefixes."""
    totals = prefix_costs_ms(space, costs)
    ranked = sorted(range(len(totals)), key=totals.__getitem__)[: _CANDIDATES + 2]
    for end in {*ranked, 0, len(space.units)}:
        cut = space.legal(frozenset(range(end)))
        if cut is not None and math.isfinite(totals[end]):
            yield cut
    yield minimum_cut(space, costs)
    split = best_split(space, costs)
    if split is not None:
        yield split


def _machine(profile: Profile) -> Machine:
    return Machine(profile.label, profile.kind, profile.engine.threads, profile.uncertainty)


def _notes(situation: Situation, ranked: list[Candidate]) -> Iterable[str]:
    chosen = ranked[0]
    if chosen.decision != "device":
        lossy = sorted({tensor.codec for tensor in chosen.tensors} - {"raw"})
        if lossy:
            yield f"Fidelity of {', '.join(lossy)} was not measured; the answer may change."
    sending = next((item for item in ranked if item.predicted.uplink_bytes), None)
    if sending is not None and sending.predicted.uplink_p95_ms != sending.predicted.uplink_ms:
        sent = sending.predicted
        yield (
            f"The link varies: for {sending.cut!r} the uplink takes {sent.uplink_ms:.1f} ms in "
            f"expectation, up to {sent.uplink_p50_ms:.1f} ms for half of the frames and up to "
            f"{sent.uplink_p95_ms:.1f} ms for 95 of 100."
        )
    radio = situation.radio
    if radio is not None and radio.tail_ms:
        yield (
            f"Energies are of a lone frame: {radio.tail_mw * radio.tail_ms / 1e3:,.0f} mJ of the "
            f"radio's go into the {radio.tail_ms / 1e3:.1f} s for which it stays awake afterwards."
        )
    rival = next((item for item in ranked[1:] if item.decision != chosen.decision), None)
    band = max(situation.device.uncertainty, situation.cloud.uncertainty)
    if rival is not None and _could_flip(chosen.predicted, rival.predicted, situation):
        yield (
            f"Within the uncertainty of the costs (up to {band:.0%}) {rival.decision!r} may win "
            f"over {chosen.decision!r}: {rival.predicted.latency_ms:.1f} ms against "
            f"{chosen.predicted.latency_ms:.1f} ms."
        )


def _could_flip(chosen: Prediction, rival: Prediction, situation: Situation) -> bool:
    """Whether some costs within both profiles' bands make the rival the better one.

    Device times scale together, and so do cloud times, so it is enough to look at the corners.
    """
    for device_sign in (-1, 1):
        for cloud_sign in (-1, 1):
            device = device_sign * situation.device.uncertainty
            cloud = cloud_sign * situation.cloud.uncertainty
            gap = rival.latency_ms - chosen.latency_ms
            gap += device * (rival.device_ms - chosen.device_ms)
            gap += cloud * (rival.cloud_ms - chosen.cloud_ms)
            if gap < 0:
                return True
    return False
