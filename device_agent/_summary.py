"""What a run came to, for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from typing import TYPE_CHECKING

import numpy as np

from device_agent.answers import TIME_NAMES, ComputedOn
from protocol import table

if TYPE_CHECKING:
    from device_agent._link_values import LinkCounters
    from device_agent.answers import Answer, Reason

_KEPT = 10_000  # frames whose times are kept, so that a long run does not grow
_ODD = ("late", "duplicates", "foreign", "malformed")


class Summary:
    """Counts answers.

    Attributes:
        frames: How many so far.
    """

    def __init__(self) -> None:
        self.frames = 0
        self._on: Counter[ComputedOn] = Counter()
        self._local_reasons: Counter[Reason] = Counter()
        self._times = np.zeros((_KEPT, len(TIME_NAMES)))  # a ring
        self._uplink_bytes = 0
        self._downlink_bytes = 0

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        self._times[self.frames % _KEPT] = astuple(answer.times)
        self.frames += 1
        self._on[answer.computed_on] += 1
        if answer.computed_on is ComputedOn.DEVICE:
            self._local_reasons[answer.reason] += 1
        self._uplink_bytes += answer.uplink_bytes
        self._downlink_bytes += answer.downlink_bytes

    def text(self, cut_id: str, skipped: int, counters: LinkCounters) -> str:
        """The summary: counts, then where the time went."""
        counts = [
            ("frames", self.frames),
            ("cut", cut_id),
            *((f"computed on {machine.value}", self._on[machine]) for machine in ComputedOn),
            *(
                (f"on the device because {reason.value}", count)
                for reason, count in self._local_reasons.most_common()
            ),
            ("skipped", skipped),
            ("uplink bytes", self._uplink_bytes),
            ("uplink bytes a frame", round(self._uplink_bytes / max(1, self.frames))),
            ("downlink bytes", self._downlink_bytes),
            *((f"{name} replies", getattr(counters, name)) for name in _ODD),
        ]
        odd = {f"{name} replies" for name in _ODD}
        shown = [row for row in counts if row[1] or row[0] not in odd]
        return f"{table(shown, ('what', 'value'))}\n\n{self._times_text()}"

    def _times_text(self) -> str:
        rows = []
        for name, values in zip(TIME_NAMES, self._times[: self.frames].T, strict=True):
            if values.any():
                median, ninetieth = np.percentile(values, (50, 90))
                part = name.removesuffix("_ms").replace("_", " ")
                rows.append((part, f"{median:.2f}", f"{ninetieth:.2f}"))
        return table(rows, ("time", "median ms", "p90 ms"))
