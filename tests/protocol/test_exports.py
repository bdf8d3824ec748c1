from __future__ import annotations

import ast
import inspect

import pytest

import protocol
from protocol import codecs


@pytest.mark.parametrize("package", [protocol, codecs])
def test_the_public_list_is_sorted_and_complete(package):
    # Constants first, then classes, then functions: the order ruff keeps.
    def key(name):
        kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
        return kind, name

    assert package.__all__ == sorted(package.__all__, key=key)
    assert len(set(package.__all__)) == len(package.__all__)
    for name in package.__all__:
        assert hasattr(package, name)


@pytest.mark.parametrize("package", [protocol, codecs])
def test_nothing_is_imported_and_not_exported(package):
    tree = ast.parse(inspect.getsource(package))
    imported = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    assert imported == set(package.__all__)


def test_everything_public_has_a_docstring():
    for name in protocol.__all__:
        value = getattr(protocol, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
