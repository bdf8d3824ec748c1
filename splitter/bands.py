"""How far the machines' uncertainty may move a latency, and a decision with it. Pure and light.

A machine's times scale together: if one of its layers is slower than thought, all are. So two plans
that use a machine alike move alike, and what may turn a decision is where they differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from splitter.plans import Plan, Prediction


@dataclass(frozen=True)
class Bands:
    """Relative bands around the times of the device, of what lies between, and of the cloud."""

    device: float
    edge: float
    cloud: float

    @classmethod
    def of(cls, plan: Plan) -> Bands:
        """Return the bands of a plan's machines."""
        between = (machine.uncertainty for machine, _ in plan.edges)
        return cls(plan.device.uncertainty, max(between, default=0.0), plan.cloud.uncertainty)

    def range_ms(self, cost: Prediction) -> tuple[float, float]:
        """Return the least and the longest latency within the bands."""
        parts = self._parts(cost)
        return (
            cost.latency_ms - sum(min(band, 1.0) * part for band, part in parts),
            cost.latency_ms + sum(band * part for band, part in parts),
        )

    def may_win(self, rival: Prediction, chosen: Prediction) -> bool:
        """Whether some times within the bands make the rival faster than the chosen plan."""
        pairs = zip(self._parts(rival), self._parts(chosen), strict=True)
        gained = sum(band * abs(theirs - ours) for (band, theirs), (_, ours) in pairs)
        return rival.latency_ms - chosen.latency_ms < gained

    def _parts(self, cost: Prediction) -> tuple[tuple[float, float], ...]:
        return (
            (self.device, cost.device_ms),
            (self.edge, cost.edge_ms),
            (self.cloud, cost.cloud_ms),
        )
