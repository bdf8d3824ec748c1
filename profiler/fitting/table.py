"""Published latencies, row by row, with the work that each stands for. Needs yaml.

Rows that belong together (one machine, engine, number of threads, precision) form a series.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from profiler.errors import PresetError
from profiler.fitting.amounts import Amounts, Gpu, amounts, gpu_amounts
from profiler.fitting.layers import Network
from profiler.fitting.networks import BUILT_NETWORKS, read_networks

__all__ = [
    "FITTED_ENGINES",
    "TENSORRT",
    "VULKAN",
    "Row",
    "Series",
    "Table",
    "read_gpus",
    "read_table",
]

TENSORRT, VULKAN = "tensorrt", "ncnn-vulkan"
# Engines whose rows are fitted. ONNX Runtime's four rows are what conversions are compared with;
# TFLite's are of one machine.
FITTED_ENGINES = ("ncnn", VULKAN, "paddle-lite", "pytorch-dynamo", TENSORRT)
_LATENCIES, _LAYERS, _HARDWARE = "measurements_fit.csv", "ncnn_layers.csv", "devices.yaml"
# The name in the table of latencies, and in that of layers.
_SAME_NETWORK = {
    "fastestdet": "FastestDet",
    "mobilenet_v1": "mobilenet",
    "mobilenet_v3_large": "mobilenet_v3",
    "squeezenet1_1": "squeezenet",
    "ssd_mobilenet_v1": "mobilenet_ssd",
    "ssd_squeezenet": "squeezenet_ssd",
    "vit_b32": "vision_transformer",
    "yolo_fastest_1.1": "yolo-fastest-1.1",
    "yolo_fastest_v2": "yolo-fastestv2",
    "yolo_mobilenet_v1": "mobilenet_yolo",
    "yolov3_mobilenet_v2": "mobilenetv2_yolov3",
    "yolov4_tiny": "yolov4-tiny",
}
_PRECISIONS = {"fp16": "float16", "fp32": "float32", "int8": "int8"}


@dataclass(frozen=True, order=True)
class Series:
    """Rows of one machine, as the table names them.

    Attributes:
        device: The machine.
        engine: What ran there.
        threads: The number, as the table has it; empty if it does not say.
        precision: Of the arithmetic; empty for TensorRT, under which the precisions of one machine
            belong together, since a row's work is counted in units of the chip's peak.
    """

    device: str
    engine: str
    threads: str
    precision: str

    @property
    def group(self) -> tuple[str, str, bool]:
        """Machines with the same group are taken to be alike but for their speed.

        Threads of the host do not matter to a GPU.
        """
        single = self.threads == "1" and self.engine != VULKAN
        return self.engine, self.precision, single


@dataclass(frozen=True)
class Row:
    """One published latency.

    Attributes:
        model: The network's name in the table.
        latency_ms: What was published.
        amounts: The work it takes.
    """

    model: str
    latency_ms: float
    amounts: Amounts


Table = Mapping[Series, Sequence[Row]]


def read_table(folder: Path, engines: Sequence[str] = FITTED_ENGINES) -> Table:
    """Return the rows of these engines whose network's layers are known, and whose GPU is.

    Raises:
        PresetError: A table is missing.
    """
    for name in (_LATENCIES, _LAYERS, _HARDWARE):
        if not (folder / name).is_file():
            raise PresetError(f"there is no {name} in {folder}; --table wants all three tables")
    listed, gpus = read_networks(folder / _LAYERS), read_gpus(folder)
    rows: dict[Series, list[Row]] = defaultdict(list)
    with (folder / _LATENCIES).open(encoding="utf-8", newline="") as stream:
        for entry in csv.DictReader(stream):
            network = _network(entry, listed)
            if entry["engine"] not in engines or network is None or entry["batch"] != "1":
                continue
            precision = _PRECISIONS[entry["precision"][:4]]
            of = Series(entry["device"], entry["engine"], entry["threads"], precision)
            if of.engine != TENSORRT:
                work = amounts(network, precision)
            elif gpu := gpus.get(of.device):
                of = Series(of.device, of.engine, of.threads, "")
                work = gpu_amounts(network, gpu, precision)
            else:
                continue
            rows[of].append(Row(entry["model"], float(entry["latency_ms"]), work))
    return dict(sorted(rows.items()))


def read_gpus(folder: Path) -> dict[str, Gpu]:
    """Return the GPUs of devices.yaml by the table's name of the machine."""
    entries = yaml.safe_load((folder / _HARDWARE).read_text(encoding="utf-8"))["gpus"]
    return {name: Gpu.from_dict(data) for name, data in entries.items() if name.startswith("gpu-")}


def _network(entry: Mapping[str, str], listed: Mapping[str, Network]) -> Network | None:
    model = entry["model"]
    name = _SAME_NETWORK.get(model, model)
    # ncnn's own benchmark runs its own variants, whose layers are in the table.
    if name in listed and (entry["engine"].startswith("ncnn") or model not in BUILT_NETWORKS):
        return listed[name]
    build = BUILT_NETWORKS.get(model)
    return build(int(entry["input"].removeprefix("seq"))) if build else None
