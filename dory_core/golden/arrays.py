"""Files of numbers: arrays of numpy, and text with one value per line."""

from __future__ import annotations

import re
import tokenize
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError

Values = npt.NDArray[np.int64]

_MOST = 2.0**32
_ARCHIVE_ERRORS = (
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    # Exceptions of Python for the damaged head of an array:
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_FILE_HINT = "write it with numpy.savez, integers in HWC order; Python objects are not read"


def load_arrays(
    path: Path, lone: str, names: str = ".*", hint: str = _FILE_HINT
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an .npz file; that of an .npy file is called ``lone``.

    Args:
        path: The file.
        lone: Name of the array of an .npy file.
        names: Pattern of the arrays to read.
        hint: How the user writes such a file, for messages.

    Raises:
        UsageError: For a file that cannot be read.
    """
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                check_size(str(path), file, path.stat().st_size)
            return {lone: np.asarray(np.load(path, allow_pickle=False))}
        with zipfile.ZipFile(path) as members:
            for info in members.infolist():
                if _is_read(info.filename, names):
                    with members.open(info) as member:
                        check_size(f"{path}: {info.filename}", member, info.file_size)
        with np.load(path, allow_pickle=False) as archive:
            read = (name for name in archive.files if _is_read(name, names))
            return {name: np.asarray(archive[name]) for name in read}
    except (OSError, *_ARCHIVE_ERRORS) as error:
        # A damaged archive can point to an impossible position.
        if isinstance(error, OSError) and error.filename is not None:
            raise UsageError(
                f"{path}: cannot be read: {error.strerror or error}", "check path and permissions"
            ) from error
        raise UsageError(f"{path}: not a readable array file, or damaged", hint) from error


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of an .npz file; none for other files."""
    try:
        with zipfile.ZipFile(path) as members:
            return [name.removesuffix(".npy") for name in members.namelist()]
    except (OSError, *_ARCHIVE_ERRORS):
        return []


def _is_read(name: str, names: str) -> bool:
    return re.fullmatch(names, name.removesuffix(".npy"), re.DOTALL) is not None


def check_size(what: str, file: IO[bytes], size: int) -> None:
    """Compare the size in the head of an array file with the size of the file.

    Args:
        what: Name of the array, for messages.
        file: The open file.
        size: Bytes of the file.

    Raises:
        UsageError: For another size, before memory is allocated for it.
        ValueError: For a file that is not an array.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else None
    shape, _, dtype = (read or np.lib.format.read_array_header_2_0)(file)
    claimed = prod(shape) * dtype.itemsize
    if not dtype.hasobject and claimed != size - file.tell():
        raise UsageError(
            f"{what} claims {claimed} bytes of values and has {size - file.tell()}",
            "the file is damaged or was cut off: write it again",
        )


def read_numbers(file: Path) -> npt.NDArray[np.float64]:
    """Read one value per line; a trailing comma or backslash and '#' lines are allowed.

    Raises: UsageError for bytes that are not text, and for text that is not a number.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file}: not a readable text file ({error})",
            "give integers as text, one a line, or a .npy or .npz file",
        ) from error
    values = []
    for number, line in enumerate(lines, start=1):
        items = [] if line.lstrip().startswith("#") else line.replace("\\", " ").split(",")
        for item in filter(None, map(str.strip, items)):
            try:
                values.append(float(item))
            except ValueError:
                raise UsageError(
                    f"{file}: line {number}: '{item}' is not a number", "give integers, one a line"
                ) from None
    return np.array(values, dtype=np.float64)


def integers(what: str, values: npt.NDArray[Any]) -> Values:
    """Return flattened integers; raises UsageError for other values and more than 32 bits."""
    flat = values.reshape(-1)
    if flat.dtype.kind in "iu":
        large = (flat >= _MOST) | (flat <= -_MOST)
        if large.any():
            at = int(large.argmax())
            raise UsageError(
                f"{what}: value {at} is {flat[at]}, not an integer of at most 32 bits",
                "dory reads the values of the integer network",
            )
        return flat.astype(np.int64)
    if flat.dtype.kind != "f":
        raise UsageError(
            f"{what} holds {flat.dtype}, not integers", "write it as an array of integers"
        )
    good = np.isfinite(flat)
    good &= np.rint(flat) == flat
    good &= np.abs(flat) < _MOST
    if not good.all():
        at = int((~good).argmax())
        raise UsageError(
            f"{what}: value {at} is {flat[at]}, not an integer of at most 32 bits",
            "dory reads the values of the integer network; an application compiled with --float-io"
            " takes real numbers",
        )
    return flat.astype(np.int64)
