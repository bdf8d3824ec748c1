from __future__ import annotations

import pytest

from protocol.clock import SystemClock
from protocol.lazy import lazy_exports


def test_names_come_from_their_modules():
    load = lazy_exports("protocol", {"SystemClock": "clock"})
    assert load("SystemClock") is SystemClock


def test_other_names_are_missing_as_usual():
    with pytest.raises(AttributeError, match="module 'protocol' has no attribute 'Clok'"):
        lazy_exports("protocol", {"SystemClock": "clock"})("Clok")


def test_nothing_is_loaded_before_it_is_asked_for():
    load = lazy_exports("protocol", {"Nothing": "no_such_module"})
    with pytest.raises(ModuleNotFoundError):
        load("Nothing")
