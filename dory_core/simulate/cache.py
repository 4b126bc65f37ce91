"""The cache for later runs: files with checksums, and objects by a key of their inputs."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dory_core.errors import UsageError

LIMIT_BYTES = 500 << 20
CLEAN = "dory cache clean"
_HINT = "let the environment variable DORY_CACHE name a directory that you may write to"
_SUM = ".sum"
#: File that is touched when a folder is pruned. Listing a hundred thousand files takes half a
#: second, so folders are pruned rarely, and the cache may exceed its limit in between.
_PRUNED = ".pruned"
_PRUNED_EVERY_S = 600.0
#: Folders below the cache's directory; DORY_CACHE may name a directory with other files.
_FOLDERS = ("libraries", "objects", "programs")


def cache_dir() -> Path:
    """Return $DORY_CACHE, else ``dory`` in the user's cache directory; UsageError without one."""
    chosen = os.environ.get("DORY_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "dory"
    except RuntimeError as error:
        raise UsageError("there is no place for the cache: you have no home", _HINT) from error


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Number and size of the files in a folder of the cache."""

    folder: str
    files: int
    bytes: int


def cache_use() -> tuple[CacheUse, ...]:
    """Return the use of each folder of the cache; raises UsageError when there is no cache."""
    found = []
    for name in _FOLDERS:
        sizes = []
        for path in (cache_dir() / name).rglob("*"):
            with suppress(OSError):
                if path.is_file():
                    sizes.append(path.stat().st_size)
        found.append(CacheUse(name, len(sizes), sum(sizes)))
    return tuple(found)


def clean_cache() -> None:
    """Remove all files of the cache; raises UsageError when this is not possible."""
    for name in _FOLDERS:
        folder = cache_dir() / name
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(
                f"the cache {folder} cannot be removed: {error.strerror}", "remove it yourself"
            ) from error


def file_digest(path: Path) -> str:
    """Return the checksum of a file; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def synchronise(path: Path) -> None:
    """Write a file to disk (fsync), before it replaces another file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_whole(path: Path) -> bool:
    """Return True when a file is as :func:`keep` wrote it."""
    try:
        return _sum(path).read_text(encoding="ascii", errors="replace") == file_digest(path)
    except OSError:
        return False


def keep(scratch: Path, path: Path) -> None:
    """Move ``scratch`` to ``path`` in the same folder and write its checksum.

    An interruption leaves a file that is not whole. Raises OSError.
    """
    synchronise(scratch)
    digest = file_digest(scratch)
    scratch.replace(path)
    _sum(path).write_text(digest, encoding="ascii")


def cached_file(path: Path, make: Callable[[Path], None]) -> Path:
    """Return a file of the cache, which is made when it is missing or damaged.

    Args:
        path: Path of the file in the cache.
        make: Function that writes the file at the path that it is given.

    Raises:
        OSError: When the cache cannot be written to; ``make`` may raise other errors.
    """
    if not is_whole(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=path.suffix)
        os.close(handle)
        try:
            make(Path(name))
            keep(Path(name), path)
        finally:
            Path(name).unlink(missing_ok=True)
    return path


def _sum(path: Path) -> Path:
    return path.with_name(path.name + _SUM)


class ObjectCache:
    """Files by key, which several processes can use; files unused for longest are pruned first.

    limit_bytes: size above which :meth:`prune` removes files, down to four fifths of the limit.

    Raises UsageError for a folder that cannot be made or written to.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the cache {folder} cannot be made: {error.strerror}", _HINT
            ) from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"the cache {folder} cannot be written to", _HINT)

    def path(self, key: str) -> Path:
        """Return the path of the object of ``key``, which may not exist."""
        return self.folder / f"{key}.o"

    def has(self, key: str) -> bool:
        """Return True when the object is present and whole, and mark it as used now."""
        try:
            os.utime(self.path(key))
        except OSError:
            return False
        return is_whole(self.path(key))

    def scratch(self) -> Path:
        """Return an empty file in the cache's folder, for :meth:`store`."""
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        os.close(handle)
        return Path(name)

    def store(self, key: str, scratch: Path) -> None:
        """Make ``scratch`` the object of ``key``, atomically."""
        keep(scratch, self.path(key))

    def prune(self) -> None:
        """Remove the files unused for longest when the cache is above its limit.

        It does nothing within ten minutes of the last call.
        """
        stamp = self.folder / _PRUNED
        with suppress(OSError):
            if 0 <= time.time() - stamp.stat().st_mtime < _PRUNED_EVERY_S:
                return
        with suppress(OSError):
            stamp.touch()
        entries = []
        for entry in os.scandir(self.folder):
            with suppress(OSError):
                if not entry.name.endswith((_SUM, _PRUNED)):  # a checksum is removed with its file
                    status = entry.stat()
                    entries.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes * 4 // 5:
                return
            for name in (path, path + _SUM):
                with suppress(OSError):
                    os.unlink(name)
            total -= size
