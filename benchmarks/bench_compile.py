"""Wall time, CPU time and memory of the command line, start-up included: best of several rounds.

python benchmarks/bench_compile.py [--rounds N]

Compiles the bundled example and real networks for GAP8, and asks for help; each has a limit of wall
time, all share one of memory, and the benchmark fails beyond one. Real networks lie beside the
project or in DORY_NETS, and are left out elsewhere. Where other programs run, CPU time is closer to
what an idle machine needs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from collection import folder_of, is_missing

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "line_follower" / "net.onnx"
#: Real networks: folder, limit in seconds. The last one is streamed from L3.
REAL = (("nemo_small_cnn", 1.3), ("nemo_mv1_025_96", 1.0), ("nemo_mv1_100_128", 2.0))
#: Largest resident memory of any command, in MB.
LIMIT_MB = 300

#: Linux counts resident memory in KB.
KB_PER_MB = 1024

#: What the tool of the paper's authors needs for the same job, measured on a machine of 2 cores.
ORIGINAL = (("small_cnn", 1.3), ("MobileNetV1-1.0-128", 6.0))


@dataclass(frozen=True)
class Job:
    """A command line. limit_s: wall time in seconds beyond which the benchmark fails."""

    name: str
    arguments: tuple[str, ...]
    limit_s: float


def jobs(output: Path) -> list[Job]:
    """Return what is measured; applications are written to ``output``."""
    compile_ = ("--target", "gap8", "-q", "-o", str(output / "app"), "--frontend")
    found = [
        Job("dory --help", ("--help",), 0.3),
        Job("dory compile --help", ("compile", "--help"), 0.3),
        Job("dory plugins", ("plugins",), 0.5),
        Job("compile line_follower", (*compile_, "quantlab", str(EXAMPLE)), 2.0),
    ]
    for name, limit in REAL:
        if not is_missing(name):
            network = folder_of(name) / "net.onnx"
            found.append(Job(f"compile {name}", (*compile_, "nemo", str(network)), limit))
    return found


def measure(job: Job, rounds: int, bytecode: Path) -> tuple[float, float, float]:
    """Return the best wall and CPU time in seconds, after a round to warm up, and the peak in MB.

    bytecode: where Python keeps compiled modules, as it does for an installed dory.
    """
    command = [sys.executable, "-m", "dory_core.cli.main", *job.arguments]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    times = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        times.append((wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / KB_PER_MB))
    walls, cpus, peaks = zip(*times[1:], strict=True)
    return min(walls), min(cpus), max(peaks)


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="executions of each command")
    rounds = parser.parse_args().rounds
    slow: list[str] = []
    large: list[str] = []
    with tempfile.TemporaryDirectory(prefix="dory-bench-") as folder:
        print(f"{'command':<36} {'wall':>8} {'limit':>8} {'CPU':>8} {'memory':>8}")
        for job in jobs(Path(folder)):
            wall, cpu, peak = measure(job, rounds, Path(folder, "bytecode"))
            print(f"{job.name:<36} {wall:6.2f} s {job.limit_s:6.2f} s {cpu:6.2f} s {peak:5.0f} MB")
            if wall > job.limit_s:
                slow.append(job.name)
            if peak > LIMIT_MB:
                large.append(job.name)
    for network, seconds in ORIGINAL:
        print(f"{'original DORY, ' + network:<36} {seconds:6.2f} s")
    for name in slow:
        print(f"{name} is slower than its limit")
    for name in large:
        print(f"{name} takes more than {LIMIT_MB} MB")
    return 1 if slow or large else 0


if __name__ == "__main__":
    sys.exit(main())
