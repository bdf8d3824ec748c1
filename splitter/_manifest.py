"""Values out of a manifest that anybody may have edited: each checked for type and range.

But for :func:`read_json`, each function returns its value or raises a ValueError that says what is
wrong with it. Light.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from profiler.values import ModelIdentity, TensorSlot
from protocol.files import read_file
from protocol.text import one_line
from splitter.errors import BundleError

_T = TypeVar("_T")
_MOST_AXES = 32  # that numpy 1.26 knows
_LONGEST_AXIS = 2**40
_LARGEST_BYTES = 64 * 1024 * 1024  # a manifest has kilobytes, most of them labels
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SHOWN_CHARACTERS = 60


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Return the object in a JSON file of a bundle.

    Raises:
        BundleError: The file is not there, cannot be read, or holds something else.
    """
    path = folder / name
    try:
        data = json.loads(read_file(path, _LARGEST_BYTES))
    except FileNotFoundError:
        if not folder.exists():
            raise BundleError(f"there is no folder {folder}") from None
        raise BundleError(
            f"{folder} is no bundle: it has no {name}; make one with split-plan MODEL -o FOLDER"
        ) from None
    except NotADirectoryError:
        raise BundleError(
            f"{folder} is a file, not a bundle; name the folder that split-plan -o has written"
        ) from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BundleError(f"{path} is not valid JSON; copy the bundle again") from None
    if not isinstance(data, dict):
        raise BundleError(f"{path} holds no JSON object")
    return data


def text(value: Any) -> str:
    """Return a text that is not empty and that files and messages can carry."""
    if not isinstance(value, str) or not value or "\0" in value or not _is_unicode(value):
        raise ValueError(f"{_shown(value)} is not a text")
    return value


def digest(value: Any) -> str:
    """Return a SHA-256 in hexadecimal digits."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError(f"{_shown(value)} is not a SHA-256 of 64 lower-case hexadecimal digits")
    return value


def table(value: Any) -> dict[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not an object")  # noqa: TRY004  # one kind for all
    return value


def items(value: Any, read: Callable[[Any], _T]) -> tuple[_T, ...]:
    """Return a list, each item read by a function."""
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is not a list")  # noqa: TRY004
    return tuple(map(read, value))


def slots(value: Any) -> tuple[TensorSlot, ...]:
    """Return slots of different names."""
    found = items(value, slot)
    names = [one.name for one in found]
    if len(set(names)) != len(names):
        raise ValueError(f"a name comes twice in {', '.join(names)}")
    return found


def slot(value: Any) -> TensorSlot:
    """Return what ``TensorSlot.to_dict`` wrote."""
    data = table(value)
    shape = items(data["shape"], _axis)
    if len(shape) > _MOST_AXES:
        raise ValueError(f"a shape has {len(shape)} axes; the limit is {_MOST_AXES}")
    return TensorSlot(text(data["name"]), text(data["dtype"]), shape)


def identity(value: Any) -> ModelIdentity:
    """Return what ``ModelIdentity.to_dict`` wrote."""
    data = table(value)
    return ModelIdentity(text(data["name"]), digest(data["sha256"]))


def file_digests(value: Any) -> dict[str, str]:
    """Return the digests of files by name; no name leads out of the folder."""
    files = table(value)
    for name in files:
        if text(name) != Path(name).name or name in {".", ".."}:
            raise ValueError(f"{name!r} is not a plain file name")
    return {name: digest(found) for name, found in files.items()}


def _axis(value: Any) -> int | None:
    if value is not None and (type(value) is not int or not 0 <= value <= _LONGEST_AXIS):
        raise ValueError(f"{_shown(value)} is not the length of an axis")
    return value


def _is_unicode(value: str) -> bool:
    """JSON can write half a surrogate pair, which no file name and no message can carry."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _shown(value: Any) -> str:
    return one_line(repr(value), _SHOWN_CHARACTERS)
