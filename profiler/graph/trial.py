"""Try a model out in a process of its own: ``python -m profiler.graph.trial MODEL SCRATCH``.

ONNX Runtime can crash the process on models that it loads without complaint (a Split with an empty
output name did in 1.32.0), so unknown models never run in the user's process first. The scratch
folder holds ``job.json``; what was found out is written to ``result.json`` there step by step, so
that a crash loses only the step that crashed. Needs onnx and scipy.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from profiler.child import end_with, ending_after
from profiler.graph.fusion import fused_units
from profiler.graph.graph import Graph, build_graph
from profiler.machine import available_threads
from protocol.codecs import encode_tensor, parse_codec

JOB_FILE = "job.json"
RESULT_FILE = "result.json"
FEEDS_FILE = "feeds.npz"
SECOND_FEEDS_FILE = "second_feeds.npz"

# No run of a network that somebody wants to answer frames takes minutes; a Loop without end does.
RUN_LIMIT_S = 300.0
# A slow machine loads slowly too; and the second run may have twice the data along several axes.
_TIMES_AS_LONG = 20

_SENDABLE = {
    "tensor(bool)": "bool",
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in "u " for bits in (8, 16, 32, 64)},
}
_SENDABLE = {key.replace(" ", ""): value.replace(" ", "") for key, value in _SENDABLE.items()}


def write_job(
    scratch: Path,
    feeds: Mapping[str, npt.NDArray[np.generic]],
    second_feeds: Mapping[str, npt.NDArray[np.generic]],
    codecs: Sequence[str],
) -> None:
    """Write what :func:`main` reads into the scratch folder."""
    inputs = list(feeds)
    # Positions, not names, are the keys: a tensor's name may hold what a zip entry may not.
    for file, arrays in ((FEEDS_FILE, feeds), (SECOND_FEEDS_FILE, second_feeds)):
        numbered: dict[str, Any] = {f"input_{i}": arrays[name] for i, name in enumerate(inputs)}
        np.savez(scratch / file, **numbered)
    (scratch / JOB_FILE).write_text(
        json.dumps({"parent": os.getpid(), "inputs": inputs, "codecs": list(codecs)})
    )


def main(model: Path, scratch: Path) -> None:
    """Optimise, run, run again; write what was seen after each step."""
    job = json.loads((scratch / JOB_FILE).read_text())
    end_with(job["parent"])
    started_s = time.monotonic()
    proto = onnx.load(model, load_external_data=False)
    graph = build_graph(proto.graph)
    result: dict[str, Any] = {"step": "load"}

    def report(step: str) -> None:
        result["step"] = step
        (scratch / RESULT_FILE).write_text(json.dumps(result))

    report("load")
    fused = optimised_graph(model, scratch, "extended")
    units = fused_units(graph, fused, optimised_graph(model, scratch, "all"))
    result["units"] = [list(unit.nodes) for unit in units]
    report("run")
    borders = {name for unit in units for name in unit.outputs} | graph.input_names
    session = _observing_session(model, proto, graph)
    result["inferred_shapes"] = {
        value.name: [axis if isinstance(axis, int) else None for axis in value.shape]
        for value in session.get_outputs()
    }
    feeds = _feeds(scratch / FEEDS_FILE, job["inputs"])
    with _limited(time.monotonic() - started_s):
        result["tensors"] = _observe(session, graph, feeds, borders, job["codecs"])
    report("second run")
    second_feeds = _feeds(scratch / SECOND_FEEDS_FILE, job["inputs"])
    with _limited(time.monotonic() - started_s):
        again = _observe(session, graph, second_feeds, set(), [])
    result["second_shapes"] = {name: tensor.get("shape") for name, tensor in again.items()}
    report("done")


def _limited(before_s: float) -> AbstractContextManager[None]:
    """Bound a run by what went before it: loading, or loading and the first run."""
    limit_s = max(RUN_LIMIT_S, _TIMES_AS_LONG * before_s)
    return ending_after(
        limit_s,
        f"a run has not ended after {limit_s:.0f} s, the limit; look for a Loop that never ends, "
        "or give inputs with --feed for which it ends",
    )


def _feeds(path: Path, inputs: Sequence[str]) -> dict[str, npt.NDArray[np.generic]]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[f"input_{index}"] for index, name in enumerate(inputs)}


def _options(level: onnxruntime.GraphOptimizationLevel) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = available_threads()  # the default counts the host's cores
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def optimised_graph(
    model: Path, scratch: Path, level: Literal["extended", "all"]
) -> onnx.GraphProto:
    """Return the structure of what the runtime makes of a model; ``scratch`` is for its files."""
    levels = onnxruntime.GraphOptimizationLevel
    target = scratch / "optimised.onnx"
    options = _options(levels.ORT_ENABLE_ALL if level == "all" else levels.ORT_ENABLE_EXTENDED)
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_file_name", "optimised.bin"
    )
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return onnx.load(target, load_external_data=False).graph


def _observing_session(
    model: Path, proto: onnx.ModelProto, graph: Graph
) -> onnxruntime.InferenceSession:
    """Return a session of the unfused model with every tensor as an output."""
    names = [value.name for value in proto.graph.output]
    names += [name for node in graph.nodes for name in node.outputs]
    del proto.graph.output[:]  # what is declared of them may be wrong
    for name in dict.fromkeys(names):
        proto.graph.output.add(name=name)
    # It must lie beside the weights: ONNX Runtime refuses weights in another folder, and those that
    # are reached through a hard or symbolic link.
    target = model.with_name("observed.onnx")
    target.write_bytes(proto.SerializeToString())
    try:
        return onnxruntime.InferenceSession(
            str(target),
            _options(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL),
            providers=["CPUExecutionProvider"],
        )
    finally:
        target.unlink()


def _observe(
    session: onnxruntime.InferenceSession,
    graph: Graph,
    feeds: Mapping[str, npt.NDArray[np.generic]],
    encoded: set[str],
    codecs: Sequence[str],
) -> dict[str, dict[str, Any]]:
    types = {value.name: value.type for value in session.get_outputs()}
    names = [name for name, kind in types.items() if kind in _SENDABLE]
    values = dict(zip(names, session.run(names, dict(feeds)), strict=True))
    values.update({name: feeds[name] for name in graph.input_names})
    tensors: dict[str, dict[str, Any]] = {
        name: {"dtype": kind, "shape": None} for name, kind in types.items()
    }
    for name, value in values.items():
        if not isinstance(value, np.ndarray):
            continue
        sizes = {}
        if name in encoded:
            for codec in codecs:
                sizes[codec] = len(encode_tensor(name, value, parse_codec(codec)).payload)
        tensors[name] = {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "encoded_bytes": sizes,
        }
    return tensors


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
