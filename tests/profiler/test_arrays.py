"""Arrays from files that may be damaged, or lie."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.arrays import read_arrays
from profiler.errors import FeedError


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as target:
        for name, content in members.items():
            target.writestr(f"{name}.npy", content)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.npz"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read_as_they_were(path: Path, save: Any) -> None:
    arrays: dict[str, Any] = {
        "a__slash__b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "scalar": np.array(7, np.int64),
        "empty": np.zeros((0, 3), np.float16),
        "flags": np.array([True, False]),
        "non-contiguous": np.arange(8)[::2],
    }
    save(path, **arrays)
    read = read_arrays(path)
    assert list(read) == ["a/b", *list(arrays)[1:]]
    for found, made in zip(read.values(), arrays.values(), strict=True):
        np.testing.assert_array_equal(found, made)
        assert (found.dtype, found.shape) == (made.dtype, made.shape)
        assert found.flags.c_contiguous
        assert found.flags.writeable


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [">f4", "<f4", ">i8", ">f2"])
def test_byte_order_and_axis_order_become_the_native_ones(
    path: Path, dtype: str, order: Any
) -> None:
    array = np.asarray(np.arange(6).reshape(2, 3), dtype, order=order)
    np.savez(path, x=array)
    read = read_arrays(path)["x"]
    np.testing.assert_array_equal(read, array)
    assert read.dtype.isnative
    assert read.flags.c_contiguous


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([{}], object), "it holds object, not numbers"),
        (np.array(["a"]), "it holds <U1, not numbers"),
        (np.array([b"a"]), "not numbers"),
        (np.zeros(2, "datetime64[s]"), "not numbers"),
        (np.zeros(2, [("a", "f4"), ("b", "i4")]), "not numbers"),
        (np.zeros(2, "V2"), "not numbers"),
        (np.zeros((1,) * 20), "not one that a tensor can have"),
    ],
)
def test_what_is_no_tensor_is_refused_by_name(path: Path, array: Any, reason: str) -> None:
    np.savez(path, good=np.ones(1), bad=array)
    with pytest.raises(FeedError, match=rf"is not a readable \.npz file: 'bad': .*{reason}"):
        read_arrays(path)


def header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (header("(1000000000000,)") + bytes(4), "says 4000000000000 bytes, but 4 follow"),
        (header("(1,)") + bytes(8), "says 4 bytes, but 8 follow"),
        (header("(-1,)") + bytes(4), r"its shape \[-1\] is not one"),
        (header("(0, 99999999999999999999999)"), ""),
        (header("(1,)", "('<f4', (1000,))") + bytes(4), "not numbers"),
        (header("(1,)", "'nonsense'"), ""),
        (header("((((1") + bytes(4), ""),
        (b"\x93NUMPY\x09\x00" + bytes(20), ""),
        (b"garbage", ""),
        (b"", ""),
    ],
)
def test_headers_that_lie_are_refused(path: Path, content: bytes, reason: str) -> None:
    archive(path, x=content)
    with pytest.raises(
        FeedError, match=rf"is not a readable \.npz file: 'x': .*{reason}"
    ) as caught:
        read_arrays(path)
    assert "\n" not in str(caught.value)


def test_a_header_of_python_2_is_read(path: Path) -> None:
    archive(path, x=header("(1L,)") + bytes(4))
    assert read_arrays(path)["x"].shape == (1,)


def test_a_wrong_checksum_is_seen(path: Path) -> None:
    np.savez(path, x=np.arange(100, dtype=np.float32))
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    with pytest.raises(FeedError, match=r"'x': .*CRC"):
        read_arrays(path)


def test_a_size_in_the_directory_that_lies_is_seen(path: Path) -> None:
    np.savez_compressed(path, x=np.zeros(1000, np.float32))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\1\2") + 24  # the uncompressed size
    for size in (0, 100, 1 << 31):
        data[entry : entry + 4] = size.to_bytes(4, "little")
        path.write_bytes(data)
        with pytest.raises(FeedError, match="is not a readable"):
            read_arrays(path)


def test_other_members_and_doubles_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("readme.txt", "hello")
    with pytest.raises(FeedError, match=r"'readme\.txt': it is there twice, or is no array"):
        read_arrays(path)
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("x.npy", npy(np.ones(1)))
        with pytest.warns(UserWarning, match="Duplicate"):
            target.writestr("x.npy", npy(np.ones(2)))
    with pytest.raises(FeedError, match="'x': it is there twice"):
        read_arrays(path)


def test_more_arrays_than_a_message_carries_are_refused(path: Path) -> None:
    archive(path, **{f"x{index}": npy(np.ones(1)) for index in range(257)})
    with pytest.raises(FeedError, match="holds 257 arrays; the limit is 256"):
        read_arrays(path)


def test_what_has_no_end_is_refused(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(FeedError, match="it is a named pipe, not a file"):
        read_arrays(path)
    with pytest.raises(FeedError, match="it is a folder, not a file"):
        read_arrays(path.parent)


@given(st.data())
def test_any_damage_is_refused_or_does_no_harm(data: st.DataObject) -> None:
    stream = io.BytesIO()
    save = data.draw(st.sampled_from([np.savez, np.savez_compressed]))
    save(stream, x=np.arange(30, dtype=np.float32), y=np.ones((2, 2), np.int64))
    content = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    with tempfile.TemporaryDirectory() as folder:  # a fixture would be one for all examples
        path = Path(folder) / "f.npz"
        path.write_bytes(content)
        try:
            read_arrays(path)
        except FeedError as error:
            assert str(path) in str(error)  # noqa: PT017
