"""Applications for tests that the SDK's model builds and runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dory_core.api import Graph, simulate
from dory_core.testing import run_application
from dory_core.testing.cases import network_cases
from dory_core.tools import load_plugins

SDK = Path(__file__).parent / "sdk"
THREE_LEVELS = {1: 6000, 2: 7000}


def graph(name: str) -> Graph:
    return next(case for case in network_cases() if case.name == name).build()


def run(app: Path, **options: object) -> simulate.RunResult:
    return run_application(app, plugins=load_plugins(), runner="gvsoc", **options)


def make(app: Path, *goals: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *goals, "platform=gvsoc", "PMSIS_OS=pulpos"],
        cwd=app,
        capture_output=True,
        text=True,
        check=False,
    )
