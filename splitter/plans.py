"""A plan: the decision, what it is predicted to cost, and what else was weighed. Light."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from profiler.links import Link
from profiler.values import ModelIdentity
from splitter.bundle import Decision
from splitter.wishes import Limit, MetricName, Objective, Rule

if TYPE_CHECKING:
    from splitter.family import Family
    from splitter.policy import Policy

SCHEMA = 1
_SLACK = 1e-6


@dataclass(frozen=True)
class Prediction:
    """What one frame is predicted to cost.

    The latency runs from the model's inputs being ready on the device to its outputs being there;
    it is the sum of the other times. Sockets and hand-overs between threads count half as
    ``uplink_ms``, half as ``downlink_ms``, in which results are encoded, sent and decoded as well.
    ``queue_ms`` is what a frame waits for a worker that serves others too. ``uplink_bytes`` and
    ``downlink_bytes`` are those of the messages. Where there are machines between device and cloud,
    ``uplink_ms``, ``decode_ms`` and ``downlink_ms`` are of the device's own link, ``edge_ms`` is
    what those machines compute, and ``edge_link_ms`` all that the links above the first take.
    ``period_ms`` is the slowest stage of a pipeline, whose name is ``bottleneck``: frames may come
    so often. ``device_memory_bytes`` are weights, live tensors and the runtime on the device.
    ``usd_per_1000`` and ``kl_nats`` are ``None`` where prices or losses are not known.
    On a link that varies ``uplink_ms`` and ``downlink_ms`` are expectations over the moments at
    which a frame may come; half of these moments are no worse than ``uplink_p50_ms``, and 95 of 100
    no worse than ``uplink_p95_ms``. Energies are the device's for a lone frame, in millijoules, see
    :mod:`profiler.energy`; ``None`` where the power of the device or of its radio is not known.
    """

    latency_ms: float
    device_ms: float
    encode_ms: float
    uplink_ms: float
    uplink_p50_ms: float
    uplink_p95_ms: float
    queue_ms: float
    decode_ms: float
    cloud_ms: float
    downlink_ms: float
    uplink_bytes: int
    device_energy_mj: float | None
    compute_mj: float | None
    radio_mj: float | None
    waiting_mj: float | None
    edge_ms: float
    edge_link_ms: float
    downlink_bytes: int
    period_ms: float
    bottleneck: str
    device_memory_bytes: int
    usd_per_1000: float | None
    kl_nats: float | None

    def metric(self, name: MetricName) -> float | None:
        """Return one of the metrics that can be wished for; ``None`` where it is not known."""
        if name == "device_memory_mb":
            return self.device_memory_bytes / 1e6
        value: float | None = getattr(self, name)
        return value


def exceeded(rules: Iterable[Rule], cost: Prediction) -> Iterator[Limit]:
    """Yield the limits that a prediction exceeds, or of which it is not known."""
    for rule in rules:
        if isinstance(rule, Limit):
            value = cost.metric(rule.metric)
            if value is None or value > rule.most * (1 + _SLACK):
                yield rule


@dataclass(frozen=True)
class CrossingTensor:
    """A tensor that crosses a link: its codec, and its predicted encoded size in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    codec: str
    bytes: int


@dataclass(frozen=True)
class Candidate:
    """A cut that was weighed.

    Attributes:
        cut: Its id.
        decision: What choosing it would mean.
        tensors: What crosses the device's link.
        units: Positions of the graph's units that the device runs.
        device_nodes: How many nodes that are.
        predicted: What it costs.
        verified: Whether its models were timed, as far as they run on this machine.
        tiers: Tier of each of the graph's units, the device's is 0.
        onward: What crosses each further link.
        breaks: The user's rules that it breaks, for people; only baselines break any.
    """

    cut: str
    decision: Decision
    tensors: tuple[CrossingTensor, ...]
    units: frozenset[int]
    device_nodes: int
    predicted: Prediction
    verified: bool = False
    tiers: tuple[int, ...] = ()
    onward: tuple[tuple[CrossingTensor, ...], ...] = ()
    breaks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "cut": self.cut,
            "decision": self.decision,
            "tensors": [asdict(tensor) for tensor in self.tensors],
            "device_node_count": self.device_nodes,
            "predicted": asdict(self.predicted),
            "verified": self.verified,
            "breaks": list(self.breaks),
        }


@dataclass(frozen=True)
class Machine:
    """One side of a plan, for people: its label, and whether its costs were measured.

    ``uncertainty`` is the relative band around every time: 0.3 means plus or minus 30 %.
    """

    name: str
    kind: Literal["measured", "predicted"]
    threads: int
    uncertainty: float


@dataclass(frozen=True)
class PartMemory:
    """Predicted peaks of what the parts of a cut add to a process; see :mod:`profiler.memory`.

    Attributes:
        head_bytes: Of what the device runs; 0 if that is nothing.
        tail_bytes: Of what the cloud runs, and the device where the cloud does not answer.
    """

    head_bytes: int
    tail_bytes: int


@dataclass(frozen=True)
class Plan:
    """A decision with its prediction and its alternatives.

    Attributes:
        model: What is to be run.
        objectives: What was minimised, one after the other.
        objective: The same for people; ``latency`` or another short name where there is one.
        rules: What the plan had to keep.
        device: Where the head runs.
        cloud: Where the tail runs.
        link: What lies between.
        chosen: The best candidate.
        device_nodes: Nodes that the chosen cut runs on the device, in order.
        cloud_nodes: Nodes that it runs in the cloud, in order.
        device_only: The baseline that sends nothing.
        cloud_only: The baseline that sends the encoded input.
        best_split: The best candidate that runs something on both sides; ``None`` if there is none.
        candidates: The best ten, best first.
        notes: What a reader should know, one sentence each.
        memory: What the parts of the chosen cut take; ``None`` if it was not predicted.
        edges: Machines between device and cloud, and the links that lead on from them.
        edge_nodes: Nodes that the chosen cut runs on each of them, in order.
        gap: By which part of the objective a better plan may be better; 0 where that is excluded.
        family: The cuts that are best in latency for other links and loads.
        family_candidates: What each of them costs now, in the same order.
        policies: How well cuts are chosen while the link follows its trace, if it does.
    """

    model: ModelIdentity
    objectives: tuple[Objective, ...]
    objective: str
    rules: tuple[Rule, ...]
    device: Machine
    cloud: Machine
    link: Link
    chosen: Candidate
    device_nodes: tuple[str, ...]
    cloud_nodes: tuple[str, ...]
    device_only: Candidate
    cloud_only: Candidate
    best_split: Candidate | None
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]
    memory: PartMemory | None = None
    edges: tuple[tuple[Machine, Link], ...] = ()
    edge_nodes: tuple[tuple[str, ...], ...] = ()
    gap: float = 0.0
    family: Family | None = None
    family_candidates: tuple[Candidate, ...] = ()
    policies: tuple[Policy, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "schema": SCHEMA,
            "model": self.model.to_dict(),
            "objective": self.objective,
            "constraints": [str(rule) for rule in self.rules],
            "gap": self.gap,
            "device": asdict(self.device),
            "cloud": asdict(self.cloud),
            "link": self.link.to_dict(),
            "edges": [
                {"machine": asdict(machine), "link": link.to_dict()} for machine, link in self.edges
            ],
            "decision": self.chosen.decision,
            "cut": {
                "id": self.chosen.cut,
                "tensors": [asdict(tensor) for tensor in self.chosen.tensors],
                "device_nodes": list(self.device_nodes),
                "edge_nodes": [list(nodes) for nodes in self.edge_nodes],
                "onward_tensors": [
                    [asdict(tensor) for tensor in tensors] for tensors in self.chosen.onward
                ],
                "cloud_nodes": list(self.cloud_nodes),
            },
            "predicted": asdict(self.chosen.predicted),
            "baselines": {
                "device": asdict(self.device_only.predicted),
                "cloud": asdict(self.cloud_only.predicted),
            },
            "best_split": None if self.best_split is None else self.best_split.to_dict(),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "memory": None if self.memory is None else asdict(self.memory),
            "family": None if self.family is None else self.family.to_dict(),
            "policies": [policy.to_dict() for policy in self.policies],
            "notes": list(self.notes),
        }
