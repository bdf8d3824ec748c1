"""Arrays from NumPy ``.npz`` files, which may be damaged or lie about what is in them.

NumPy's own reader takes the memory that a header asks for before it looks whether so much follows,
and gives back foreign byte order and Fortran order as they are, which ONNX Runtime misreads. Light.
"""

from __future__ import annotations

import lzma
import math
import tokenize
import warnings
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from profiler.errors import FeedError
from protocol.files import open_file
from protocol.limits import Limits
from protocol.text import one_line

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

__all__ = ["SLASH", "read_arrays"]

# A model's input name may hold a slash, which a file name in a zip archive had better not.
SLASH = "__slash__"
_SUFFIX = ".npy"
_ARRAY_MAGIC = b"\x93NUMPY"
_NUMBERS = "?biufc"  # kinds of dtypes; what else there is are texts, times, records and objects
# What zipfile, the decompressors and NumPy's parser raise on damaged files.
_DAMAGE = (
    ValueError,
    EOFError,
    RuntimeError,  # a password is needed
    NotImplementedError,
    OverflowError,
    SyntaxError,
    RecursionError,
    tokenize.TokenError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a ``.npz`` file, in native byte order and C order.

    Raises:
        FeedError: No such file, no ``.npz`` file, or a damaged one; or it holds what are no
            numbers, or more than fits into memory.
    """
    try:
        with open_file(path) as stream:
            single = stream.read(len(_ARRAY_MAGIC)) == _ARRAY_MAGIC
            if not single:
                with zipfile.ZipFile(stream) as archive:
                    return _members(path, archive)
    except FeedError:  # a ValueError too
        raise
    except FileNotFoundError:
        raise FeedError(f"there is no file {path}") from None
    except OSError as error:
        raise FeedError(f"{path} cannot be read: {error.strerror or error}") from None
    except _DAMAGE as error:
        raise FeedError(f"{path} is not a readable .npz file: {one_line(str(error))}") from None
    except MemoryError:
        raise FeedError(f"{path} does not fit into memory") from None
    raise FeedError(f"{path} holds a single array; save it with numpy.savez(NAME=...)")


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    if len(archive.infolist()) > Limits().tensors:
        raise FeedError(
            f"{path} holds {len(archive.infolist())} arrays; the limit is {Limits().tensors}"
        )
    for info in archive.infolist():
        name = info.filename.removesuffix(_SUFFIX).replace(SLASH, "/")
        try:
            if name in arrays or not info.filename.endswith(_SUFFIX):
                raise ValueError("it is there twice, or is no array")
            with archive.open(info) as member:
                arrays[name] = _array(member, info.file_size)
        except (*_DAMAGE, OSError) as error:
            reason = one_line(str(error) or type(error).__name__, 200)
            raise FeedError(
                f"{path} is not a readable .npz file: {one_line(name, 80)!r}: {reason}"
            ) from None
    return arrays


def _array(member: IO[bytes], size_bytes: int) -> NDArray[Any]:
    """Read one array; its header must agree with the size that the archive says it has."""
    shape, fortran, dtype = _header(member)
    if dtype.kind not in _NUMBERS or dtype.hasobject:
        raise ValueError(f"it holds {dtype}, not numbers")
    if min(shape, default=0) < 0 or len(shape) > Limits().rank:
        raise ValueError(f"its shape {list(shape)} is not one that a tensor can have")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted != size_bytes - member.tell():
        raise ValueError(f"its shape says {wanted} bytes, but {size_bytes - member.tell()} follow")
    data = bytearray()
    # To the very end, where the archive's checksum is looked at.
    while chunk := member.read(1 << 20):
        data += chunk
    values = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return np.asarray(values, dtype.newbyteorder("="), order="C")


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    if version not in {(1, 0), (2, 0)}:  # the third is for names of fields, which we do not take
        raise ValueError(f"format {version} is not read; save it with numpy.savez")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # files of Python 2 are read, with a word about it
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(member)
        return np.lib.format.read_array_header_2_0(member)
