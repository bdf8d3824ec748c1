"""A plan in words."""

from __future__ import annotations

import pytest

from splitter.plans import PartMemory
from splitter.report import memory_text

MB = 1_000_000


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        (PartMemory(40 * MB, 9 * MB), "head 40 MB, tail 9 MB (the device holds both)."),
        (PartMemory(40 * MB, 0), "40 MB on the device, nothing in the cloud."),
        (PartMemory(0, 40 * MB), "40 MB in the cloud, and as much on the device, which runs"),
    ],
)
def test_peak_memory_is_told_for_the_side_that_takes_it(memory: PartMemory, said: str) -> None:
    assert memory_text(memory).startswith(f"Peak memory of the best: {said}")
