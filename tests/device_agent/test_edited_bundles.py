"""A bundle whose manifest somebody or something has changed is run, or refused in one line."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_agent import Agent, open_source
from device_agent.cli import main
from device_agent.testing import InMemoryTransport, ScriptedWorker
from profiler.engine import EngineOptions, OnnxRuntimeEngine
from protocol import HeadtailError
from protocol.testing import FakeClock
from splitter.bundle import open_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENGINE = OnnxRuntimeEngine(EngineOptions(threads=1))
NAMES = ("image", "middle", "logits", "device", "cloud", "full.onnx", "head-1.onnx", "tail-1.onnx")
ODD_TEXTS = ("", "../../x", "/etc/passwd", "bundle.json", "a\0b", "\ud800", "jpeg90", "affine4")
NUMBERS = (-1, 0, 1, 2, 7, 1000, 2**31, 2**63, 10**30, 10**400, 0.5, -1e308, float("nan"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS + NAMES + ODD_TEXTS + ("float64", "string")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("name", "shape", "id", "x")), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside a JSON value."""
    if path:
        yield path
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from places(value[key], (*path, key))


def change(manifest: Any, path: tuple[Any, ...], how: str, value: Any) -> None:
    for key in path[:-1]:
        manifest = manifest[key]
    key = path[-1]
    if how == "replace":
        manifest[key] = value
    elif how == "remove":
        del manifest[key]
    elif isinstance(manifest, list):
        manifest.append(copy.deepcopy(manifest[key]))
    else:
        manifest[str(value)] = copy.deepcopy(manifest[key])


@pytest.fixture
def edited(bundle_folder: Path, tmp_path: Path) -> Callable[[Any], Path]:
    folder = tmp_path / "edited"
    shutil.copytree(bundle_folder, folder)

    def write(manifest: Any) -> Path:
        (folder / "bundle.json").write_text(json.dumps(manifest))
        return folder

    return write


def run_every_cut(folder: Path) -> None:
    opened = open_bundle(folder)
    for cut in opened.cuts:
        clock = FakeClock()
        transport = InMemoryTransport(clock, ScriptedWorker(lambda _: {}))
        agent = Agent(
            opened,
            cut=cut,
            transport=transport,
            clock=clock,
            engine=ENGINE,
            notice=lambda _: None,
        )
        with agent:
            for answer in agent.answers(open_source("bench", opened, count=1)):
                json.dumps(answer.to_dict(), allow_nan=False)


def test_any_change_of_a_manifest_is_survived_or_refused(
    bundle_folder: Path, edited: Callable[[Any], Path]
) -> None:
    original = json.loads((bundle_folder / "bundle.json").read_text())
    edits = st.tuples(
        st.sampled_from(list(places(original))),
        st.sampled_from(["replace", "replace", "remove", "double"]),
        VALUES,
    )

    @settings(max_examples=400, deadline=None)
    @given(edits)
    def run(edit: tuple[tuple[Any, ...], str, Any]) -> None:
        manifest = copy.deepcopy(original)
        change(manifest, *edit)
        folder = edited(manifest)
        with contextlib.suppress(HeadtailError):  # anything else would be a fault
            run_every_cut(folder)

    run()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("files", "../../x"), "00" * 32, "'../../x' is not a plain file name"),
        (("cuts", 2, "head"), "../head-1.onnx", "'../head-1.onnx' is not among the files"),
        (("cuts", 2, "frontier", 0, "name"), "muddle", "wants 'muddle', which head-1.onnx does"),
        (("cuts", 2, "frontier", 0, "codec"), "jpeg90", "as a JPEG, but preprocess does"),
        (("cuts", 2, "kept"), ["logits", "more"], "gives logits, more, not the outputs logits"),
        (("outputs", 0, "name"), "lobits", "not the outputs lobits"),
        (("inputs", 0, "shape", 3), -1, "-1 is not the length of an axis"),
        (("preprocess", "mean", 0), 10**400, "preprocess mean holds"),
        (("preprocess", "height"), 9, "as a JPEG, but preprocess does not make it"),
        (("model", "sha256"), "ABC", "'ABC' is not a SHA-256"),
        (("labels",), "cat", "'cat' is not a list"),
    ],
)
def test_the_command_says_in_one_line_what_is_wrong(
    path: tuple[Any, ...],
    value: Any,
    message: str,
    bundle_folder: Path,
    edited: Callable[[Any], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    manifest = json.loads((bundle_folder / "bundle.json").read_text())
    change(manifest, path, "replace", value)
    options = ["--source", "bench", "--worker", "tcp://127.0.0.1:9", "--deadline-ms", "10"]
    assert main([str(edited(manifest)), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_a_bundle_of_the_first_days_lacks_the_planned_inputs(
    bundle_folder: Path, edited: Callable[[Any], Path]
) -> None:
    manifest = json.loads((bundle_folder / "bundle.json").read_text())
    del manifest["planned_inputs"]
    assert open_bundle(edited(manifest)).planned_inputs == ()
    run_every_cut(edited(manifest))
