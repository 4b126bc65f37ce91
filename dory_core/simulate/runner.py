"""Runners: the ways to execute an application. The host simulation is the one always there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from dory_core.simulate.result import LayerOutput, RunResult

__all__ = ["HOST_RUNNER", "RunFunction", "Runner"]


class RunFunction(Protocol):
    """Runs an application and compares its layers; see :func:`dory_core.simulate.run.run_host`.

    A runner that has no use for dma, seed or sanitize raises UsageError for anything but the
    default.
    """

    def __call__(
        self,
        app_dir: Path,
        *,
        layers: Sequence[LayerOutput],
        expected: Sequence[Mapping[int, npt.NDArray[Any]]],
        inputs: Sequence[bytes] | None = None,
        input_names: Sequence[str] | None = None,
        output_layers: Sequence[int] = (),
        target: str = "",
        dma: str = "early",
        seed: int = 1,
        repeat: int = 1,
        sanitize: str | None = None,
        dump: Path | None = None,
        timeout_s: float = 600.0,
    ) -> RunResult:
        """Return the comparison; raise VerificationFailed when the program was stopped."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A way to execute an application.

    name: what ``--runner`` takes. summary: one line for the user. run: does it. preferred: it is
    what runs when nobody asks for another one; a target says so when the tools for it are there.
    """

    name: str
    summary: str
    run: RunFunction
    preferred: bool = False


def _run_host(app_dir: Path, **arguments: Any) -> RunResult:
    from dory_core.simulate.run import run_host

    return run_host(app_dir, **arguments)


HOST_RUNNER = Runner(
    name="host",
    summary="the generated C on this machine, cores as threads, adversarial DMA, guarded memory",
    run=_run_host,
)
