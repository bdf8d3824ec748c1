"""Stacked bars for terminals: where the time of each candidate goes. Light."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.text import one_line
from splitter.plans import Candidate

PARTS: tuple[tuple[str, str, str], ...] = (
    ("device_ms", "device", "#"),
    ("encode_ms", "encode", "e"),
    ("uplink_ms", "uplink", ">"),
    ("decode_ms", "decode", "d"),
    ("edge_ms", "edge", "%"),
    ("edge_link_ms", "edge link", "~"),
    ("queue_ms", "queue", "."),
    ("cloud_ms", "cloud", "="),
    ("downlink_ms", "downlink", "<"),
)
_CHARACTERS = 60


def stacked_bars(candidates: Sequence[Candidate], characters: int = _CHARACTERS) -> str:
    """Return one bar for each candidate, all to one scale, and what the signs mean."""
    longest = max((each.predicted.latency_ms for each in candidates), default=0.0)
    if not longest:
        return ""
    width = max(len(each.cut) for each in candidates)
    lines = [
        f"{one_line(each.cut).ljust(width)}  {_bar(each, characters / longest)} "
        f"{each.predicted.latency_ms:.1f} ms"
        for each in candidates
    ]
    used = [
        f"{sign} {title}"
        for field, title, sign in PARTS
        if any(getattr(each.predicted, field) for each in candidates)
    ]
    return "\n".join([*lines, f"{' ' * width}  {'  '.join(used)}"])


def _bar(candidate: Candidate, scale: float) -> str:
    """Signs so that each end lies where the sum of the parts so far does."""
    bar, total_ms = "", 0.0
    for field, _, sign in PARTS:
        total_ms += getattr(candidate.predicted, field)
        bar += sign * (round(total_ms * scale) - len(bar))
    return bar
