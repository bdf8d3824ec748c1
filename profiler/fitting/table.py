"""Published latencies: which rows a preset is fitted to, and what work each row stands for."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import PresetError
from profiler.fitting.networks import Network, built_networks, read_networks

__all__ = ["Measured", "Selection", "read_rows"]

_LATENCIES = "measurements_fit.csv"
_LAYERS = "ncnn_layers.csv"
# The name in the table of latencies, and in that of layers.
_SAME_NETWORK = {
    "mobilenet_v1": "mobilenet",
    "squeezenet1_1": "squeezenet",
    "ssd_mobilenet_v1": "mobilenet_ssd",
    "yolov4_tiny": "yolov4-tiny",
}


@dataclass(frozen=True)
class Selection:
    """Rows of the table that belong together.

    Attributes:
        device: The table's name of the machine.
        engine: What ran there.
        threads: The number as the table has it; ``4?`` where the source does not say it clearly.
    """

    device: str
    engine: str
    threads: str


@dataclass(frozen=True)
class Measured:
    """One published latency with the work it stands for."""

    model: str
    engine: str
    latency_ms: float
    network: Network
    source: str


def read_rows(folder: Path, selections: Sequence[Selection]) -> list[Measured]:
    """Return the rows of these machines whose network's layers are known.

    Raises:
        PresetError: A table is missing, or has no row of a selection.
    """
    for name in (_LATENCIES, _LAYERS):
        if not (folder / name).is_file():
            raise PresetError(f"there is no {name} in {folder}; --table wants both tables")
    networks = _Networks(folder / _LAYERS)
    rows = []
    for selection in selections:
        found = list(_rows(folder / _LATENCIES, selection, networks))
        if not found:
            raise PresetError(f"{_LATENCIES} has no row of {selection}")
        rows.extend(found)
    return rows


class _Networks:
    def __init__(self, path: Path) -> None:
        self._read = read_networks(path)
        self._built = built_networks()

    def find(self, model: str, engine: str, side: int) -> Network | None:
        # ncnn's own benchmark runs its own variants, whose layers are in the table.
        listed = self._read.get(_SAME_NETWORK.get(model, model))
        built = self._built.get(model)
        if listed is not None and (engine == "ncnn" or built is None):
            return listed
        return built(side) if built is not None else None


def _rows(path: Path, selection: Selection, networks: _Networks) -> Iterable[Measured]:
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if Selection(row["device"], row["engine"], row["threads"]) != selection:
                continue
            network = networks.find(row["model"], row["engine"], int(row["input"]))
            if network is not None and row["batch"] == "1":
                latency_ms = float(row["latency_ms"])
                yield Measured(row["model"], row["engine"], latency_ms, network, row["source"])
