"""Files that the user names."""

from __future__ import annotations

from pathlib import Path

from dory_core import quoting
from dory_core.codegen.replace import MARKER
from dory_core.errors import UsageError

_HEAD_BYTES = 4096  # in which the mark of an older file stands


def existing_file(path: Path, what: str) -> Path:
    """Return ``path``; raises UsageError when there is no such file."""
    hint = f"give the path of the {what}'s file"
    if path.is_dir():
        application = directory_error(path) if (path / MARKER).is_file() else None
        raise application or UsageError(f"{what} {path} is a directory", hint)
    if not path.is_file():
        state = "is no regular file" if path.exists() else "does not exist"
        raise UsageError(f"{what} {path} {state}", hint)
    return path


def directory_error(path: Path) -> UsageError | None:
    """Return the error for a directory in the place of a network; None for anything else."""
    if not path.is_dir():
        return None
    if (path / MARKER).is_file():
        name = quoting.shell(quoting.path(path))
        return UsageError(
            f"{path} is an application that dory wrote, not a network",
            f"`dory run {name}` runs it, `dory report {name}` shows it",
        )
    return UsageError(
        f"{path} is a directory, not the file of a network",
        "give a file: dory --target NAME NETWORK; `dory --help` lists commands",
    )


def write_file(path: Path, data: bytes, mark: bytes = b"") -> None:
    """Write a file that the user asked for.

    Args:
        path: The file.
        data: Its content.
        mark: Bytes at the beginning of an older file that may be replaced; empty for any file.

    Raises:
        UsageError: For a file without the mark, one inside an application, and one that cannot be
            written.
    """
    check_outside(path)
    try:
        if mark and path.is_file() and mark not in _head(path):
            raise UsageError(
                f"{path} exists and is not such a file of dory; nothing was changed",
                "choose another FILE, or remove it yourself",
            )
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "choose another FILE") from error


def check_outside(path: Path) -> None:
    """Raise UsageError for a path inside an application: its files are those of its plan."""
    for folder in path.resolve().parents:
        if (folder / MARKER).is_file():
            raise UsageError(f"{path} lies inside the application {folder}", "choose another place")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)
