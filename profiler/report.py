"""A profile as text for people. Light: standard library and protocol only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.console import table
from protocol.text import one_line

if TYPE_CHECKING:
    from profiler.profile import LayerCost, Profile

__all__ = ["profile_text"]

_LAYERS = 12
_BAR_CHARACTERS = 20
_NAME_CHARACTERS = 44


def profile_text(profile: Profile) -> str:
    """Return the totals, the costliest layers with their share of the whole, and the codecs."""
    parts = [_heading(profile), _layers(profile), _codecs(profile), "\n".join(profile.notes)]
    return "\n\n".join(part for part in parts if part)


def _heading(profile: Profile) -> str:
    engine, model = profile.engine, profile.model
    inputs = ", ".join(f"{slot.name} {slot.dtype} {list(slot.shape)}" for slot in profile.inputs)
    threads = "1 thread" if engine.threads == 1 else f"{engine.threads} threads"
    used = f"{engine.provider}, {threads}"
    lines = [
        f"{model.name} on {profile.label}",
        " ".join(filter(None, [profile.kind, "with", engine.name, engine.version, "on", used])),
        f"inputs: {inputs}",
        (
            f"whole run {profile.whole_ms:.3f} ms (spread {profile.whole_spread_ms:.3f}), of which "
            f"overhead {profile.overhead_ms:.3f}, layout changes {profile.layout_ms:.3f}, "
            f"unattributed {profile.unattributed_ms:.3f}"
        ),
    ]
    if profile.peak_memory_bytes is not None:
        lines.append(f"peak memory {profile.peak_memory_bytes / 1e6:.1f} MB")
    if profile.idle_w is not None and profile.busy_w is not None:
        lines.append(f"power {profile.idle_w:.1f} W at rest, {profile.busy_w:.1f} W while it runs")
    return "\n".join(one_line(line) for line in lines)


def _layers(profile: Profile) -> str:
    ranked = sorted(profile.layers, key=lambda layer: layer.latency_ms, reverse=True)
    longest_ms = ranked[0].latency_ms
    rows = [_row(layer, profile.whole_ms, longest_ms) for layer in ranked[:_LAYERS]]
    rest = ranked[_LAYERS:]
    text = table(rows, ["layer", "kind", "ms", "spread", "out kB", "share", ""])
    if rest:
        rest_ms = sum(layer.latency_ms for layer in rest)
        text += f"\n{len(rest)} more layers: {rest_ms:.3f} ms"
    return text


def _row(layer: LayerCost, whole_ms: float, longest_ms: float) -> list[str]:
    share = layer.latency_ms / whole_ms if whole_ms else 0.0
    bar = layer.latency_ms / longest_ms if longest_ms else 0.0
    name = layer.name
    if len(name) > _NAME_CHARACTERS:
        name = f"...{name[3 - _NAME_CHARACTERS :]}"  # the end of a name tells layers apart
    return [
        name,
        layer.kind,
        f"{layer.latency_ms:.3f}",
        f"{layer.spread_ms:.3f}",
        f"{layer.output_bytes / 1e3:.1f}",
        f"{share:.1%}",
        "#" * round(bar * _BAR_CHARACTERS),
    ]


def _codecs(profile: Profile) -> str:
    rows = [
        [name, f"{speed.encode_mb_s:.0f}", f"{speed.decode_mb_s:.0f}", f"{speed.fixed_ms:.3f}"]
        for name, speed in profile.codecs.items()
    ]
    return table(rows, ["codec", "encode MB/s", "decode MB/s", "fixed ms"]) if rows else ""
