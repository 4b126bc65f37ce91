"""Runners: the ways to execute an application. The host simulation is the one always there."""

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
        name: What ``--runner`` takes.
        summary: One line for the user.
        run: Executes the application of a directory and compares its layers, as
            :func:`dory_core.simulate.run.run_host` does: it raises VerificationFailed when the
            program was stopped, and UsageError for a dma, seed, sanitize or dump other than the
            default that it has no use for.
        preferred: It is what runs when nobody asks for another one; a target says so when the tools
            for it are there.
        missing: Why it is not, and what to install, for a runner that would be preferred then.
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
