"""What a profile says about its own worth."""

from __future__ import annotations

import pytest

from profiler.kernels import Kernel
from profiler.measurement_notes import provider_notes, run_notes, uncertainty
from profiler.timing import Summary

CPU, XNNPACK = "CPUExecutionProvider", "XnnpackExecutionProvider"


def test_kernels_that_ran_elsewhere_are_counted() -> None:
    kernels = [
        Kernel("a", "Conv", 3.0, 0.0, XNNPACK),
        Kernel("b", "Resize", 1.0, 0.0, CPU),
        Kernel("c", "Conv", 0.0, 0.0),
    ]
    (note,) = provider_notes(XNNPACK, kernels)
    assert note == (
        "XnnpackExecutionProvider took only part of the model: 1 of 3 kernels "
        "(25% of their time) ran on CPUExecutionProvider."
    )
    assert not list(provider_notes(CPU, kernels[1:]))
    assert not list(provider_notes(CPU, []))


def test_a_provider_that_queues_has_layers_that_mean_little() -> None:
    (note,) = provider_notes("CUDAExecutionProvider", [])
    assert "queues its work" in note
    assert uncertainty(Summary(10.0, 0.1, 9), "CUDAExecutionProvider") == 1.0


def test_the_band_follows_the_spread() -> None:
    assert uncertainty(Summary(10.0, 0.1, 9), CPU) == 0.05
    assert uncertainty(Summary(10.0, 1.0, 9), CPU) == pytest.approx(0.2)


def test_pauses_are_told() -> None:
    summary = Summary(10.0, 0.1, 9)
    assert run_notes(summary, summary, 30.0)[0].endswith("in turn, 30 ms idle before each.")
    assert run_notes(summary, summary, 0.0)[0].endswith("in turn.")
