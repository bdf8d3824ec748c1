"""Files that users name have an end and a size, or are refused without waiting."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from protocol.files import open_file, read_file, replace_file


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(OSError, match="it holds more than 4 bytes, the limit"):
        read_file(path, 4)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a named pipe"),
        (os.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
    ],
)
def test_what_has_no_end_is_refused(make: object, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    make(path)  # type: ignore[operator]
    for read in (open_file, lambda path: read_file(path, 10)):
        with pytest.raises(OSError, match=f"it is {kind}, not a file"):
            read(path)


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="it is a socket, not a file"):
            open_file(tmp_path / "s")


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "none")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_file_that_hides_its_size_is_bounded_too() -> None:
    with pytest.raises(OSError, match="more than 100 bytes"):
        read_file(Path("/proc/self/maps"), 100)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    for text in ("first", "second \N{GREEK SMALL LETTER MU}"):
        replace_file(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        replace_file(tmp_path / "folder", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
