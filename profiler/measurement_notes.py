"""What a reader of a measured profile should know, and how wide its band is. Light."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiler.providers import queues_work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from profiler.kernels import Kernel
    from profiler.timing import Summary

__all__ = ["provider_notes", "run_notes", "uncertainty"]

_SMALLEST_UNCERTAINTY = 0.05


def uncertainty(whole: Summary, provider: str) -> float:
    """Relative band around the times of layers, from the spread of whole runs."""
    if queues_work(provider):
        return 1.0
    return max(_SMALLEST_UNCERTAINTY, 2 * whole.spread_ms / whole.median_ms)


def provider_notes(provider: str, kernels: Sequence[Kernel]) -> Iterator[str]:
    """Whether the provider ran the model, and whether its kernels' times are times at all."""
    if queues_work(provider):
        yield (
            f"{provider} queues its work: the whole run is measured, but the layers' shares of it "
            "are those of queueing, and only a cut model's own time tells what it costs."
        )
    total_ms = sum(kernel.latency_ms for kernel in kernels)
    elsewhere = [kernel for kernel in kernels if kernel.provider not in ("", provider)]
    if elsewhere and total_ms:
        share = sum(kernel.latency_ms for kernel in elsewhere) / total_ms
        others = ", ".join(sorted({kernel.provider for kernel in elsewhere}))
        yield (
            f"{provider} took only part of the model: {len(elsewhere)} of {len(kernels)} kernels "
            f"({share:.0%} of their time) ran on {others}."
        )


def run_notes(whole: Summary, profiled: Summary, idle_ms: float) -> tuple[str, ...]:
    """How the runs were made, and what the profile cost them."""
    slower = profiled.median_ms / whole.median_ms
    idle = f", {idle_ms:g} ms idle before each" if idle_ms else ""
    return (
        f"Medians of {whole.runs} runs after warm-up, with and without a profile in turn{idle}.",
        f"Runs with a profile took {slower:.2f} times as long; layers are scaled to those without.",
    )
