"""Profile files are read strictly."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import ProfileError
from profiler.profile_file import check_target, profile_from_dict, read_profile, write_profile
from tests.profiler.test_profile import PROFILE

FULL = replace(
    PROFILE, peak_memory_bytes=123, notes=("Said once.",), machine={"cpu": "x", "cores": 2}
)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    write_profile(FULL, path)
    assert read_profile(path) == FULL
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.json"]


def edited(path: str, value: Any) -> dict[str, Any]:
    """The profile's JSON with the field at a dotted path set, or removed where value is None."""
    data = copy.deepcopy(FULL.to_dict())
    *parents, key = path.split(".")
    target: Any = data
    for parent in parents:
        target = target[int(parent)] if parent.isdigit() else target[parent]
    if isinstance(target, list):
        target[int(key)] = value
    elif value is None:
        del target[key]
    else:
        target[key] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", 2, "schema is 2, this version reads 1; update headtail"),
        ("schema", "1", "schema is '1', this version reads 1"),
        ("schema", None, "schema is missing"),
        ("kind", "guessed", "kind is 'guessed'; it must be 'measured' or 'predicted'"),
        ("whole_ms", None, "whole_ms is missing"),
        ("whole_ms", -1, "whole_ms is -1; it must be 0 or more"),
        ("whole_ms", float("nan"), "whole_ms is nan; it must be 0 or more"),
        ("whole_ms", 10**400, "whole_ms is 1000.*0 or more and finite"),
        ("whole_ms", "10", "whole_ms is '10'; it must be a number"),
        ("whole_ms", True, "whole_ms is True; it must be a number"),
        ("whole_ms", 12, "add up to 10 ms, but whole_ms is 12"),
        ("layers.1.latency_ms", None, r"layers\[1\]\.latency_ms is missing"),
        ("layers.1.latency_ms", -2, r"layers\[1\]\.latency_ms is -2"),
        ("layers.0.nodes", [], r"layers\[0\]\.nodes is \[\]; it must be a list of at least one"),
        ("layers.0.nodes", [1], r"layers\[0\]\.nodes is \[1\]; it must be a list of texts"),
        ("layers.0.nodes", ["fc"], "node 'fc' is in the layers 'conv' and 'fc'"),
        ("layers.0", "conv", r"layers\[0\] must be a JSON object"),
        ("layers", {}, "layers is {}; it must be a list"),
        ("inputs.0.shape", [1, "n"], r"inputs\[0\]\.shape is \[1, 'n'\]"),
        ("codecs.raw.encode_mb_s", 0.0, r"codecs\.raw\.encode_mb_s is 0\.0; it must be above 0"),
        ("model.sha256", None, r"model\.sha256 is missing"),
        ("peak_memory_bytes", 1.5, "peak_memory_bytes is 1.5; it must be a whole number"),
        ("machine", [], "machine must be a JSON object"),
    ],
)
def test_names_the_field_that_is_wrong(path: str, value: Any, message: str) -> None:
    with pytest.raises(ProfileError, match=message) as caught:
        profile_from_dict(edited(path, value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "is not JSON"), ("[]", "must be a JSON object"), ("[" * 100_000, "is not JSON")],
)
def test_a_broken_file(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(ProfileError, match=rf"broken\.json.*{message}"):
        read_profile(path)


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="is not JSON"):
        read_profile(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"cannot read profile .*none\.json.*No such file"):
        read_profile(tmp_path / "none.json")


def test_nowhere_to_write(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"cannot write profile .*No such file"):
        write_profile(FULL, tmp_path / "none" / "p.json")


def test_a_target_is_checked_before_measuring(tmp_path: Path) -> None:
    check_target(tmp_path / "new.json")
    with pytest.raises(ProfileError, match=r"cannot write .*p\.json': no folder .*none"):
        check_target(tmp_path / "none" / "p.json")
    with pytest.raises(ProfileError, match="it is there and is no file"):
        check_target(tmp_path)
    with pytest.raises(ProfileError, match="File name too long"):
        check_target(tmp_path / ("n" * 300))
    (tmp_path / "new.json").touch()
    with pytest.raises(ProfileError, match=r"no folder .*new\.json"):
        check_target(tmp_path / "new.json" / "p.json")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ProfileError, match="it is there and is no file"):
        check_target(tmp_path / "pipe")


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    check_target(path)
    write_profile(FULL, path)
    assert read_profile(path) == FULL


def test_what_has_no_end_or_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="it is a device, not a file"):
        read_profile(Path("/dev/zero"))
    huge = tmp_path / "huge.json"
    with huge.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(ProfileError, match="it holds more than 33,554,432 bytes, the limit"):
        read_profile(huge)


def test_a_message_shows_the_beginning_of_a_long_value() -> None:
    with pytest.raises(ProfileError, match="it must be a text") as caught:
        profile_from_dict(edited("label", [["x" * 1000] * 1000] * 1000))
    assert len(str(caught.value)) < 2000


def test_a_profile_without_memory_or_layers(tmp_path: Path) -> None:
    assert profile_from_dict(replace(FULL, peak_memory_bytes=None).to_dict()).layers
    empty = replace(FULL, layers=(), whole_ms=1.0)
    with pytest.raises(ProfileError, match="layers is empty"):
        profile_from_dict(json.loads(json.dumps(empty.to_dict())))
