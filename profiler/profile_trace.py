"""A profile as a time line: one run of the model, layer after layer. Light."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profiler.chrome_trace import ChromeTrace, Lane, Span
from profiler.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from profiler.profile import Profile

__all__ = ["profile_spans", "write_profile_trace"]


def write_profile_trace(profile: Profile, path: Path) -> None:
    """Write a profile as a trace in Chrome's format.

    Raises:
        ProfileError: The file cannot be written.
    """
    lane = Lane(1, profile.label, 1, "typical run")
    try:
        with path.open("w", encoding="utf-8") as stream, ChromeTrace(stream, [lane]) as trace:
            trace.add(list(profile_spans(profile, lane)))
    except OSError as error:
        raise ProfileError(f"cannot write {os.fspath(path)!r}: {error.strerror}") from error


def profile_spans(profile: Profile, lane: Lane) -> Iterator[Span]:
    """Yield the whole run, and in it the overhead, each layer, and what belongs to none.

    Layers are typical times of many runs, so they were never seen one after the other like this.
    """
    parts: list[tuple[str, float, dict[str, object]]] = [("overhead", profile.overhead_ms, {})]
    for layer in profile.layers:
        details = {
            "kind": layer.kind,
            "nodes": list(layer.nodes),
            "spread_ms": layer.spread_ms,
            "output_bytes": layer.output_bytes,
        }
        parts.append((layer.name, layer.latency_ms, details))
        if layer.layout_ms:
            parts.append((f"layout change at {layer.name}", layer.layout_ms, {}))
    if profile.unattributed_ms:
        parts.append(("unattributed", profile.unattributed_ms, {}))
    total_ms = sum(time_ms for _, time_ms, _ in parts)
    yield Span(f"run of {profile.model.name}", lane, 0.0, total_ms, {"whole_ms": profile.whole_ms})
    start_ms = 0.0
    for name, time_ms, details in parts:
        yield Span(name, lane, start_ms, start_ms + time_ms, details)
        start_ms += time_ms
