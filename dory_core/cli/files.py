"""Files that the user names."""

from __future__ import annotations

from pathlib import Path

from dory_core.errors import UsageError


def existing_file(path: Path, what: str) -> Path:
    """Return ``path``; raises UsageError when there is no such file."""
    hint = f"give the path of the {what}'s file"
    if path.is_dir():
        raise UsageError(f"{what} {path} is a directory", hint)
    if not path.is_file():
        state = "is no regular file" if path.exists() else "does not exist"
        raise UsageError(f"{what} {path} {state}", hint)
    return path


def write_file(path: Path, data: bytes) -> None:
    """Write a file that the user asked for; raises UsageError when that is not possible."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "choose another FILE") from error
