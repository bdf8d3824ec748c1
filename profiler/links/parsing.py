"""Links as people type them. Needs yaml."""

from __future__ import annotations

import re
from pathlib import Path

from profiler.errors import LinkError
from profiler.links.link import Link, SteadyLink
from profiler.links.presets import link_preset_names, load_link_preset
from profiler.links.probe import probe_link
from profiler.links.traced import TracedLink, read_trace
from protocol.rates import parse_mbps
from protocol.text import one_line

__all__ = ["parse_link"]

_FORMS = (
    "write 20mbps, 20mbps/5mbps (up/down) or 20mbps/5mbps,rtt=30ms; a preset such as lte or "
    "lte,rtt=60ms; a trace file such as ./trace.csv; or probe:tcp://HOST:PORT"
)
_PROBE = "probe:"
_ENDING = re.compile(r"(.*?)(?:,(\s*rtt\b.*))?", re.ASCII | re.IGNORECASE | re.DOTALL)
_ROUND_TRIP = re.compile(
    r"\s*rtt\s*=\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*ms\s*", re.ASCII | re.IGNORECASE
)
# Rates have dots and slashes too; they begin like a number and end in their unit.
_RATE = re.compile(r"\s*[+-]?(?:[\d.]|nan|inf).*[kmg]bps\s*", re.ASCII | re.IGNORECASE | re.DOTALL)
# Rates and round trips as others write them: 20mb, 20 mbit/s, 20mbps 30ms, 20mbps,rtt:30.
_LOOSE = re.compile(
    r"\s*(.*?)\s*(?:[\s,;](?:\s*rtt\s*[=:]?)?\s*(\d{1,7}(?:\.\d{1,6})?)\s*(ms|s)?)?\s*", re.ASCII
)
_LOOSE_RATE = re.compile(
    r"\s*[+-]?(\d{1,7}(?:\.\d{1,6})?)\s*([kmg]?)(?:b(?:its?)?(?:ps)?)?\s*", re.ASCII
)


def parse_link(text: str) -> Link:
    """Return the link that a user names; a trace is read for it, and a worker probed.

    One rate counts for both directions, and so does a trace; without ``rtt`` the round trip is that
    of the preset, otherwise 0 ms.

    Args:
        text: ``20mbps``, ``20mbps/5mbps`` (up/down), the name of a preset, or a trace file
            (anything else with a dot or a slash in it), each with ``,rtt=30ms`` behind it or not;
            or ``probe:tcp://HOST:PORT``.

    Raises:
        LinkError: The text is none of these, a number is out of range, the trace is unusable, or
            the worker cannot be probed.
        AddressError: The address to probe cannot be read or resolved.
    """
    if text.startswith(_PROBE):
        return probe_link(text.removeprefix(_PROBE)).link
    match = _ENDING.fullmatch(text)
    name, ending = match.groups() if match else (text, None)
    try:
        rtt_ms = None if ending is None else _rtt_ms(ending)
        if any(_RATE.fullmatch(part) for part in name.split("/")):
            return _rates(name, rtt_ms or 0.0)
        if "." not in name and "/" not in name:
            return load_link_preset(name.strip().lower()).link(rtt_ms)
        if _near_spelling(text) and not Path(name).exists():
            raise ValueError("it names neither rates nor a file")  # noqa: TRY301
    except ValueError as error:
        near = _near_spelling(text)
        meant = f" (did you mean {near!r}?)" if near else ""
        raise LinkError(
            f"cannot read link {one_line(text, 80)!r}{meant}: {error}; {_FORMS}"
        ) from error
    return TracedLink(read_trace(Path(name)), rtt_ms or 0.0, one_line(Path(name).name, 80))


def _near_spelling(text: str) -> str | None:
    """What somebody who wrote rates or a round trip in other ways has surely meant."""
    match = _LOOSE.fullmatch(text.lower())
    if match is None:
        return None
    name, number, unit = match.groups()
    rates = [_LOOSE_RATE.fullmatch(part) for part in re.sub("bi?t?s?/s", "bps", name).split("/")]
    near = "/".join(f"{rate[1]}{rate[2] or 'm'}bps" for rate in rates if rate)
    if not all(rates) or len(rates) > 2:
        if name not in link_preset_names():
            return None
        near = name
    if number:
        near += f",rtt={float(number) * (1e3 if unit == 's' else 1):g}ms"
    return near if near != text.strip().lower() else None


def _rates(text: str, rtt_ms: float) -> SteadyLink:
    up, slash, down = text.partition("/")
    uplink_mbps = parse_mbps(up)
    return SteadyLink(uplink_mbps, parse_mbps(down) if slash else uplink_mbps, rtt_ms)


def _rtt_ms(text: str) -> float:
    match = _ROUND_TRIP.fullmatch(text)
    if match is None:
        raise ValueError(f"{one_line(text, 40)!r} is no round trip")
    return float(match[1])
