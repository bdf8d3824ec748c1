"""Limits, tensor descriptions, codes, errors, texts and clocks."""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import fields
from typing import get_args

import numpy as np
import pytest

from protocol import codes, errors, testing
from protocol.clock import SystemClock
from protocol.codes import Advice, FailureCode, RefusalCode
from protocol.errors import CodecError, HeadtailError, RefusedError, SettingError
from protocol.limits import Limits
from protocol.tensors import ITEM_BYTES, Dtype, TensorSpec
from protocol.testing import FakeClock
from protocol.text import did_you_mean, one_line


class TestLimits:
    def test_defaults_are_valid_and_documented(self):
        for field in fields(Limits):
            assert f"        {field.name}:" in (Limits.__doc__ or "")

    @pytest.mark.parametrize("field", [field.name for field in fields(Limits)])
    @pytest.mark.parametrize("value", [0, -1, True, 1.5, "5", None, 2**63])
    def test_unusable_values_are_refused_by_name(self, field, value):
        with pytest.raises(SettingError, match=f"limit {field} is"):
            Limits(**{field: value})


class TestTensorSpec:
    def test_every_dtype_has_its_size(self):
        assert set(get_args(Dtype)) == set(ITEM_BYTES)
        for dtype, size in ITEM_BYTES.items():
            assert np.dtype(dtype).itemsize == size
            spec = TensorSpec.of("x", np.zeros((2, 3), dtype))
            assert spec == TensorSpec("x", dtype, (2, 3))
            assert (spec.elements, spec.raw_bytes) == (6, 6 * size)

    def test_scalars_and_empty_tensors(self):
        assert TensorSpec("x", "int8", ()).elements == 1
        assert TensorSpec("x", "float64", (4, 0)).raw_bytes == 0

    def test_sizes_do_not_overflow(self):
        assert TensorSpec("x", "float64", (2**40, 2**40)).raw_bytes == 2**83

    def test_byte_order_is_no_part_of_it(self):
        assert TensorSpec.of("x", np.zeros(2, ">f4")) == TensorSpec("x", "float32", (2,))
        assert TensorSpec("x", "float32", ()).wire_dtype.str == "<f4"

    @pytest.mark.parametrize("dtype", ["bfloat16", "object", "str", "", "float8_e4m3fn", "<f4"])
    def test_other_dtypes_are_refused(self, dtype):
        with pytest.raises(CodecError, match="'mask' has dtype"):
            TensorSpec("mask", dtype, (1,))

    @pytest.mark.parametrize("array", [np.array(["a"]), np.array([b"a"]), np.array([{}])])
    def test_arrays_of_other_dtypes_are_refused(self, array):
        with pytest.raises(CodecError, match="cannot be sent"):
            TensorSpec.of("x", array)

    def test_negative_axes_are_refused(self):
        with pytest.raises(CodecError, match="negative"):
            TensorSpec("x", "int8", (2, -1))

    def test_it_reads_well(self):
        assert str(TensorSpec("x", "int8", (1, 2))) == "'x' int8[1, 2]"


class TestCodes:
    def test_every_code_has_its_advice(self):
        assert set(codes.REFUSAL_ADVICE) == set(RefusalCode)
        assert set(codes.FAILURE_ADVICE) == set(FailureCode)
        for code in (*RefusalCode, *FailureCode):
            assert code.advice in get_args(Advice)

    def test_the_table(self):
        """What the agent does about each code is part of the protocol: change it knowingly."""
        assert {code.value: code.advice for code in RefusalCode} == {
            "version_mismatch": "give_up",
            "unknown_model": "give_up",
            "illegal_cut": "give_up",
            "unsupported_codec": "give_up",
            "busy": "retry",
            "bad_hello": "give_up",
            "draining": "retry",
            "load_failed": "give_up",
        }
        assert {code.value: code.advice for code in FailureCode} == {
            "unknown_session": "retry",
            "expired": "local",
            "over_credit": "local",
            "too_large": "local",
            "bad_tensor": "local",
            "rejected": "local",
            "inference_failed": "local",
            "draining": "retry",
            "busy": "retry",
        }


class TestErrors:
    def classes(self):
        return {
            name: kind
            for name, kind in inspect.getmembers(errors, inspect.isclass)
            if kind.__module__ == errors.__name__
        }

    def test_all_can_be_mended_by_the_user(self):
        for kind in self.classes().values():
            assert issubclass(kind, HeadtailError)
            assert kind.__doc__

    def test_a_message_is_one_bounded_line(self):
        error = HeadtailError("first\nsecond " + "x" * 100_000)
        assert str(error).startswith("first second xxx")
        assert len(str(error)) == 2000

    def test_the_tree_in_the_docstring_is_the_real_one(self):
        drawn = {}
        path = []
        for line in (errors.__doc__ or "").splitlines():
            match = re.match(r"^([ │├└─]*)(\w+Error)(?: \((\w+)\))?", line)
            if match is None:
                continue
            depth = len(match[1]) // 4
            path = [*path[:depth], match[2]]
            bases = {path[-2]} if depth else {"Exception"}
            drawn[match[2]] = bases | ({match[3]} if match[3] else set())
        assert drawn == {
            name: {base.__name__ for base in kind.__bases__}
            for name, kind in self.classes().items()
        }

    def test_a_refusal_says_why_and_when_to_come_back(self):
        error = RefusedError(RefusalCode.BUSY, "queue full", 250)
        assert isinstance(error, ConnectionError)
        assert (error.code, error.retry_after_ms) == (RefusalCode.BUSY, 250)
        assert str(error) == "the worker refused the session (busy): queue full"


class TestTexts:
    def test_one_line_removes_what_steers_a_terminal(self):
        assert one_line("a\nb\r\n c\t\x1b[31md\x00\u2028e\u202e") == "a b c [31md e"

    def test_one_line_cuts_with_an_ellipsis(self):
        assert one_line("abcdef", 4) == "abc…"
        assert one_line("abcd", 4) == "abcd"

    def test_suggestions(self):
        assert did_you_mean("hight", ["height", "width"]) == " (did you mean 'height'?)"
        assert did_you_mean("zzz", ["height", "width"]) == ""


class ClockConformance:
    def clock(self):
        raise NotImplementedError

    def test_it_never_goes_back(self):
        clock = self.clock()
        readings = [clock.monotonic() for _ in range(100)]
        assert readings == sorted(readings)
        assert all(isinstance(reading, float) for reading in readings)


class TestSystemClock(ClockConformance):
    def clock(self):
        return SystemClock()


class TestFakeClock(ClockConformance):
    def clock(self):
        return FakeClock()

    def test_it_moves_only_when_told(self):
        clock = FakeClock(10.0)
        clock.advance(2.5)
        assert [clock.monotonic(), clock.monotonic()] == [12.5, 12.5]

    def test_it_refuses_to_go_back(self):
        with pytest.raises(ValueError, match="cannot advance"):
            FakeClock().advance(-1)

    def test_its_example(self):
        assert doctest.testmod(testing).failed == 0
