"""A bounded cache of object files, keyed by what went into them."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from dory_core.errors import UsageError

LIMIT_BYTES = 500 << 20
_HINT = "let the environment variable DORY_CACHE name a directory that you may write to"


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


class ObjectCache:
    """Files by key; safe for several processes, oldest use pruned first.

    limit_bytes: size above which :meth:`prune` removes files, down to four fifths of it.

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
        """Return where the object of ``key`` lies, present or not."""
        return self.folder / f"{key}.o"

    def has(self, key: str) -> bool:
        """True when the object is present; it then counts as used now."""
        try:
            os.utime(self.path(key))
        except OSError:
            return False
        return True

    def scratch(self) -> Path:
        """Return an empty file in the cache's folder, to be given to :meth:`store`."""
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        os.close(handle)
        return Path(name)

    def store(self, key: str, scratch: Path) -> None:
        """Make ``scratch`` the object of ``key``, in one step."""
        scratch.replace(self.path(key))

    def prune(self) -> None:
        """Remove the files unused for longest when the cache is above its limit."""
        entries = []
        for entry in os.scandir(self.folder):
            with suppress(OSError):
                status = entry.stat()
                entries.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes * 4 // 5:
                return
            with suppress(OSError):
                os.unlink(path)
            total -= size
