"""Writing an application: all of it or nothing, never over somebody else's files."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dory_core.codegen import replace as replacing
from dory_core.codegen.replace import MARKER, exchange, locked
from dory_core.codegen.writer import check_destination, check_files, write_application
from dory_core.errors import UsageError
from dory_core.hardware.target import OutputFile

OLD = (OutputFile("plan.json", "old"), OutputFile("src/a.c", "a"))
NEW = (OutputFile("plan.json", "new"), OutputFile("weights/w.c", b"w"))


def tree(directory: Path) -> dict[str, bytes]:
    files = (p for p in directory.rglob("*") if p.is_file())
    return {str(p.relative_to(directory)): p.read_bytes() for p in files}


def test_application_is_written_and_marked(tmp_path: Path) -> None:
    write_application(tmp_path / "deep" / "app", OLD)
    assert tree(tmp_path / "deep" / "app").keys() == {"plan.json", "src/a.c", MARKER}


def test_own_application_is_replaced_whole(tmp_path: Path) -> None:
    write_application(tmp_path / "app", OLD)
    write_application(tmp_path / "app", NEW)
    assert tree(tmp_path / "app").keys() == {"plan.json", "weights/w.c", MARKER}
    assert [p.name for p in tmp_path.iterdir()] == ["app"]


def test_empty_directory_is_used(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    write_application(tmp_path / "app", OLD)
    assert (tmp_path / "app" / "plan.json").read_text() == "old"


def test_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError) as caught:
        write_application(tmp_path / "app", NEW)
    assert "not written by dory" in caught.value.message
    assert tree(tmp_path) == {"app/thesis.tex": b"years of work"}


def test_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("a file")
    with pytest.raises(UsageError):
        write_application(tmp_path / "app", NEW)
    assert tree(tmp_path) == {"app": b"a file"}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_failure_while_writing_keeps_the_old_application(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_application(tmp_path / "app", OLD)
    before = tree(tmp_path)
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "w.c":
            raise OSError(code, os.strerror(code))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError) as caught:
        write_application(tmp_path / "app", NEW)
    assert os.strerror(code) in caught.value.message
    assert ("disk is full" in caught.value.hint) == (code == errno.ENOSPC)
    assert tree(tmp_path) == before


def systems(monkeypatch: pytest.MonkeyPatch, exchanges: bool) -> None:
    """Have the system exchange paths, or not."""
    if not exchanges:
        monkeypatch.setattr(replacing, "exchange", lambda first, second: False)
    elif not sys.platform.startswith("linux"):
        pytest.skip("this system does not exchange paths")


@pytest.mark.parametrize("inside", [False, True], ids=["beside", "inside"])
@pytest.mark.parametrize("exchanges", [True, False], ids=["exchange", "rename"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "I/O error"), KeyboardInterrupt()])
def test_failure_or_interrupt_at_any_rename_keeps_the_old_application(
    error: BaseException,
    exchanges: bool,
    inside: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    systems(monkeypatch, exchanges)
    write_application(tmp_path / "app", OLD)
    if inside:
        monkeypatch.chdir(tmp_path / "app")
    before = tree(tmp_path)
    moved, names = {"renames": 0}, ("rename", "replace", "exchange")
    originals = {name: getattr(os, name, None) or replacing.exchange for name in names}

    def failing(name: str, at: int) -> Callable[[Path, Path], object]:
        def move(source: Path, target: Path) -> object:
            moved["renames"] += 1
            if moved["renames"] == at:
                raise error
            return originals[name](source, target)

        return move

    for at in range(1, 30):
        moved["renames"] = 0
        with pytest.MonkeyPatch.context() as patch:
            for name in names:
                patch.setattr(os if name != "exchange" else replacing, name, failing(name, at))
            try:
                write_application(tmp_path / "app", NEW)
            except (UsageError, KeyboardInterrupt):
                assert tree(tmp_path) == before, f"after move {at}"
                continue
        break
    assert at > 1 and tree(tmp_path / "app").keys() == {"plan.json", "weights/w.c", MARKER}
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


KILLED = """
import os, signal, sys
from pathlib import Path
from dory_core.codegen import replace
from dory_core.codegen.writer import write_application
from dory_core.hardware.target import OutputFile
target, at, exchanges = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
done = 0
def dying(function):
    def move(*arguments):
        global done
        done += 1
        if done == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return move
replace.exchange = dying(replace.exchange if exchanges else lambda first, second: False)
os.rename, os.replace = dying(os.rename), dying(os.replace)
if sys.argv[4] == "True":
    os.chdir(target)
write_application(target, (OutputFile("plan.json", "new"), OutputFile("weights/w.c", b"w")))
"""


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("exchanges", [True, False], ids=["exchange", "rename"])
def test_who_is_killed_leaves_an_application(at: int, exchanges: bool, tmp_path: Path) -> None:
    if exchanges and not sys.platform.startswith("linux"):
        pytest.skip("this system does not exchange paths")
    app = tmp_path / "app"
    write_application(app, OLD)
    old = tree(app)
    command = [sys.executable, "-c", KILLED, str(app), str(at), str(exchanges), "False"]
    killed = subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert killed == (not exchanges or at == 1)
    if killed and exchanges:
        assert tree(app) == old
    check_destination(app)  # as the next start does
    assert tree(app) == old or tree(app).keys() == {"plan.json", "weights/w.c", MARKER}
    for left in tmp_path.iterdir():
        os.utime(left, (1, 1))
    write_application(app, OLD)
    assert tree(app) == old
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


KILLED_LATE = """
import os, signal, sys
from pathlib import Path
from dory_core.codegen.writer import write_application
from dory_core.hardware.target import OutputFile
left, function = int(sys.argv[2]), os.unlink
def dying(*arguments, **more):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*arguments, **more)
os.unlink = dying
write_application(Path(sys.argv[1]), [OutputFile("plan.json", "new")])
"""


@pytest.mark.parametrize("at", [1, 2, 3])
def test_who_is_killed_while_the_old_one_is_removed_leaves_what_is_removed_later(
    at: int, tmp_path: Path
) -> None:
    app = tmp_path / "app"
    write_application(app, OLD)
    command = [sys.executable, "-c", KILLED_LATE, str(app), str(at)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    for left in tmp_path.iterdir():
        os.utime(left, (1, 1))
    write_application(app, NEW)
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


@pytest.mark.parametrize("at", [3, 4, 5, 6])
def test_who_is_killed_inside_leaves_what_may_be_replaced(at: int, tmp_path: Path) -> None:
    app = tmp_path / "app"
    write_application(app, OLD)
    command = [sys.executable, "-c", KILLED, str(app), str(at), "True", "True"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with pytest.raises(UsageError, match="was interrupted"):
        check_files(app)
    write_application(app, NEW)
    check_files(app)
    assert tree(app).keys() == {"plan.json", "weights/w.c", MARKER}


def test_data_of_another_application_is_refused_and_edited_code_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ("plan.json", "vectors/input.bin", "weights/l3.bin", "src/a.c")
    write_application(tmp_path, [OutputFile(name, name) for name in files])
    check_files(tmp_path)
    (tmp_path / "src/a.c").write_text("/* a look inside */")
    check_files(tmp_path)
    assert "edited since dory wrote them: src/a.c" in caplog.text
    for name in files[:3]:
        (tmp_path / name).write_text("other")
        with pytest.raises(UsageError, match=f"{name} is not the file that dory wrote"):
            check_files(tmp_path)
        (tmp_path / name).write_text(name)


def test_markers_without_sums_are_read(tmp_path: Path) -> None:
    write_application(tmp_path, OLD)
    (tmp_path / MARKER).write_text("An application\nplan.json\nsrc/a.c\n")
    check_files(tmp_path)
    write_application(tmp_path, NEW)
    assert tree(tmp_path).keys() == {"plan.json", "weights/w.c", MARKER}


def test_at_no_moment_is_there_no_application(tmp_path: Path) -> None:
    app = tmp_path / "app"
    write_application(app, OLD)
    if not exchange(app, app):
        pytest.skip("this system does not exchange paths")
    done, missing = threading.Event(), []

    def watch() -> None:
        while not done.is_set():
            if not (app / "plan.json").is_file():
                missing.append(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(50):
        write_application(app, NEW)
    done.set()
    watcher.join()
    assert not missing


def test_only_what_is_ours_and_abandoned_is_removed(tmp_path: Path) -> None:
    app = tmp_path / "app"
    living, dead, mine, other = (tmp_path / f".app.{c * 8}" for c in "abcd")
    write_application(tmp_path / ".app.keep", OLD)
    for folder in (living, dead, mine):
        folder.mkdir()
    for folder in (living, dead):
        (folder / MARKER).write_text("x\n")
    other.write_text("a file")
    (mine / "notes.txt").write_text("x")
    (dead / "half").write_text("x")
    for folder in (living, dead, mine):
        os.utime(folder, (1, 1))
    with locked(living):
        write_application(app, OLD)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [living.name, mine.name, other.name, ".app.keep", "app"]


def test_full_disk_for_real(tmp_path: Path) -> None:
    """A file system of a few kB, where the kernel can lend one."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    may = os.geteuid() == 0 and shutil.which("mount")
    if not may or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        write_application(mount / "app", OLD)
        before = tree(mount)
        with pytest.raises(UsageError) as caught:
            write_application(mount / "app", [OutputFile("big.bin", bytes(200_000))])
        assert "disk is full" in caught.value.hint
        assert tree(mount) == before
    finally:
        subprocess.run(["umount", str(mount)], check=True)
