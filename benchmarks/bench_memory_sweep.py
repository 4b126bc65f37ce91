"""MobileNetV1-1.0-128 on GAP8 over sizes of L1 and L2: section 6.4 of the IEEE TC 2021 paper.

python benchmarks/bench_memory_sweep.py [--l1 KB ...] [--l2 KB ...]

Each point is compiled and run on the host simulation, compared with the golden in every layer; a
point that does not fit says why. The benchmark fails when a point differs or stops for any other
reason than memory. The network lies beside the project or in DORY_NETS. Tables and charts of the
same points come from one command, which docs/memory_sweep.md names.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path

from collection import folder_of, is_missing

from dory_core.driver.application import run_application
from dory_core.driver.compiler import (
    CompileOptions,
    make_vectors,
    write_network,
)
from dory_core.driver.pipeline import PASSES, run
from dory_core.driver.setup import Setup
from dory_core.errors import DoesNotFit, DoryError
from dory_core.plan import Plan
from dory_core.plan.budgets import resolve_budgets
from dory_core.plugins.manager import load_plugins

NETWORK = "nemo_mv1_100_128"
KB = 1024
L1_KB = (22, 28, 30, 36, 44, 52, 64, 70, 80, 128, 256, 400)
L2_KB = (256, 384, 512, 4096)
PROCESSES = 2


@dataclass(frozen=True)
class Point:
    """One point of the sweep.

    cycles: estimated, 0 without a plan. exact: every layer equals the golden; None when it was not
    run. reason: why it does not fit. failure: anything that must not happen.
    """

    l1_kb: int
    l2_kb: int
    cycles: int = 0
    exact: bool | None = None
    reason: str = ""
    failure: str = ""

    @property
    def wrong(self) -> bool:
        """True when the benchmark has to fail."""
        return bool(self.failure) or self.exact is False

    def __str__(self) -> str:
        if self.failure or self.reason:
            verdict = self.failure or f"does not fit: {self.reason}"
        else:
            verdict = "exact" if self.exact else "differs"
        cycles = f"{self.cycles / 1e6:8.2f}" if self.cycles else " " * 8
        return f"{self.l1_kb:6d} {self.l2_kb:6d} {cycles}  {verdict}"


class Sweep:
    """The network, imported once for all points."""

    def __init__(self) -> None:
        self.plugins = load_plugins()
        self.ctx = self.plugins.context("gap8", {})
        folder = folder_of(NETWORK)
        options = CompileOptions(network=folder / "net.onnx", target="gap8", frontend="nemo")
        self.graph = run(options.source, options.setup(self.plugins), until=PASSES)
        self.vectors, _ = make_vectors(self.graph, (folder / "golden.npz",))

    def plan(self, l1_kb: int, l2_kb: int) -> Plan:
        """Return the plan of one point. Raises: DoesNotFit."""
        budgets = resolve_budgets(self.ctx.memory, {1: l1_kb * KB, 2: l2_kb * KB})
        return run(self.graph, Setup(self.ctx, budgets, self.plugins), after=PASSES)

    def is_exact(self, plan: Plan, dma: str) -> bool:
        """Write the application, run it and return whether every layer equals the golden."""
        with tempfile.TemporaryDirectory(prefix="dory-sweep-") as folder:
            application = Path(folder, "app")
            write_network(application, self.graph, plan, self.vectors, self.plugins, self.ctx)
            return run_application(application, plugins=self.plugins, dma=dma).exact

    def point(self, l1_kb: int, l2_kb: int, dma: str) -> Point:
        """Return one point, run with transfers of mode ``dma``."""
        try:
            plan = self.plan(l1_kb, l2_kb)
        except DoesNotFit as error:
            return Point(l1_kb, l2_kb, reason=error.message)
        return Point(l1_kb, l2_kb, plan.cycles, self.is_exact(plan, dma))


@cache
def sweep() -> Sweep:
    """Return the sweep of this process."""
    return Sweep()


def measure(size: tuple[int, int], dma: str) -> Point:
    """Return the point with (L1, L2) in KB; whatever goes wrong is in it."""
    try:
        return sweep().point(*size, dma)
    except DoryError as error:
        return Point(*size, failure=error.message)
    except Exception as error:  # a crash is a result of the benchmark: the other points go on
        return Point(*size, failure=f"{type(error).__name__}: {error}")


def main() -> int:
    """Print a line for each point; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--l1", type=int, nargs="+", default=L1_KB, metavar="KB")
    parser.add_argument("--l2", type=int, nargs="+", default=L2_KB, metavar="KB")
    parser.add_argument("--dma", default="random", choices=("early", "late", "random"))
    parser.add_argument("--processes", type=int, default=PROCESSES)
    options = parser.parse_args()
    if is_missing(NETWORK):
        return 0
    print(f"{'L1 KB':>6} {'L2 KB':>6} {'Mcycles':>8}  every layer")
    points = []
    with ProcessPoolExecutor(options.processes) as pool:
        for point in pool.map(partial(measure, dma=options.dma), product(options.l1, options.l2)):
            points.append(point)
            print(point, flush=True)
    exact = sum(point.exact is True for point in points)
    print(f"{exact} of {len(points)} points are exact in every layer")
    return 1 if any(point.wrong for point in points) else 0


if __name__ == "__main__":
    sys.exit(main())
