"""Writing an application: all of it or nothing, never over somebody else's files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dory_core.codegen.writer import MARKER, write_application
from dory_core.errors import UsageError
from dory_core.hardware import OutputFile

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


@pytest.mark.parametrize("error", [OSError(errno.EIO, "I/O error"), KeyboardInterrupt()])
def test_failure_or_interrupt_while_renaming_keeps_the_old_application(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_application(tmp_path / "app", OLD)
    before = tree(tmp_path)
    rename = os.rename

    def fail(source: Path, target: Path) -> None:
        if Path(target).name == "app" and Path(source).name != "application":
            raise error
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises((UsageError, KeyboardInterrupt)):
        write_application(tmp_path / "app", NEW)
    assert tree(tmp_path) == before


def test_full_disk_for_real(tmp_path: Path) -> None:
    """A file system of a few kB, where the kernel can lend one."""
    import subprocess

    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
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
