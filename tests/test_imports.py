"""The contract of imports in pyproject.toml: complete, and kept."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]


def test_every_plugin_of_the_repository_is_forbidden_to_the_core() -> None:
    projects = (*ROOT.glob("frontends/*"), *ROOT.glob("targets/*"), *ROOT.glob("tools/*"))
    packages = {path.name for project in projects for path in project.glob("dory_*/")}
    [contract] = [c for c in CONTRACTS if c["type"] == "forbidden"]
    missing = {p for p in packages if "." not in p} - {*contract["forbidden_modules"]}
    assert not missing, "a folder of plugins may be deleted, none may be forgotten"


def test_imports_go_in_one_direction() -> None:
    """In a process of its own: import-linter disables every logger that there is."""
    pytest.importorskip("importlinter.cli")
    lint = "from importlinter import cli; raise SystemExit(cli.lint_imports(no_cache=True))"
    command = [sys.executable, "-c", lint]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not logging.getLogger("dory").disabled
