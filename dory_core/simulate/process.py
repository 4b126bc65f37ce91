"""Running a program that is built from an application, or what builds and runs it."""

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
    """Run ``command`` in ``folder`` and return its status and output, whatever the status is.

    Args:
        what: Subject of the message when it takes longer than ``timeout_s``, None for no limit.
        environment: Of the process, by default this one's. Bytes that are no text are replaced.

    Raises:
        VerificationFailed: When it did not end in time.
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
