"""Running the real command line in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.cli import forks

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "line_follower"
TOYS = ROOT / "tests" / "toy" / "site"


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The document on stdout; fails when there is anything else."""
        return json.loads(self.stdout)


def environment(*folders: Path) -> dict[str, str]:
    """Return the environment of a command: the project is importable, output is not folded.

    The toy plugins are installed there. folders: where modules and distributions are looked for
    before.
    """
    values = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    path = [*map(str, folders), str(ROOT), str(TOYS), values.get("PYTHONPATH", "")]
    values["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
    return values


def dory(*arguments: str | Path, cwd: Path | None = None, **extra: str) -> Outcome:
    """Run ``dory`` with the given arguments; extra: environment variables."""
    with TemporaryDirectory() as name:
        streams = Path(name)
        env = environment() | extra
        status = forks.run(list(map(str, arguments)), env, cwd or Path.cwd(), streams)
        stdout, stderr = ((streams / each).read_text() for each in ("stdout", "stderr"))
    return Outcome(status, stdout, stderr)


def python(*arguments: str | Path, env: dict[str, str], cwd: Path | None = None) -> Outcome:
    """Run Python with the given arguments and environment."""
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Outcome(result.returncode, result.stdout, result.stderr)
