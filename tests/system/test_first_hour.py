"""The recording of docs/first_hour.md: its commands print what stands there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.command_line import ROOT, Outcome, dory, environment, python

PAGE = ROOT / "docs" / "first_hour.md"
#: Estimates change with the planner: numbers in these lines are not compared.
_ESTIMATES = ("estimate:",)


def recorded() -> list[tuple[str, list[str]]]:
    """Return each command with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


def run(command: str, folder: Path) -> Outcome:
    program, *arguments = shlex.split(command)
    if program == "dory":
        return dory(*arguments, cwd=folder)
    if program == "python":
        return python(*arguments, env=environment(), cwd=folder)
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


def same(line: str) -> str:
    """Return a line as it is compared."""
    words = " ".join(line.split())
    return re.sub(r"[\d.]+k?", "N", words) if line.startswith(_ESTIMATES) else words


def missing(expected: list[str], printed: str) -> str | None:
    """Return the first line that does not follow the ones before it; ... stands for any lines."""
    lines, at, gap = [same(line) for line in printed.splitlines()], 0, False
    for line in expected:
        if line == "...":
            gap = True
            continue
        places = [n for n in range(at, len(lines)) if lines[n] == same(line)]
        if not places or (not gap and places[0] != at):
            return line
        at, gap = places[0] + 1, False
    return None if gap or at == len(lines) else "the end"


def test_lines_are_compared_in_their_order() -> None:
    assert missing(["a", "...", "c"], "a\nb\nc\n") is None
    assert missing(["a", "c"], "a\nb\nc\n") == "c"
    assert missing(["a"], "a\nb\n") == "the end"
    assert missing(["estimate: 1k cycles"], "estimate: 2.5k cycles\n") is None
    assert missing(["accuracy 99.0%"], "accuracy 98.0%\n") == "accuracy 99.0%"


def test_the_recording_is_what_the_commands_print(tmp_path: Path) -> None:
    for name in ("dory_tflite", "dory_stm32h7", "unicorn"):
        pytest.importorskip(name, reason="a package of the page is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command, expected in recorded():
        if command.startswith("make") and not (
            shutil.which("make") and (shutil.which("arm-none-eabi-gcc") or find_spec("ziglang"))
        ):
            continue
        outcome = run(command, tmp_path)
        assert outcome.status == 0, f"{command}\n{outcome.stdout}{outcome.stderr}"
        line = missing(expected, outcome.stdout)
        assert line is None, f"{command}: no line {line!r} there in\n{outcome.stdout}"
    assert (tmp_path / "app" / "build" / "stm32h743" / "app.elf").exists()
