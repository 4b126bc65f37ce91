"""Runners: the ways to execute an application. The host simulation is always available."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dory_core.simulate.request import RunRequest
from dory_core.simulate.result import RunResult


@dataclass(frozen=True, slots=True)
class Runner:
    """A way to execute an application.

    Attributes:
        name: The name that ``--runner`` takes.
        summary: One line for the user.
        run: Function that executes the application of a directory and compares its layers, as
            :func:`dory_core.simulate.run.run_host` does. It raises VerificationFailed when the
            program was stopped, and UsageError for a dma, seed, sanitize or dump that it does not
            support.
        preferred: True when the runner is the default of its target, which needs its tools.
        missing: For a runner that is not preferred only because a tool is missing: the reason and
            what to install.
    """

    name: str
    summary: str
    run: Callable[[Path, RunRequest], RunResult]
    preferred: bool = False
    missing: str = ""


def _run_host(app_dir: Path, request: RunRequest) -> RunResult:
    from dory_core.simulate.run import run_host

    return run_host(app_dir, request)


HOST_RUNNER = Runner(
    name="host",
    summary="the generated C on this machine, cores as threads, adversarial DMA, guarded memory",
    run=_run_host,
)
