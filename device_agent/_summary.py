"""What a run came to, for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from typing import TYPE_CHECKING

import numpy as np

from device_agent.answers import TIME_NAMES, ComputedOn
from protocol import table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from device_agent._link_values import LinkCounters
    from device_agent.answers import Answer, Reason

_KEPT = 10_000  # frames of each machine whose times are kept, so that a long run does not grow
_ODD = ("late", "duplicates", "foreign", "malformed")


class Summary:
    """Counts answers.

    Attributes:
        frames: How many so far.
    """

    def __init__(self) -> None:
        self._on: Counter[ComputedOn] = Counter()
        self._local_reasons: Counter[Reason] = Counter()
        self._times = {machine: np.zeros((_KEPT, len(TIME_NAMES))) for machine in ComputedOn}
        self._uplink_bytes = 0
        self._downlink_bytes = 0
        self._missed = 0

    @property
    def frames(self) -> int:
        """How many answers were counted."""
        return self._on.total()

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        machine = answer.computed_on
        self._times[machine][self._on[machine] % _KEPT] = astuple(answer.times)  # a ring
        self._on[machine] += 1
        if machine is ComputedOn.DEVICE:
            self._local_reasons[answer.reason] += 1
        self._uplink_bytes += answer.uplink_bytes
        self._downlink_bytes += answer.downlink_bytes
        self._missed += answer.deadline_missed

    def text(self, cut_id: str, skipped: int, unanswered: int, counters: LinkCounters) -> str:
        """The summary: counts, then where the time went."""
        seldom = [
            ("sent raw, not as JPEG", counters.raw_pictures),
            ("bytes sent raw, not as JPEG", counters.raw_picture_bytes),
            *((f"{name} replies", getattr(counters, name)) for name in _ODD),
        ]
        counts = [
            ("frames", self.frames),
            ("cut", cut_id),
            *((f"computed on {machine.value}", self._on[machine]) for machine in ComputedOn),
            *(
                (f"on the device because {reason.value}", count)
                for reason, count in self._local_reasons.most_common()
            ),
            ("deadline missed", self._missed),
            ("skipped", skipped),
            ("unanswered", unanswered),
            ("uplink bytes", self._uplink_bytes),
            ("uplink bytes a frame", round(self._uplink_bytes / max(1, self.frames))),
            ("downlink bytes", self._downlink_bytes),
            *(row for row in seldom if row[1]),
        ]
        return f"{table(counts, ('what', 'value'))}\n\n{self._times_text()}"

    def _times_text(self) -> str:
        """Median and 90th percentile of each part, machine by machine: mixed they would say little.

        A part that neither machine spent time on is left out.
        """
        kept = {machine: self._kept(machine) for machine in ComputedOn if self._on[machine]}
        rows = []
        for column, name in enumerate(TIME_NAMES):
            values = [times[:, column] for times in kept.values()]
            if any(part.any() for part in values):
                cells = [
                    f"{value:.2f}" for part in values for value in np.percentile(part, (50, 90))
                ]
                rows.append((name.removesuffix("_ms").replace("_", " "), *cells))
        heads = [f"{machine.value} {what}" for machine in kept for what in ("median ms", "p90 ms")]
        return table(rows, ("time", *heads))

    def _kept(self, machine: ComputedOn) -> NDArray[np.float64]:
        return self._times[machine][: self._on[machine]]
