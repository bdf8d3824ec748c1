"""Answers probes of the link, within a budget that all who probe share. Pure.

Nobody needs a session to probe, and connections are cheap, so nothing is granted to a peer: what
all of them together get is bounded. A flood of probes costs what a flood of pings does.
"""

from __future__ import annotations

import math
import secrets
from functools import cached_property
from typing import TYPE_CHECKING

from cloud_worker._work import Send
from protocol import PROBE_BYTES, Probed, RefusalCode, Refuse

if TYPE_CHECKING:
    from collections import Counter

    from protocol import Probe

# One measurement takes 2 MiB of answers at most: two may start at once, one more every two seconds.
_BURST_BYTES = 4 << 20
_BYTES_PER_S = 1 << 20
_LEAST_BYTES = 1 << 10  # charged for a small answer, so that the number of answers is bounded too


class ProbeDesk:
    """Answers probes, or refuses them until there is budget again.

    Args:
        counts: ``probes`` and ``probes_refused`` are counted here.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._budget_bytes = float(_BURST_BYTES)
        self._filled_at = -math.inf

    def answer(self, peer: bytes, probe: Probe, now: float) -> Send:
        """Answer a probe with as many bytes as it asks for."""
        refilled = self._budget_bytes + (now - self._filled_at) * _BYTES_PER_S
        self._budget_bytes, self._filled_at = min(refilled, float(_BURST_BYTES)), now
        charge_bytes = max(probe.answer_bytes, _LEAST_BYTES)
        missing_bytes = charge_bytes - self._budget_bytes
        if missing_bytes > 0:
            self._counts["probes_refused"] += 1
            retry_after_ms = math.ceil(missing_bytes / _BYTES_PER_S * 1000)
            text = "this worker has answered as many probes as it does at a time"
            return Send(peer, Refuse(RefusalCode.BUSY, text, retry_after_ms))
        self._budget_bytes -= charge_bytes
        self._counts["probes"] += 1
        return Send(peer, Probed(probe.number, self._filling[: probe.answer_bytes]))

    @cached_property
    def _filling(self) -> memoryview:
        """Bytes that no link can compress; slices of them are sent without a copy."""
        return memoryview(secrets.token_bytes(PROBE_BYTES))
