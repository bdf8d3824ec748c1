"""Inputs from files, from shapes, or made up; mistakes are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profiler.errors import FeedError
from profiler.graph.feeds import parse_input_shapes, read_feeds, resolve_feeds
from profiler.values import TensorSlot

FREE = TensorSlot("x", "float32", (None, 3, None))
FIXED = TensorSlot("k", "int64", (2,))
SCALAR = TensorSlot("sr", "int64", ())


class TestShapes:
    def test_are_read(self) -> None:
        texts = ["x:1x3x224x224", "a:b:7", "sr:"]
        assert parse_input_shapes(texts) == {"x": (1, 3, 224, 224), "a:b": (7,), "sr": ()}

    @pytest.mark.parametrize(
        "text", ["x", "1x3", ":1x3", "x:1x", "x:-1x3", "x:1,3", "x:①", "x:ax3"]
    )
    def test_of_another_form_are_refused(self, text: str) -> None:
        with pytest.raises(FeedError, match=r"not of the form NAME:1x3x224x224"):
            parse_input_shapes([text])

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("x:99999999999999999999999x3", "an axis that is too long"),
            ("x:99999999999999999999999x0", "an axis that is too long"),
            ("x:" + "9" * 5000, "an axis that is too long"),
            ("x:268435457", "an axis that is too long; the limit is 268435456"),
            ("x:" + "x".join("1" * 17), "17 axes; the limit is 16"),
        ],
    )
    def test_absurd_ones_are_refused_with_the_limit(self, text: str, reason: str) -> None:
        with pytest.raises(FeedError, match=reason) as caught:
            parse_input_shapes([text])
        assert len(str(caught.value)) < 200

    def test_leading_zeros_do_no_harm(self) -> None:
        assert parse_input_shapes(["x:" + "0" * 5000 + "3x0"]) == {"x": (3, 0)}

    def test_twice(self) -> None:
        with pytest.raises(FeedError, match="'x' twice"):
            parse_input_shapes(["x:1", "x:2"])


class TestResolving:
    def test_free_axes_are_asked_for_by_name(self) -> None:
        with pytest.raises(
            FeedError, match=r"in input 'x' \[\?, 3, \?\]; fix them with --input x:1x3xN, a number"
        ):
            resolve_feeds([FREE], {}, {})

    def test_all_free_axes_are_asked_for_at_once(self) -> None:
        slots = [
            FREE,
            FIXED,
            TensorSlot("a b", "float32", (None, 0)),
            TensorSlot("given", "float32", (None,)),
        ]
        with pytest.raises(FeedError) as caught:
            resolve_feeds(slots, {}, {"given": (3,)})
        assert str(caught.value) == (
            "free axes in inputs 'x' [?, 3, ?], 'a b' [?, 0]; fix them with --input x:1x3xN "
            "--input 'a b:1x0', a number for each N, or give --feed FILE.npz"
        )

    def test_all_unknown_names_are_told_at_once(self) -> None:
        with pytest.raises(FeedError, match="no input 'y', 'z'; its inputs are k"):
            resolve_feeds([FIXED], {"y": np.ones(1)}, {"z": (1,), "y": (1,)})

    def test_shapes_and_made_up_values(self) -> None:
        feeds = resolve_feeds([FREE, FIXED, SCALAR], {}, {"x": (2, 3, 5)})
        assert feeds["x"].shape == (2, 3, 5)
        assert feeds["x"].dtype == np.float32
        assert feeds["x"].std() > 0
        assert feeds["k"].tolist() == [0, 0]
        assert feeds["sr"].shape == ()

    def test_given_arrays_are_taken_as_they_are(self) -> None:
        array = np.ones((1, 3, 4), np.float32)
        assert resolve_feeds([FREE], {"x": array}, {})["x"] is array

    @pytest.mark.parametrize(
        ("given", "shapes", "message"),
        [
            ({"y": np.ones(1)}, {}, "no input 'y'; its inputs are x"),
            ({}, {"y": (1,)}, "no input 'y'"),
            ({"x": np.ones((1, 3, 4))}, {}, r"given as float64 \[1, 3, 4\]; the model wants"),
            ({"x": np.ones((1, 4, 4), np.float32)}, {}, r"float32 \[\?, 3, \?\]"),
            ({}, {"x": (1, 4, 4)}, r"given the shape \[1, 4, 4\]"),
            ({}, {"x": (1, 3)}, r"given the shape \[1, 3\]"),
        ],
    )
    def test_mistakes_name_the_input_and_both_shapes(
        self, given: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]], message: str
    ) -> None:
        with pytest.raises(FeedError, match=message):
            resolve_feeds([FREE], given, shapes)

    @pytest.mark.parametrize("dtype", ["string", "bfloat16", "float8_e4m3fn", "int4", "complex64"])
    def test_some_types_are_neither_fed_nor_sent(self, dtype: str) -> None:
        with pytest.raises(FeedError, match=f"'s' is {dtype}; no message carries it, so the"):
            resolve_feeds([TensorSlot("s", dtype, (1,))], {"s": np.ones(1)}, {})

    def test_nothing_huge_is_made_up(self) -> None:
        for shape in ((1 << 20, 1 << 20, 1 << 20), (1 << 14, 1 << 14), (0, 1 << 62)):
            with pytest.raises(FeedError, match="takes more than 256 MiB"):
                resolve_feeds([TensorSlot("x", "float32", shape)], {}, {})


class TestFiles:
    def test_names_with_slashes_come_back(self, tmp_path: Path) -> None:
        path = tmp_path / "f.npz"
        np.savez(path, gpu_0__slash__data=np.arange(3))
        assert read_feeds(path)["gpu_0/data"].tolist() == [0, 1, 2]

    def test_missing_broken_or_single(self, tmp_path: Path) -> None:
        path = tmp_path / "f.npz"
        with pytest.raises(FeedError, match="there is no file"):
            read_feeds(path)
        for content in (b"", b"garbage", b"PK\3\4broken"):
            path.write_bytes(content)
            with pytest.raises(FeedError, match=r"is not a readable \.npz file"):
                read_feeds(path)
        np.save(tmp_path / "f.npy", np.ones(2))
        with pytest.raises(FeedError, match="holds a single array"):
            read_feeds(tmp_path / "f.npy")

    def test_pickled_objects_are_never_loaded(self, tmp_path: Path) -> None:
        path = tmp_path / "f.npz"
        np.savez(path, x=np.array([{}], object))
        with pytest.raises(FeedError, match="not a readable"):
            read_feeds(path)
