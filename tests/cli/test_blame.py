"""Limits and habits of the shell that dory is started from are blamed on nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dory_core.__main__ import main
from dory_core.cli import main as cli_main
from dory_core.errors import ToolMissing
from dory_core.simulate import run as run_module
from dory_core.simulate.compiler import Compiler, probe_sanitizer
from dory_core.simulate.process import subprocess as processes
from tests.cli.command_line import environment

DORY = [sys.executable, "-m", "dory_core"]


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command], cwd=cwd, env=environment(), capture_output=True, text=True
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", ">&-", "2>&-", "<&-"])
def test_closed_streams_are_no_bug_and_become_no_file(
    closed: str, application: Path, tmp_path: Path
) -> None:
    done = shell(f"{sys.executable} -m dory_core run {application} {closed}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_closed_stream_hides_no_wrong_use(tmp_path: Path) -> None:
    wrong = shell(f"{sys.executable} -m dory_core run nothing >&-", tmp_path)
    assert wrong.returncode == 2 and "nothing is no directory" in wrong.stderr


def test_few_file_descriptors_are_not_a_missing_compiler(
    application: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dory_core.simulate import compiler

    def full(*_: object, **__: object) -> None:
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(compiler.subprocess, "run", full)
    with pytest.raises(OSError, match="Too many open files"):
        compiler._run("cc", "--version")
    from dory_core.cli.common import report_error

    assert report_error(OSError(24, os.strerror(24))) == 2


def test_an_interrupt_while_dory_is_loaded_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [*DORY, "plugins"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == -signal.SIGINT
    assert done.stdout == done.stderr == ""


def test_an_interrupt_at_the_first_import_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "signal.py").write_text("import os\nos.kill(os.getpid(), 2)\n")
    done = subprocess.run(
        [*DORY, "plugins"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == 130
    assert done.stdout == done.stderr == ""


DROPPED = """\
import signal, time, weakref
from dory_core.__main__ import main
from dory_core.cli.main import app

class Loaded:
    pass

def dropped() -> None:
    loaded = Loaded()
    keeper = weakref.ref(loaded, lambda _: signal.raise_signal(signal.SIGINT))
    del loaded
    time.sleep(30)

signal.signal(signal.SIGINT, signal.default_int_handler)
app.command("dropped")(dropped)
main()
"""


def test_an_interrupt_in_a_callback_ends_the_command() -> None:
    """Python prints and forgets it, as it does now and then while modules are imported."""
    command = [sys.executable, "-c", DROPPED, "dropped"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (130, "dory: interrupted\n")


def test_an_interrupt_between_loading_and_running_is_status_130(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_main, "main", interrupted)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


@pytest.mark.parametrize(
    "report",
    [
        "==1==ERROR: AddressSanitizer failed to allocate 0xdfff0001000 bytes of LowShadow",
        "==1==ReserveShadowMemoryRange failed while trying to map 0xdfff0001000 bytes. Perhaps "
        "you're using ulimit -v",
        "FATAL: ThreadSanitizer: unexpected memory mapping 0x5c6a-0x5c6b",
    ],
)
def test_a_sanitizer_without_memory_is_a_missing_tool(
    report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess(["app"], 1, "", f"{report}\n")
    monkeypatch.setattr(processes, "run", lambda *_, **__: failed)
    with pytest.raises(ToolMissing, match="cannot reserve the memory"):
        run_module._execute(["app"], tmp_path, 1.0)


def test_a_probe_without_memory_says_so(tmp_path: Path) -> None:
    """The thread sanitizer of gcc ends so under `ulimit -v`, before the application is built."""
    report = "ThreadSanitizer: CHECK failed: sanitizer_allocator_primary64.h:131 address_range.Init"
    compiler = tmp_path / "cc"
    compiler.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n'
        f'printf "#!/bin/sh\\necho {report} >&2; exit 1\\n" > "$2"; chmod +x "$2"\n'
    )
    compiler.chmod(0o755)
    with pytest.raises(ToolMissing, match="cannot reserve the memory"):
        probe_sanitizer(Compiler((str(compiler),), "1"), "thread")


def test_an_exception_in_a_plugin_names_it_and_the_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dory_core.cli import blame
    from dory_core.cli.common import report_error
    from dory_core.plugins.discovery import FoundPlugin, PluginState

    state = PluginState("dory-acme", "1.2", "acme", "loaded")
    found = FoundPlugin(state, "acme_dory.plugin:it", False, lambda: None)
    monkeypatch.setattr(blame, "installed", lambda: [found])
    names: dict[str, object] = {"__name__": "acme_dory.kernels"}
    code = "import json\ndef cycles(layer):\n    return json.loads(layer)\n"
    exec(compile(code, "/somewhere/kernels.py", "exec"), names)
    try:
        names["cycles"]("{")  # type: ignore[operator]
    except ValueError as error:
        assert report_error(error) == 1
    stderr = capsys.readouterr().err
    assert "(acme_dory/kernels.py, line 3, in cycles())\n" in stderr
    assert "this is a bug in plugin acme (dory-acme 1.2), not in your network" in stderr
    try:
        raise KeyError("h")
    except KeyError as error:
        assert report_error(error) == 1
    assert "this is a bug in dory, not in your network" in capsys.readouterr().err
