"""Writing an application directory: all of it or nothing, and never over files of the user."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dory_core.codegen.replace import (
    MARKER,
    is_in_use,
    is_mixed,
    listed,
    locked,
    marker_text,
    recover,
    remove,
    replace,
    temporary_directory,
)
from dory_core.errors import UsageError
from dory_core.hardware.target import OutputFile
from dory_core.simulate.cache import file_digest

BUILD_FOLDERS = frozenset({"build", "BUILD"})

_LOG = logging.getLogger("dory")
_CODE = (".c", ".h", ".S", ".mk", ".ld", "Makefile", ".md", ".html", ".clang-format")
_MOST_NAMED = 5

_OTHER = "choose another -o DIR"


def check_destination(directory: Path) -> Path:
    """Return the absolute path of ``directory``, symbolic links followed.

    Raises:
        UsageError: Unless it is absent, empty or an application of ours without other files than
            those of builds; and when it lies inside an application.
    """
    try:
        target = Path(directory).resolve()
        for parent in target.parents:
            if (parent / MARKER).is_file():
                raise UsageError(f"{directory} lies inside the application {parent}", _OTHER)
        recover(target)
        if not target.exists():
            return target
        if not target.is_dir():
            raise UsageError(f"{directory} exists and is not a directory", _OTHER)
        if not (target / MARKER).is_file():
            if any(target.iterdir()):
                raise UsageError(
                    f"{directory} exists and was not written by dory; nothing was changed",
                    "choose another -o DIR, or remove the directory yourself",
                )
            return target
        _check_unused(target)
        foreign = _foreign_file(target)
    except (OSError, RuntimeError) as error:  # names too long, loops of links, no permission
        raise UsageError(
            f"cannot write {directory}: {getattr(error, 'strerror', None) or error}", _OTHER
        ) from error
    if foreign is not None:
        raise UsageError(
            f"{directory} holds {foreign}, which dory did not write; nothing was changed",
            "move your own files out of the application, or choose another -o DIR",
        )
    return target


def _check_unused(application: Path) -> None:
    if is_in_use(application):
        raise UsageError(
            f"another process builds or runs {application} at the moment; nothing was changed",
            "wait until it has ended, or choose another -o DIR",
        )


def _foreign_file(application: Path) -> Path | None:
    """Return the first file below ``application`` that its marker does not list, or None."""
    ours = {MARKER, *listed(application)}
    if len(ours) == 1:  # dory wrote no list once
        return None
    for folder, folders, names in os.walk(application):
        here = Path(folder).relative_to(application)
        if here == Path():
            folders[:] = [name for name in folders if name not in BUILD_FOLDERS]
        folders.sort()
        for name in sorted(names):
            if (here / name).as_posix() not in ours:
                return here / name
    return None


def check_files(application: Path) -> None:
    """Compare the files that dory wrote with their checksums in the marker, if there is one.

    Edited code is only logged, because people experiment with kernels.

    Raises:
        UsageError: For a missing file, and for changed data, with which "exact" has no meaning.
    """
    if not (application / MARKER).is_file():
        return
    again = "compile the network again"
    if is_mixed(application):
        raise UsageError(f"the replacement of {application} was interrupted", again)
    edited = []
    for name, digest in listed(application).items():
        path = application / name
        if not path.is_file():
            raise UsageError(f"{application} lacks its file {name}", again)
        if digest and file_digest(path) != digest:
            edited.append(name)
    for name in edited:
        if not name.endswith(_CODE):
            raise UsageError(f"{application / name} is not the file that dory wrote", again)
    if edited:
        listed_ = ", ".join(edited[:_MOST_NAMED]) + (", ..." if len(edited) > _MOST_NAMED else "")
        _LOG.warning("edited since dory wrote them: %s", listed_)


def write_application(directory: Path, files: Iterable[OutputFile]) -> None:
    """Write ``files`` below ``directory``, replacing an application that is there already.

    The files are written to a temporary sibling that is then exchanged with it. A failed or
    interrupted run leaves only the previous application. A killed process leaves the old or the
    new one, and a directory that :func:`recover` removes.

    Raises:
        UsageError: When the directory is not ours or cannot be written.
    """
    target = check_destination(directory)
    parents: list[Path] = []
    temporary: Path | None = None
    done = False
    lock = ExitStack()
    try:
        with _undisturbed():
            parents = _make_folders(target.parent)
            temporary = temporary_directory(target)
            lock.enter_context(locked(temporary))
        _write_all(temporary, files)
        _check_unused(target)
        with _undisturbed():
            replace(temporary, target)
            done = True
    except OSError as error:
        raise UsageError(
            f"cannot write {directory}: {error.strerror or error}", _hint(error)
        ) from error
    finally:
        with _undisturbed():
            if temporary is not None and temporary.exists():
                remove(temporary)
                if temporary.exists():
                    what = "the previous application" if done else "a part of the application"
                    _LOG.warning("%s could not be removed and remains as %s", what, temporary)
            lock.close()
            if not done:
                with suppress(OSError):
                    for folder in parents:
                        folder.rmdir()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let interrupts of the main thread wait, so that a few steps are one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    usual = {
        number: signal.signal(number, lambda number, frame: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for interrupt in waiting:
            signal.raise_signal(interrupt)


def _make_folders(folder: Path) -> list[Path]:
    """Make ``folder`` and the missing ones above it; return those made, the deepest first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for made, path in enumerate(reversed(missing)):
        try:
            path.mkdir(exist_ok=True)
        except OSError:
            for parent in missing[len(missing) - made :]:
                parent.rmdir()
            raise
    return missing


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full: free some space or choose another -o DIR; nothing was changed"
    return "choose a directory that you may write to with -o DIR; nothing was changed"


def _write_all(directory: Path, files: Iterable[OutputFile]) -> None:
    made: set[Path] = set()
    written: dict[str, str] = {}
    (directory / MARKER).write_text(marker_text(written), encoding="utf-8")
    for file in files:
        path = directory / file.path
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        data = file.content.encode() if isinstance(file.content, str) else file.content
        path.write_bytes(data)
        written[file.path] = hashlib.sha256(data).hexdigest()
    (directory / MARKER).write_text(marker_text(written), encoding="utf-8")
    umask = os.umask(0)
    os.umask(umask)
    directory.chmod(0o777 & ~umask)  # mkdtemp makes private directories
