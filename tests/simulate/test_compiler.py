"""The compiler is found or its absence explained; sanitizers are believed only when they work."""

from __future__ import annotations

import os
import stat
import subprocess
from itertools import cycle
from pathlib import Path

import pytest

from dory_core.errors import DoryError, ToolMissing, UsageError
from dory_core.simulate import build as build_module
from dory_core.simulate import compiler as compiler_module
from dory_core.simulate.build import UNSET, build
from dory_core.simulate.cache import ObjectCache, cache_dir, cache_use, cached_file, clean_cache
from dory_core.simulate.compiler import Compiler, find_compiler, probe_sanitizer
from dory_core.testing.sanitizers import require_sanitizer

from .mini import write_app


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_no_compiler_is_exit_6_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiler_module.importlib.util, "find_spec", lambda name: None)
    compiler_module._identify.cache_clear()
    try:
        with pytest.raises(ToolMissing, match="no C compiler found") as caught:
            find_compiler()
    finally:
        compiler_module._identify.cache_clear()
    assert caught.value.exit_code == 6
    assert "pip install ziglang" in caught.value.hint


def test_cc_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc -m64")
    with pytest.raises(ToolMissing, match="/nowhere/cc -m64"):
        find_compiler()


def test_cc_comes_first_and_may_have_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = script(tmp_path / "mycc", "echo fake 1.0")
    monkeypatch.setenv("CC", f"{fake} -m32")
    found = find_compiler()
    assert found.command == (str(fake), "-m32")
    assert found.version == "fake 1.0"


@pytest.mark.parametrize("name", ["address", "undefined", "thread"])
def test_sanitizer_that_is_accepted_and_does_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A compiler that drops -fsanitize, as some do."""
    real = find_compiler().name
    fake = script(
        tmp_path / "mute",
        f'for a in "$@"; do shift; case "$a" in -fsanitize*) ;; *) set -- "$@" "$a";; esac; done\n'
        f'exec {real} "$@"',
    )
    monkeypatch.setenv("CC", str(fake))
    with pytest.raises(ToolMissing, match=f"the {name} sanitizer of .*mute") as caught:
        build(write_app(tmp_path / "app"), name)
    assert caught.value.exit_code == 6


def test_sanitizer_that_does_not_link_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = script(
        tmp_path / "nosan",
        'case "$*" in *-fsanitize*) exit 1;; *--version*) echo 1;; esac',
    )
    monkeypatch.setenv("CC", str(fake))
    with pytest.raises(ToolMissing, match="the address sanitizer"):
        probe_sanitizer(find_compiler(), "undefined,address")


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An empty cache, and the sources that builds compile from then on."""
    monkeypatch.setenv("DORY_CACHE", str(tmp_path / "cache"))
    seen: list[str] = []
    call = build_module._call

    def spy(command: list[str], cwd: Path, what: str, also: str = "") -> None:
        if "-c" in command:
            seen.append(command[command.index("-c") + 1])
        else:
            seen.append("link")
        call(command, cwd, what, also)

    monkeypatch.setattr(build_module, "_call", spy)
    return seen


def test_a_flag_is_asked_for(tmp_path: Path) -> None:
    old = script(tmp_path / "old", 'case "$*" in *pattern*) exit 1;; esac; echo old 1')
    compiler = Compiler((str(old),), "1")
    assert compiler.accepts("-O1") and not compiler.accepts(UNSET)


def test_objects_are_shared_between_applications(tmp_path: Path, compiled: list[str]) -> None:
    build(write_app(tmp_path / "a"))
    assert "hal/host/sim_transfer.c" in compiled
    compiled.clear()
    build(write_app(tmp_path / "b", {"TILE / 5": "TILE/5"}))
    assert compiled == ["src/network.c", "link"]
    compiled.clear()
    build(tmp_path / "b")
    assert compiled == []


def test_change_of_a_header_recompiles_who_includes_it(tmp_path: Path, compiled: list[str]) -> None:
    app = write_app(tmp_path / "a")
    build(app)
    compiled.clear()
    header = app / "src/network.h"
    header.write_text(header.read_text().replace("DORY_CORES 4", "DORY_CORES 8"))
    build(app)
    assert sorted(compiled) == ["hal/host/main_host.c", "link", "src/network.c"]
    compiled.clear()
    header = app / "hal/host/dory_sim.h"  # reached through sim_internal.h
    header.write_text(header.read_text() + "\n")
    build(app)
    assert {"hal/host/main_host.c", "hal/host/sim_memory.c", "link"} <= set(compiled)
    assert "src/network.c" not in compiled


@pytest.mark.slow
def test_what_is_damaged_is_made_again(tmp_path: Path, compiled: list[str]) -> None:
    app = write_app(tmp_path / "a")
    program = build(app)
    everything = sorted(compiled)
    for how in ("truncated", "flipped", "empty"):
        _damage(program, how)
        compiled.clear()
        assert build(app) == program
        assert compiled == ["link"]
    for file, how in zip(sorted((tmp_path / "cache/objects").glob("*.o")), cycle(DAMAGES)):
        _damage(file, how)
    program.unlink()
    compiled.clear()
    assert subprocess.run([build(app)], cwd=app, capture_output=True).returncode == 0
    assert sorted(compiled) == everything


DAMAGES = ("truncated", "flipped", "empty", "no checksum")


def _damage(file: Path, how: str) -> None:
    data = bytearray(file.read_bytes())
    if how == "no checksum":
        file.with_name(f"{file.name}.sum").unlink()
    elif how == "flipped":
        data[len(data) // 2] ^= 16
    else:
        del data[len(data) // 2 if how == "truncated" else 0 :]
    file.write_bytes(data)


def test_a_failing_link_names_the_cache(tmp_path: Path, compiled: list[str]) -> None:
    app = write_app(tmp_path)
    (app / "src/network.c").write_text("int nothing_that_main_needs;\n")
    with pytest.raises(DoryError) as caught:
        build(app)
    assert str(tmp_path / "cache/objects") in caught.value.hint
    assert "dory cache clean" in caught.value.hint


@pytest.mark.sanitizer
def test_variants_lie_side_by_side(tmp_path: Path) -> None:
    require_sanitizer("address,undefined")
    app = write_app(tmp_path)
    plain = build(app)
    assert plain == (app / "build/host/app").resolve()
    checked = build(app, "undefined,address")
    assert checked == (app / "build/host-address-undefined/app").resolve()
    assert plain.is_file()


def test_cache_forgets_what_was_not_used_for_longest(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, limit_bytes=1000)
    for age, key in enumerate("abcd"):
        scratch = cache.scratch()
        scratch.write_bytes(bytes(300))
        cache.store(key, scratch)
        os.utime(cache.path(key), (1000 + age, 1000 + age))
    assert cache.has("a")  # used now
    cache.prune()
    assert [key for key in "abcd" if cache.has(key)] == ["a", "d"]
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert left == {"a.o", "a.o.sum", "d.o", "d.o.sum"}


def test_cache_is_looked_through_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each build that compiles something would look at all files otherwise."""
    cache = ObjectCache(tmp_path, limit_bytes=0)
    looks = 0
    real = os.scandir

    def counted(folder: Path) -> object:
        nonlocal looks
        looks += 1
        return real(folder)

    monkeypatch.setattr(os, "scandir", counted)
    for _ in range(5):
        cache.prune()
    assert looks == 1
    os.utime(tmp_path / ".pruned", (1000, 1000))
    cache.prune()
    assert looks == 2


def test_cache_directory_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DORY_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("DORY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_dir() == tmp_path / "x/dory"


def test_user_without_a_home_is_told_to_name_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DORY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(UsageError) as caught:
        cache_dir()
    assert "no home" in caught.value.message and "DORY_CACHE" in caught.value.hint


def test_a_damaged_file_of_the_cache_is_made_again(tmp_path: Path) -> None:
    made = []

    def make(file: Path) -> None:
        made.append(file)
        file.write_text("text")

    path = cached_file(tmp_path / "folder" / "file.js", make)
    assert cached_file(path, make).read_text() == "text" and len(made) == 1
    path.write_text("te")
    assert cached_file(path, make).read_text() == "text" and len(made) == 2
    assert sorted(file.name for file in path.parent.iterdir()) == ["file.js", "file.js.sum"]


def test_cleaning_the_cache_leaves_what_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DORY_CACHE", str(tmp_path))
    (tmp_path / "mine").write_text("x")
    cached_file(tmp_path / "objects" / "a.o", lambda file: file.write_bytes(b"abc") and None)
    assert [(use.folder, use.files) for use in cache_use() if use.files] == [("objects", 2)]
    clean_cache()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert sum(use.bytes for use in cache_use()) == 0
    clean_cache()
