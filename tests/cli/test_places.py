"""Where applications and files lie: odd paths, links, read-only and full places, interrupts."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dory_core.codegen import writer
from dory_core.codegen.replace import in_use, is_in_use
from dory_core.driver.application import run_application
from dory_core.errors import UsageError
from dory_core.plugins.manager import Plugins
from dory_core.testing.sanitizers import require_sanitizer
from tests.cli.command_line import dory, environment

#: As root without the privilege to write everywhere, otherwise as oneself.
UNPRIVILEGED = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all")


def tree(directory: Path) -> dict[str, bytes]:
    files = (p for p in directory.rglob("*") if p.is_file())
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in files}


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 kB; skips where none can be mounted."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(mount)]
    may = os.geteuid() == 0 and shutil.which("mount")
    if not may or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


@pytest.fixture
def copy(application: Path, tmp_path: Path) -> Path:
    """An application of one's own, at another place than where it was written."""
    return Path(shutil.copytree(application, tmp_path / "copy"))


def test_spaces_unicode_and_slashes_in_paths(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "spa ce" / "nêt 1.onnx"
    odd.parent.mkdir()
    shutil.copy(net, odd)
    outcome = dory(*pipeline, odd, "-o", f"{tmp_path}/ä p p/", cwd=tmp_path)
    assert outcome.status == 0, outcome.stderr
    assert f"dory run '{tmp_path}/ä p p'" in outcome.stdout
    assert dory("run", "ä p p/", cwd=tmp_path).status == 0


def test_application_can_be_moved_and_run_twice_at_once(copy: Path) -> None:
    command = [sys.executable, "-m", "dory_core.cli.main", "run", str(copy), "--json"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(command, env=environment(), **options) for _ in range(2)]  # type: ignore[call-overload]
    outputs = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert outputs[0] == outputs[1]


def test_edited_source_is_built_again(copy: Path) -> None:
    assert dory("run", copy).status == 0
    source = copy / "src" / "network.c"
    text = source.read_text()
    source.write_text(f"{text}\n#error edited\n")
    outcome = dory("run", copy)
    assert outcome.status == 1
    assert "src/network.c" in outcome.stderr and "edited" in outcome.stderr
    source.write_text(text)
    assert dory("run", copy).status == 0


@pytest.fixture
def unprivileged() -> tuple[str, ...]:
    """The start of a command that may write only where permissions allow it."""
    if os.geteuid() != 0:
        return ()
    if shutil.which(UNPRIVILEGED[0]) is None:
        pytest.skip("root can write everywhere here")
    return UNPRIVILEGED


def run_behind(
    prefix: tuple[str, ...], application: Path, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Let a command run ``dory run``; extra: environment variables."""
    command = [*prefix, sys.executable, "-m", "dory_core.cli.main", "run", str(application)]
    return subprocess.run(
        command,
        env=environment() | extra,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_read_only_application_runs_and_stays_as_it_is(
    unprivileged: tuple[str, ...], copy: Path, tmp_path: Path
) -> None:
    shutil.rmtree(copy / "build", ignore_errors=True)
    before = tree(copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        result = run_behind(unprivileged, copy)
        assert result.returncode == 0, result.stderr
        assert tree(copy) == before
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.sample(2)
@pytest.mark.parametrize("made", ["cache", "cache/objects"])
def test_read_only_cache_is_status_2_and_says_how_to_choose_another(
    unprivileged: tuple[str, ...], application: Path, tmp_path: Path, made: str
) -> None:
    folder = tmp_path / made
    folder.mkdir(parents=True)
    folder.chmod(0o555)
    result = run_behind(unprivileged, application, DORY_CACHE=str(tmp_path / "cache"))
    assert result.returncode == 2
    assert f"the cache {tmp_path / 'cache/objects'} cannot be" in result.stderr
    assert "hint: let the environment variable DORY_CACHE name" in result.stderr


def test_arenas_beyond_the_memory_of_this_machine_are_status_4(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    app = tmp_path / "app"
    larger = ("--l1", "4294967295", "--not-deployable-ok")
    assert dory(*pipeline, net, "-o", app, *larger, "-q").status == 0
    result = run_behind(("sh", "-c", 'ulimit -v 3000000; exec "$@"', "sh"), app)
    assert result.returncode == 4, result.stderr
    assert "no memory for L1 of 4294967295 bytes" in result.stderr
    assert "hint: this machine has too little memory" in result.stderr


def test_symbolic_link_keeps_pointing(pipeline: tuple[str, ...], net: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "app")
    for _ in range(2):
        assert dory(*pipeline, net, "-o", link).status == 0
        assert link.is_symlink()
        assert (tmp_path / "real" / "app" / "plan.json").is_file()


def test_current_directory_can_be_the_output_again_and_again(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    here = tmp_path / "app"
    here.mkdir()
    inode = here.stat().st_ino
    first = None
    for _ in range(2):
        outcome = dory(*pipeline, net, "-o", ".", cwd=here)
        assert outcome.status == 0, outcome.stderr
        assert here.stat().st_ino == inode  # a shell that stands here still does
        assert first in (None, tree(here))
        first = tree(here)
    assert [p.name for p in tmp_path.iterdir()] == ["app"]


def test_application_that_holds_foreign_files_is_not_replaced(
    pipeline: tuple[str, ...], net: Path, copy: Path
) -> None:
    shutil.copy(net, copy / "src" / "mine.onnx")
    before = tree(copy)
    outcome = dory(*pipeline, copy / "src" / "mine.onnx", "-o", copy)
    assert outcome.status == 2
    assert "src/mine.onnx, which dory did not write" in outcome.stderr
    inside = dory(*pipeline, net, "-o", copy / "src" / "app")
    assert inside.status == 2
    assert "lies inside the application" in inside.stderr
    assert tree(copy) == before


@pytest.mark.parametrize("name", ["a" * 300, "loop/app"])
def test_impossible_names_are_status_2(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    outcome = dory(*pipeline, net, "-o", tmp_path / name)
    assert outcome.status == 2, outcome.stderr
    assert "cannot write" in outcome.stderr and "hint:" in outcome.stderr


def test_full_disk_is_status_2_and_leaves_nothing(
    pipeline: tuple[str, ...], net: Path, application: Path, full_disk: Path
) -> None:
    outcome = dory(*pipeline, net, "-o", full_disk / "new" / "app")
    assert outcome.status == 2
    assert "disk is full" in outcome.stderr
    assert list(full_disk.iterdir()) == []
    dumped = dory("run", application, "--dump", full_disk / "dump", "--repeat", "9")
    assert dumped.status == 2, dumped.stderr
    assert "cannot write dumps" in dumped.stderr
    shutil.rmtree(full_disk / "dump")
    built = dory("run", application, "--sanitize", "undefined", DORY_CACHE=str(full_disk / "cache"))
    if built.status != 6:  # a compiler without that sanitizer writes nothing
        assert built.status == 2, built.stderr
        assert "No space left on device" in built.stderr


def test_full_place_of_temporary_files_is_said_when_sanitizers_are_probed(
    application: Path, full_disk: Path
) -> None:
    require_sanitizer("undefined")
    with (full_disk / "full").open("wb") as file, contextlib.suppress(OSError):
        file.write(bytes(1 << 20))
    outcome = dory("run", application, "--sanitize", "undefined", TMPDIR=str(full_disk))
    assert outcome.status == 2, outcome.stderr
    assert "No space left on device" in outcome.stderr and "TMPDIR" in outcome.stderr


def test_an_application_that_is_run_is_not_replaced(
    pipeline: tuple[str, ...], net: Path, copy: Path
) -> None:
    before = tree(copy)
    with in_use(copy), in_use(copy):  # several may run it
        outcome = dory(*pipeline, net, "-o", copy)
    assert outcome.status == 2
    assert f"another process builds or runs {copy} at the moment" in outcome.stderr
    assert tree(copy) == before
    assert dory(*pipeline, net, "-o", copy).status == 0


def test_a_run_says_that_its_application_is_in_use(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(directory: Path) -> None:
        seen.append(is_in_use(directory))
        raise UsageError("seen")

    monkeypatch.setattr(writer, "check_files", look)
    with pytest.raises(UsageError, match="seen"):
        run_application(copy, plugins=Plugins())
    assert seen == [True] and not is_in_use(copy)


def test_an_old_application_that_cannot_be_removed_is_named(
    unprivileged: tuple[str, ...], pipeline: tuple[str, ...], net: Path, copy: Path
) -> None:
    (copy / "src").chmod(0o555)
    command = [*unprivileged, sys.executable, "-m", "dory_core.cli.main", *pipeline, str(net)]
    done = subprocess.run(
        [*command, "-o", str(copy)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    left = [path for path in copy.parent.iterdir() if path != copy]
    for path in left:
        (path / "src").chmod(0o755)
    assert (done.returncode, len(left)) == (0, 1), done.stderr
    assert f"the previous application could not be removed and remains as {left[0]}" in done.stderr


@pytest.mark.parametrize("place", ["dump", "cache"])
def test_file_in_the_place_of_a_directory_is_status_2(
    application: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    options = ("--dump", tmp_path / "file") if place == "dump" else ()
    extra = {"DORY_CACHE": str(tmp_path / "file")} if place == "cache" else {}
    outcome = dory("run", application, *options, **extra)
    assert outcome.status == 2, outcome.stderr
    assert str(tmp_path / "file") in outcome.stderr and "hint:" in outcome.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "shares",
    [(0.0, 0.5), pytest.param((0.0, 0.2, 0.4, 0.6, 0.8, 0.9), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_interrupted_compilation_keeps_the_old_application(
    pipeline: tuple[str, ...],
    net: Path,
    copy: Path,
    number: signal.Signals,
    shares: tuple[float, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Interrupt at shares of the time between the first stage's result and the end.

    -N: when Python was already ending.
    """
    shutil.rmtree(copy / "build", ignore_errors=True)
    stages = tmp_path_factory.mktemp("dump") / "stages"
    command = [sys.executable, "-m", "dory_core.cli.main", *pipeline, str(net), "-o", str(copy)]
    command += ["--dump-stages", str(stages)]
    running, imported = _imported(command, stages)
    assert running.wait(timeout=60) == 0
    duration = time.perf_counter() - imported
    before = tree(copy)
    statuses = []
    for share in shares:
        process, _ = _imported(command, stages)
        time.sleep(share * duration)
        process.send_signal(number)
        statuses.append(process.wait(timeout=60))
        assert [p.name for p in copy.parent.iterdir()] == ["copy"]
        assert tree(copy) == before  # the same network gives the same application
    assert set(statuses) <= {0, 128 + number, -number, 1}
    assert statuses[0] == 128 + number


def _imported(command: list[str], stages: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start a compilation that dumps its stages; return it when the first one has ended."""
    shutil.rmtree(stages, ignore_errors=True)
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment(), stdout=null, stderr=null)
    while not stages.exists():
        assert process.poll() is None, "ended before its first stage"
        time.sleep(0.001)
    return process, time.perf_counter()
