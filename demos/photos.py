"""The demo's photos and the labels that are right for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent / "photos"


@dataclass(frozen=True)
class Photo:
    """A photo.

    Attributes:
        path: The file.
        right: Labels that are right for it; the network's first guess must be one of them.
    """

    path: Path
    right: tuple[str, ...]


def read_photos(folder: Path = FOLDER) -> dict[str, Photo]:
    """Return the photos that ``photos.yaml`` lists, by file name and in its order."""
    listed = yaml.safe_load((folder / "photos.yaml").read_text(encoding="utf-8"))
    return {name: Photo(folder / name, tuple(right)) for name, right in listed.items()}
