"""The README's promises point at tests that exist, and its files are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
