"""Running a program of an application, or a tool that builds or runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dory_core.errors import VerificationFailed


def run_process(
    command: Sequence[str],
    folder: Path,
    timeout_s: float | None,
    what: str,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in ``folder`` and return its status and output, for every status.

    Bytes of the output that are not text are replaced.

    Args:
        command: The program and its arguments.
        folder: Working directory.
        timeout_s: Seconds until the program is stopped, None for no limit.
        what: Subject of the message after a timeout.
        environment: Environment of the process, by default that of this process.

    Raises:
        VerificationFailed: When the program did not end in time.
    """
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise VerificationFailed(f"{what} did not end within {timeout_s:g} s") from None
