"""What `make` installs and runs, by what it says that it would do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def said(goal: str, venv: Path) -> str:
    """Return the commands of a goal in an environment that does not exist yet."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    command = ["make", "-n", "--no-print-directory", goal, f"VENV={venv}", "MAKEFLAGS="]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_only_what_it_needs(tmp_path: Path) -> None:
    commands = said("demo", tmp_path / "venv")
    assert "-e . -e frontends/tflite -e targets/gap8 -e tools/report" in commands
    assert not any(word in commands for word in ("[test", "lint", "frontends/qdq", "stm32h7"))
    assert commands.rstrip().endswith("dory run demo -v")


def test_the_tests_run_on_all_cores(tmp_path: Path) -> None:
    commands = said("test", tmp_path / "venv")
    assert "-m pytest -n auto " in commands
    assert '-e ".[test,lint]"' in commands
