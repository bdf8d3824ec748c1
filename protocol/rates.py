"""Rates of links as people write them."""

from __future__ import annotations

import re

from protocol.text import one_line

__all__ = ["HIGHEST_MBPS", "LONGEST_MS", "LOWEST_MBPS", "parse_mbps"]

# From a modem of the 1960s to a thousand times the fastest link that a board has: beyond, a number
# is a slip, and arithmetic with it ends in infinities.
LOWEST_MBPS = 1e-4
HIGHEST_MBPS = 1e6
LONGEST_MS = 3_600_000.0

_MBPS = {"kbps": 1e-3, "mbps": 1.0, "gbps": 1e3}
_RATE = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?nan|[+-]?inf)\s*(kbps|mbps|gbps)\s*",
    re.ASCII | re.IGNORECASE,
)


def parse_mbps(text: str) -> float:
    """Read ``20mbps``, ``500kbps`` or ``1gbps`` as Mbit/s.

    Raises:
        ValueError: The text is no rate, or the rate is out of range; the message says which.
    """
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{one_line(text, 40)!r} is no rate; write 20mbps (units: kbps, mbps, gbps)"
        )
    mbps = float(match[1]) * _MBPS[match[2].lower()]
    if not LOWEST_MBPS <= mbps <= HIGHEST_MBPS:
        raise ValueError(
            f"the rate {one_line(text, 40)} is out of range; give {LOWEST_MBPS * 1e3:g}kbps to "
            f"{HIGHEST_MBPS / 1e3:g}gbps"
        )
    return mbps
