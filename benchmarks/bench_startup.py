"""How long the command line takes to answer: ``--help`` and ``plugins``, best and median of ten.

The limit for ``--help`` is 0.3 s; the benchmark fails beyond it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 10
HELP_LIMIT_SECONDS = 0.3


def measure(*arguments: str) -> list[float]:
    """Return the wall time in seconds of each round."""
    command = [sys.executable, "-m", "dory_core.cli.main", *arguments]
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - begin)
    return times


def main() -> int:
    """Print the times; return the exit status."""
    status = 0
    for arguments in (["--help"], ["compile", "--help"], ["plugins"], ["targets", "--json"]):
        times = measure(*arguments)
        best, median = min(times), statistics.median(times)
        print(f"dory {' '.join(arguments):<18} best {best:.3f} s   median {median:.3f} s")
        if "--help" in arguments and best > HELP_LIMIT_SECONDS:
            print(f"  slower than {HELP_LIMIT_SECONDS} s")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
