"""Link presets: networks as others have published them. Needs yaml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from profiler.configs import CONFIGS
from profiler.errors import LinkError
from profiler.links.link import SteadyLink
from protocol.text import did_you_mean, quoted

__all__ = ["LinkPreset", "link_preset_names", "load_link_preset"]

_FILE = CONFIGS / "links.yaml"


@dataclass(frozen=True)
class LinkPreset:
    """A network as published numbers know it.

    Attributes:
        name: What users type.
        uplink_mbps: From device to cloud, in 10^6 bits a second.
        downlink_mbps: From cloud to device, in 10^6 bits a second.
        rtt_ms: Round trip.
        source: Where the numbers were read.
        verified: Whether they were read there, and nothing contradicts them.
        doubt: What is not certain, where they are not verified.
        power: Name of the power model of the radio, if one is known.
    """

    name: str
    uplink_mbps: float
    downlink_mbps: float
    rtt_ms: float
    source: str
    verified: bool
    doubt: str = ""
    power: str | None = None

    def link(self, rtt_ms: float | None = None) -> SteadyLink:
        """Return the link, with a round trip that is better known if there is one.

        Raises:
            LinkError: The round trip is out of range.
        """
        notes = () if self.verified else (f"Link preset {self.name}: {self.doubt}.",)
        given = "" if rtt_ms is None else ", with the given round trip"
        return SteadyLink(
            self.uplink_mbps,
            self.downlink_mbps,
            self.rtt_ms if rtt_ms is None else rtt_ms,
            f"preset {self.name}{given}: {self.source}",
            self.power,
            notes,
        )


def link_preset_names() -> list[str]:
    """Return the names of all link presets.

    Raises:
        LinkError: Their file is broken.
    """
    return sorted(_read())


def load_link_preset(name: str) -> LinkPreset:
    """Return a link preset.

    Raises:
        LinkError: There is none of this name (lists those there are), or their file is broken.
    """
    presets = _read()
    if name not in presets:
        raise LinkError(
            f"there is no link preset {quoted(name)}{did_you_mean(name, presets)}; "
            f"presets: {', '.join(sorted(presets))}"
        )
    return presets[name]


@cache
def _read() -> dict[str, LinkPreset]:
    try:
        data: dict[str, dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
        return {name: LinkPreset(name, **fields) for name, fields in data.items()}
    except (OSError, yaml.YAMLError, AttributeError, TypeError) as problem:
        raise LinkError(f"the file of link presets {_FILE} is broken: {problem!r}") from problem
