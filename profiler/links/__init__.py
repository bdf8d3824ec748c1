"""Links between device and cloud: how they are written, and how long bytes take on them.

Light; so are all modules in it but ``presets`` and ``parsing``, which need yaml.
"""

from __future__ import annotations

from profiler.links.link import Link, SteadyLink, TransferTime

__all__ = ["Link", "SteadyLink", "TransferTime"]
