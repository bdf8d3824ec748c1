"""The README's promises point at tests that exist, and its files are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from profiler.links.presets import link_preset_names
from profiler.presets import preset_names
from protocol import PICTURE_KINDS, install_hint

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "named", sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", README)))
)
def test_named_tests_exist(named: str) -> None:
    path, _, name = named.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert not name or name in defined


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([\w./-]+)\)", README))))
def test_linked_files_exist(target: str) -> None:
    assert (ROOT / target).exists()


@pytest.mark.parametrize("extra", ["images", "plan", "torch", "worker"])
def test_what_messages_say_to_install_is_what_the_readme_says(extra: str) -> None:
    (command,) = re.findall(r"pip install \S+", install_hint(extra))
    assert f"\n{command} " in README


def test_no_message_names_a_package_index_that_has_no_headtail() -> None:
    packages = ("protocol", "profiler", "splitter", "device_agent", "cloud_worker")
    for package in packages:
        for path in (ROOT / package).rglob("*.py"):
            assert "headtail[" not in path.read_text(), path


def test_the_kinds_of_pictures_are_those_that_are_read() -> None:
    (listed,) = re.findall(r"Pictures are ([\w\s,]+)\.", README)
    assert re.split(r",?\s+or\s+|,\s+", listed) == list(PICTURE_KINDS)


def test_the_presets_are_those_there_are() -> None:
    (devices,) = re.findall(r"\| one of these \| `--device`, `--cloud`: (.*) \|", README)
    assert sorted(re.findall(r"`([\w-]+)`", devices)) == preset_names()
    (links,) = re.findall(r"a preset \(`([\w\s-]+)`", README)
    assert sorted(links.split()) == link_preset_names()
