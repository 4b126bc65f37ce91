"""Wrong usage ends with status 2 and a sentence; nothing ends with a traceback."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from dory_core import __version__
from dory_core.cli.common import byte_size, key_values
from dory_core.cli.main import expand
from dory_core.errors import UsageError
from tests.cli.command_line import EXAMPLE, dory, environment, python

NET = str(EXAMPLE / "net.onnx")
BOTH = ["--target", "t", "--frontend", "f"]


@pytest.mark.parametrize(
    ("arguments", "expanded"),
    [
        (["run", "app"], ["run", "app"]),
        (["--target", "x", "net.onnx"], ["compile", "--target", "x", "net.onnx"]),
        (["net.onnx", "-o", "x"], ["compile", "net.onnx", "-o", "x"]),
        (["--debug", "-v", "run", "app"], ["run", "--debug", "-v", "app"]),
        (["-q", "--target", "x"], ["compile", "-q", "--target", "x"]),
        (["--help"], ["--help"]),
        (["--debug", "--version"], ["--version"]),
        (["plugins", "--json"], ["plugins", "--json"]),
        ([], []),
    ],
)
def test_compile_is_the_command_that_is_meant(arguments: list[str], expanded: list[str]) -> None:
    assert expand(arguments) == expanded


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        ("64k", 65536),
        ("64kB", 65536),
        ("64KiB", 65536),
        ("2M", 2 << 20),
        ("1 mib", 1 << 20),
        ("100b", 100),
        ("1", 1),
    ],
)
def test_sizes_have_units_of_1024(text: str, size: int) -> None:
    assert byte_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "0", "1.5k", "64q", "k", "0x10", "1e3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="no size"):
        byte_size(text)


def test_settings_split_at_the_first_equals_sign() -> None:
    assert key_values(["a=1", "b=x=y", "a=2", "c="]) == {"a": "2", "b": "x=y", "c": ""}
    with pytest.raises(UsageError, match="KEY=VALUE, not 'cores'"):
        key_values(["cores"])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["unheard-of"], ["unheard-of"]),
        (["--target"], ["--target"]),
        ([NET], ["--target"]),
        ([NET, "--target", "t"], ["no frontend is there", "`dory plugins`"]),
        (
            [NET, "--frontend"],
            ["dory: error: option '--frontend' requires", "`dory compile --help`"],
        ),
        ([*BOTH, NET, "--l1", "much"], ["--l1", "'much' is no size"]),
        (
            [*BOTH, NET, "--objective", "beauty"],
            ["error: invalid value for '--objective': 'beauty' is not"],
        ),
        ([*BOTH, NET, "--layer", "-1"], ["--layer"]),
        ([*BOTH, NET, "--set", "novalue"], ["KEY=VALUE", "'novalue'", "`dory targets`"]),
        ([*BOTH, NET, "--kernels", "a", "--set", "kernels=b"], ["--kernels", "leave one"]),
        ([*BOTH, "nothing.onnx"], ["network nothing.onnx does not exist"]),
        ([*BOTH, str(EXAMPLE)], ["is a directory"]),
        ([*BOTH, NET, "--input", "nothing.txt"], ["input nothing.txt does not exist"]),
        (["run", "/nonexistent"], ["/nonexistent"]),
        (["run", str(EXAMPLE)], [str(EXAMPLE), "plan.json"]),
        (["run", "app", "--dma", "never"], ["--dma"]),
        (["run", "app", "--repeat", "0"], ["--repeat"]),
        (["check", NET], ["no frontend is there"]),
        (["check", NET, "--frontend", "f", "--l1", "1k"], ["those of a target", "--target NAME"]),
        (["check", NET, "--frontend", "f", "--set", "a=b"], ["those of a target"]),
    ],
    ids=lambda value: " ".join(Path(v).name for v in value),
)
def test_wrong_usage_is_status_2_with_a_reason(arguments: list[str], words: list[str]) -> None:
    outcome = dory(*arguments, DORY_PLUGINS="")
    assert outcome.status == 2, outcome.stderr
    assert outcome.stdout == ""
    assert "Traceback" not in outcome.stderr
    for word in words:
        assert word in outcome.stderr


@pytest.mark.parametrize("command", [(), ("check",), ("--target", "toy")])
def test_an_application_in_the_place_of_a_network(
    application: Path, command: tuple[str, ...]
) -> None:
    outcome = dory(*command, application)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert f"{application} is an application that dory wrote, not a network" in outcome.stderr
    assert f"`dory run {application}` runs it" in outcome.stderr


def test_a_directory_in_the_place_of_a_network(tmp_path: Path) -> None:
    outcome = dory(tmp_path)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert f"{tmp_path} is a directory, not the file of a network" in outcome.stderr
    assert "dory --target NAME NETWORK" in outcome.stderr


@pytest.mark.parametrize("name", ["TOY", "tyo", "toy1"])
def test_a_name_that_is_nearly_right_is_suggested(net: Path, name: str) -> None:
    outcome = dory(net, "--target", name, "--frontend", "plain")
    assert outcome.status == 2
    assert "hint: did you mean toy?" in outcome.stderr


def test_the_least_l1_of_the_hint_does_for_every_layer(net: Path) -> None:
    command = (net, "--target", "toy", "--frontend", "plain", "--plan-only", "--l1")
    refused = dory(*command, "100")
    assert refused.status == 4
    [needed] = re.findall(r"raise the L1 budget to (\d+) bytes", refused.stderr)
    assert dory(*command, needed).status == 0
    assert dory(*command, str(int(needed) - 1)).status == 4


@pytest.mark.parametrize("command", [("--target", "toy"), ("check",)])
def test_a_file_of_no_known_format_is_status_3(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "net.foo").write_text("hello")
    outcome = dory(*command, tmp_path / "net.foo")
    assert (outcome.status, outcome.stdout) == (3, "")
    assert "no frontend recognises this file" in outcome.stderr


@pytest.mark.parametrize("kind", ["target", "frontend"])
def test_unknown_names_are_status_2(kind: str) -> None:
    command = [NET, "--target", "nochip", "--frontend", "nodialect", "--plan-only"]
    if kind == "frontend":
        command = ["check", NET, "--frontend", "nodialect"]
    outcome = dory(*command, DORY_PLUGINS="")
    assert outcome.status == 2
    assert f"unknown {kind}" in outcome.stderr
    assert "hint:" in outcome.stderr


@pytest.mark.parametrize("command", ["compare", "report"])
def test_a_command_of_a_package_that_is_missing_names_the_package(command: str) -> None:
    code = (
        "import sys; from importlib import metadata; from dory_core.cli import main\n"
        "metadata.distributions = lambda **query: iter(())\n"
        "main.main(sys.argv[1:])"
    )
    outcome = python("-c", code, command, "something", env=environment())
    assert outcome.status == 6, outcome.stderr
    assert f"`dory {command}` is a command of the package dory-report" in outcome.stderr
    assert "hint: pip install dory-report" in outcome.stderr


def test_version() -> None:
    outcome = dory("--version")
    assert (outcome.status, outcome.stdout) == (0, f"dory {__version__}\n")


def test_no_arguments_show_the_help() -> None:
    outcome = dory()
    assert "Usage: dory" in outcome.stdout + outcome.stderr
    assert "compile" in outcome.stdout + outcome.stderr
    commands = (outcome.stdout + outcome.stderr).partition("\nCommands:\n")[2]
    assert "..." not in commands, "each command is described in one line"


@pytest.mark.parametrize("command", ["compile", "run", "check", "targets", "frontends", "plugins"])
def test_every_command_has_help_and_debug(command: str) -> None:
    outcome = dory(command, "--help")
    assert outcome.status == 0
    assert "--debug" in outcome.stdout


def test_help_answers_in_under_300_ms() -> None:
    """CPU time is the wall time of an idle machine, and does not depend on what else runs."""
    best = min(_cpu_seconds("--help") for _ in range(5))
    assert best < 0.3


def _cpu_seconds(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert dory(*arguments).status == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


CRASH = """
import sys
from dory_core.cli import common, main, plugins
def fail(document):
    raise {error}
plugins.print_json = fail
main.main(sys.argv[1:])
"""


def _crash(error: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CRASH.format(error=error), "plugins", "--json", *arguments],
        env=environment() | {"DORY_PLUGINS": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_unexpected_exception_is_a_bug_in_dory() -> None:
    result = _crash("IndexError('list index\\nout of range')")
    assert result.returncode == 1
    assert "dory: error: IndexError: list index out of range\n" in result.stderr
    assert "bug in dory" in result.stderr
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback_of_any_error() -> None:
    result = _crash("IndexError('x')", "--debug")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "in fail" in result.stderr
    usage = dory("--debug", "run", "/nonexistent")
    assert usage.status == 2
    assert "Traceback" in usage.stderr


def test_interrupt_is_status_130() -> None:
    result = _crash("KeyboardInterrupt")
    assert result.returncode == 130
    assert "Traceback" not in result.stderr


def test_interrupt_signal_is_status_130() -> None:
    wait = "(print('ready', flush=True), __import__('time').sleep(60))"
    process = subprocess.Popen(
        [sys.executable, "-c", CRASH.format(error=f"ValueError({wait})"), "plugins", "--json"],
        env=environment() | {"DORY_PLUGINS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr


@pytest.mark.parametrize("arguments", [["plugins"], ["plugins", "--json"], ["targets"]])
def test_closed_pipe_is_quiet(arguments: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dory_core.cli.main", *arguments],
        env=environment() | {"DORY_PLUGINS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    stderr = process.stderr.read()
    assert process.wait(timeout=60) == 141
    assert stderr == ""


@pytest.mark.parametrize("arguments", [("-h",), ("compile", "-h"), ("run", "-h")])
def test_help_has_a_short_name(arguments: tuple[str, ...]) -> None:
    assert dory(*arguments).stdout == dory(*arguments[:-1], "--help").stdout != ""


def test_dory_is_a_module_that_runs() -> None:
    outcome = python("-m", "dory_core", "--version", env=environment())
    assert (outcome.status, outcome.stdout) == (0, f"dory {__version__}\n")


@pytest.mark.parametrize(
    ("words", "offered"),
    [("dory comp", "compile"), ("dory compile --targ", "--target"), ("dory net.onnx --l1", "--l1")],
)
def test_the_shell_completes_commands_and_options(words: str, offered: str) -> None:
    position = str(len(words.split()) - 1)
    asked = {"COMP_WORDS": words, "COMP_CWORD": position, "_DORY_COMPLETE": "complete_bash"}
    assert offered in dory(**asked).stdout.split()


def completed(words: str) -> list[str]:
    """Return what bash is offered for a line whose last word is being written."""
    line = words.split(" ")
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(line) - 1)}
    return dory(**asked, _DORY_COMPLETE="complete_bash").stdout.split()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("dory --target ", "toy"),
        ("dory net.onnx -t to", "toy"),
        ("dory check net.onnx --target t", "toy"),
        ("dory compile net.onnx --frontend ", "plain"),
        ("dory --list-operators --frontend pl", "plain"),
        ("dory net.onnx --target toy --set cor", "cores="),
        ("dory net.onnx --target toy --set keep_constant_channels = ", "on off"),
        ("dory net.onnx --target toy --set keep_constant_channels = of", "off"),
    ],
)
def test_the_shell_completes_names_of_plugins(words: str, offered: str) -> None:
    """Bash splits KEY=VALUE into three words, and replaces the last one."""
    assert completed(words) == offered.split()


def test_the_shell_completes_runners_of_the_application(application: Path) -> None:
    assert completed(f"dory run {application} --runner ") == ["host"]
    assert completed(f"dory run {application} --runner x") == []
    assert completed("dory run nothing --runner ") == []


def test_shells_that_split_nothing_get_key_and_value() -> None:
    line = "dory net.onnx --target toy --set keep_constant_channels=o"
    asked = {"_TYPER_COMPLETE_ARGS": line, "_DORY_COMPLETE": "complete_zsh"}
    stdout = dory(**asked).stdout
    assert '"keep_constant_channels=on"' in stdout and '"keep_constant_channels=off"' in stdout
