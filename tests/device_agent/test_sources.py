"""Where frames come from, and what is said about those that do not come."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from device_agent import OptionError, SourceError, open_source
from profiler.values import TensorSlot
from protocol import PICTURE_KINDS
from protocol.testing import FakeClock
from tests.device_agent.toys import PICTURE, PREPROCESS, bundle, picture_bundle

if TYPE_CHECKING:
    from pathlib import Path

    from device_agent import Frame
    from splitter.bundle import Bundle

TWO_INPUTS = (
    TensorSlot("a/x", "float32", (1, None)),
    TensorSlot("rate", "int64", ()),
)


def frames(
    text: object, opened: Bundle, count: int | None = None, said: list[str] | None = None
) -> list[Frame]:
    source = open_source(
        str(text), opened, count=count, notice=(said if said is not None else list[str]()).append
    )
    given = list(source)
    assert source.length == len(given) + source.skipped or count is not None
    return given


class TestChoice:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "nowhere",
                "source 'nowhere' does not exist; give a folder of pictures, a picture, a .npz",
            ),
            ("nowhere.npz", "there is no file nowhere.npz"),
        ],
    )
    def test_a_source_that_is_not_there(self, text: str, message: str) -> None:
        with pytest.raises(SourceError, match=message):
            open_source(text, bundle())

    def test_a_file_of_another_kind(self, tmp_path: Path) -> None:
        path = tmp_path / "video.mp4"
        path.touch()
        with pytest.raises(SourceError, match=r"video\.mp4' is of no kind that is read; give a"):
            open_source(str(path), bundle())

    def test_a_count_below_one(self) -> None:
        with pytest.raises(OptionError, match="--count is 0; give 1 or more"):
            open_source("bench", bundle(), count=0)

    def test_pictures_for_a_model_with_two_inputs(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="the model has the inputs a/x, rate"):
            open_source(str(tmp_path), bundle(inputs=TWO_INPUTS, preprocess=PREPROCESS))


class TestArrays:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "feed.npz"

    def save(self, path: Path, **arrays: Any) -> None:
        np.savez(path, **arrays)

    def test_one_frame(self, path: Path) -> None:
        self.save(path, a__slash__x=np.ones((1, 5), np.float32), rate=np.array(16000))
        (frame,) = frames(path, bundle(inputs=TWO_INPUTS))
        assert set(frame.feeds) == {"a/x", "rate"}
        assert frame.name == "feed.npz"
        assert frame.pixels is None

    def test_frames_along_an_extra_axis(self, path: Path) -> None:
        stack = np.arange(15, dtype=np.float32).reshape(3, 1, 5)
        self.save(path, a__slash__x=stack, rate=np.array([1, 2, 3]))
        given = frames(path, bundle(inputs=TWO_INPUTS))
        assert [int(frame.feeds["rate"]) for frame in given] == [1, 2, 3]
        for index, frame in enumerate(given):
            np.testing.assert_array_equal(frame.feeds["a/x"], stack[index])
            assert frame.feeds["a/x"].flags.c_contiguous

    @pytest.mark.parametrize(("count", "rates"), [(2, [1, 2]), (7, [1, 2, 3, 1, 2, 3, 1])])
    def test_count_cuts_short_or_begins_again(
        self, path: Path, count: int, rates: list[int]
    ) -> None:
        self.save(path, a__slash__x=np.ones((3, 1, 5), np.float32), rate=np.array([1, 2, 3]))
        given = frames(path, bundle(inputs=TWO_INPUTS), count)
        assert [int(frame.feeds["rate"]) for frame in given] == rates

    def test_a_shape_that_was_never_declared_takes_any(self, path: Path) -> None:
        self.save(path, rate=np.ones((4, 4), np.int64))
        (frame,) = frames(path, bundle(inputs=TWO_INPUTS[1:]))
        assert frame.feeds["rate"].shape == (4, 4)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"rate": np.array(1)}, r"feed.npz lacks 'a/x'; the model's inputs are a/x, rate"),
            (
                {"a__slash__x": np.ones((1, 5), np.float32), "rate": np.array(1), "b": 1},
                "has 'b', which is no input; the model's inputs are a/x, rate",
            ),
            (
                {"a__slash__x": np.ones((2, 5), np.float32), "rate": np.array(1)},
                r"'a/x' in .*feed.npz is float32 \[2, 5\]; the model wants float32 \[1, any\]",
            ),
            (
                {"a__slash__x": np.ones((1, 5)), "rate": np.array(1)},
                r"is float64 \[1, 5\]; the model wants float32 \[1, any\]",
            ),
            (
                {"a__slash__x": np.ones((3, 1, 5), np.float32), "rate": np.array([1, 2])},
                "must be equal and not 0; they are 'a/x' 3, 'rate' 2",
            ),
            (
                {"a__slash__x": np.ones((0, 1, 5), np.float32), "rate": np.ones(0, np.int64)},
                "must be equal and not 0",
            ),
            ({"a__slash__x": np.array([{}]), "rate": np.array(1)}, "feed.npz.*not numbers"),
        ],
    )
    def test_arrays_that_do_not_fit(self, path: Path, arrays: dict[str, Any], message: str) -> None:
        np.savez(path, allow_pickle=True, **arrays)
        with pytest.raises(SourceError, match=message):
            open_source(str(path), bundle(inputs=TWO_INPUTS))

    def test_a_broken_file(self, path: Path) -> None:
        path.write_bytes(b"PK\x03\x04 broken")
        with pytest.raises(SourceError, match=r"source: .*feed\.npz is not a readable"):
            open_source(str(path), bundle(inputs=TWO_INPUTS))

    def test_any_damage_is_one_line(self, path: Path) -> None:
        np.savez_compressed(path, a__slash__x=np.ones((3, 1, 5), np.float32), rate=np.arange(3))
        original = path.read_bytes()

        @given(st.lists(st.tuples(st.integers(0, len(original) - 1), st.integers(0, 255))))
        @settings(max_examples=300, deadline=None)
        def run(changes: list[tuple[int, int]]) -> None:
            content = bytearray(original)
            for position, value in changes:
                content[position] = value
            path.write_bytes(content)
            with contextlib.suppress(SourceError):
                open_source(str(path), bundle(inputs=TWO_INPUTS))

        run()

    def test_a_name_that_is_not_a_number(self, path: Path) -> None:
        self.save(path, nan=np.ones((1, 5), np.float32), rate=np.array(1))
        with pytest.raises(SourceError, match="lacks 'a/x', and has 'nan', which is no input"):
            open_source(str(path), bundle(inputs=TWO_INPUTS))

    def test_a_named_pipe_is_not_waited_for(self, path: Path) -> None:
        os.mkfifo(path)
        with pytest.raises(SourceError, match="it is a named pipe, not a file"):
            open_source(str(path), bundle(inputs=TWO_INPUTS))

    @pytest.mark.parametrize(
        ("array", "remedy"),
        [
            (np.ones((224, 224, 3), np.uint8), "the dtype differs; save it as float32"),
            (np.ones((224, 224, 3), np.float32), "it has 3 axes, not 4; several frames go along"),
            (np.ones((1, 3, 6, 9), np.float32), "axis 3 differs; resize the input, or give pic"),
        ],
    )
    def test_a_misfit_says_what_differs_and_what_to_do(
        self, path: Path, array: Any, remedy: str
    ) -> None:
        self.save(path, picture=array)
        with pytest.raises(SourceError, match=remedy):
            open_source(str(path), picture_bundle())


class TestPictures:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for number, name in enumerate(["b.png", "a.JPG", "c.webp"]):
            Image.new("RGB", (32, 24), (40 * number, 10, 10)).save(tmp_path / name)
        (tmp_path / "notes.txt").write_text("no picture")
        return tmp_path

    def test_come_in_the_order_of_their_names_resized_and_normalised(self, folder: Path) -> None:
        given = frames(folder, picture_bundle())
        assert [frame.name for frame in given] == ["a.JPG", "b.png", "c.webp"]
        for frame in given:
            assert frame.pixels is not None
            assert frame.pixels.shape == (6, 8, 3)
            np.testing.assert_array_equal(
                frame.feeds["picture"], PREPROCESS.normalise(frame.pixels)
            )

    def test_every_kind_that_can_be_read_is_found_in_a_folder(self, tmp_path: Path) -> None:
        names = [f"a{suffix}" for kind in PICTURE_KINDS.values() for suffix in kind]
        for name in names:
            Image.new("RGB", (32, 24)).save(tmp_path / name)
        assert [frame.name for frame in frames(tmp_path, picture_bundle())] == sorted(names)

    def test_one_alone(self, folder: Path) -> None:
        assert [frame.name for frame in frames(folder / "a.JPG", picture_bundle())] == ["a.JPG"]
        assert len(frames(folder / "a.JPG", picture_bundle(), 3)) == 3

    def test_the_time_for_it_is_told(self, folder: Path) -> None:
        class SlowClock(FakeClock):
            def monotonic(self) -> float:
                self.advance(0.001)
                return super().monotonic()

        source = open_source(str(folder), picture_bundle(), clock=SlowClock())
        assert [round(frame.preprocess_ms, 6) for frame in source] == [1.0, 1.0, 1.0]

    def test_one_that_cannot_be_read_is_named_counted_and_skipped(self, folder: Path) -> None:
        (folder / "aa.png").write_bytes(b"no picture at all")
        said: list[str] = []
        source = open_source(str(folder), picture_bundle(), notice=said.append)
        assert [frame.name for frame in source] == ["a.JPG", "b.png", "c.webp"]
        assert source.skipped == 1
        assert len(said) == 1
        assert "aa.png" in said[0]
        assert said[0].endswith("; skipped")

    def test_count_begins_again_and_does_not_try_the_broken_one_twice(self, folder: Path) -> None:
        (folder / "aa.png").write_bytes(b"no picture at all")
        said: list[str] = []
        given = frames(folder, picture_bundle(), 5, said)
        assert [frame.name for frame in given] == ["a.JPG", "b.png", "c.webp", "a.JPG", "b.png"]
        assert len(said) == 1

    @pytest.mark.parametrize("count", [None, 3])
    def test_when_none_can_be_read_that_is_an_error(
        self, tmp_path: Path, count: int | None
    ) -> None:
        (tmp_path / "a.png").write_bytes(b"no")
        (tmp_path / "b.png").write_bytes(b"no")
        with pytest.raises(SourceError, match=r"none of its pictures can be read \(2 tried\)"):
            frames(tmp_path, picture_bundle(), count)

    def test_without_pillow_the_hint_comes_once_before_any_picture(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
        said: list[str] = []
        with pytest.raises(SourceError, match=r"need Pillow, .*run pip install '\.\[images\]'"):
            open_source(str(folder), picture_bundle(), notice=said.append)
        assert said == []

    def test_folders_and_pipes_with_names_of_pictures(self, folder: Path) -> None:
        (folder / "album.jpg").mkdir()
        os.mkfifo(folder / "pipe.jpg")
        said: list[str] = []
        given = frames(folder, picture_bundle(), said=said)
        assert [frame.name for frame in given] == ["a.JPG", "b.png", "c.webp"]
        (line,) = said
        assert line.endswith("pipe.jpg: it is a named pipe, not a file; skipped")

    def test_a_preprocess_that_does_not_make_the_input(self, folder: Path) -> None:
        other = replace(picture_bundle(), preprocess=replace(PREPROCESS, height=7))
        for source in (str(folder), "bench"):
            with pytest.raises(SourceError, match=r"makes float32 \[1, 3, 7, 8\], but the model's"):
                open_source(source, other)

    def test_a_folder_without_pictures(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"no pictures in .*; wanted files that end in \.bmp"):
            open_source(str(tmp_path), picture_bundle())

    def test_a_bundle_that_does_not_say_how(self, folder: Path) -> None:
        undeclared = replace(picture_bundle(), preprocess=None)
        with pytest.raises(SourceError, match="plan again with a preprocess block"):
            open_source(str(folder), undeclared)


class TestBench:
    def test_gives_50_equal_frames_that_fit_the_model(self) -> None:
        opened = bundle(inputs=TWO_INPUTS)
        given = frames("bench", opened)
        assert len(given) == 50
        assert given[0].feeds["a/x"].shape == (1, 1)
        assert given[0].feeds["rate"].shape == ()
        assert given[0].feeds["rate"] in (0, 1)
        assert given[0] is given[49]

    @pytest.mark.parametrize(
        ("slot", "message"),
        [
            (TensorSlot("x", "string", (1,)), "'x' is string, which bench cannot make"),
            (TensorSlot("x", "bfloat16", (1,)), "'x' is bfloat16, which bench cannot make"),
            (TensorSlot("x", "uint8", (1 << 20, 1 << 20)), "bench makes up to 134217728"),
        ],
    )
    def test_what_it_cannot_make(self, slot: TensorSlot, message: str) -> None:
        with pytest.raises(SourceError, match=message):
            open_source("bench", bundle(inputs=(slot,)))

    def test_is_the_same_each_time(self) -> None:
        (first,), (second,) = (frames("bench", bundle(), 1) for _ in range(2))
        np.testing.assert_array_equal(first.feeds["x"], second.feeds["x"])

    @pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float64"])
    def test_takes_every_dtype(self, dtype: str) -> None:
        (frame,) = frames("bench", bundle(inputs=(TensorSlot("x", dtype, (2, 3)),)), 1)
        assert frame.feeds["x"].dtype.name == dtype

    def test_a_model_that_takes_pictures_gets_one(self) -> None:
        (frame,) = frames("bench", picture_bundle(), 1)
        assert frame.pixels is not None
        assert frame.pixels.std() > 10
        assert PICTURE.accepts("float32", frame.feeds["picture"].shape)

    @pytest.mark.parametrize("side", [1, 5, 14, 15, 225])
    def test_pictures_of_any_size(self, side: int) -> None:
        small = replace(PREPROCESS, height=side, width=2 * side)
        slot = TensorSlot("picture", "float32", (1, 3, side, 2 * side))
        (frame,) = frames("bench", bundle(inputs=(slot,), preprocess=small), 1)
        assert frame.feeds["picture"].shape == slot.shape
