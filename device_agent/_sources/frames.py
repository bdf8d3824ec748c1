"""One frame, and what gives frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Frame", "Source"]


@dataclass(frozen=True, eq=False)
class Frame:
    """What one answer is computed from.

    Attributes:
        feeds: The model's inputs by name.
        name: The file that it came from, if any.
        pixels: uint8 [height, width, 3], from which the model's one input was normalised; None
            where the input did not come from a picture.
        preprocess_ms: Time spent on reading, resizing and normalising.
    """

    feeds: Mapping[str, NDArray[Any]]
    name: str | None = None
    pixels: NDArray[np.uint8] | None = None
    preprocess_ms: float = 0.0


class Source(Protocol):
    """Gives frames, from the first each time it is iterated."""

    @property
    def length(self) -> int | None:
        """How many frames it will give, skipped ones included; None where nobody knows."""

    @property
    def skipped(self) -> int:
        """How many frames could not be read so far."""

    def __iter__(self) -> Iterator[Frame]:
        """Give the frames in order."""
