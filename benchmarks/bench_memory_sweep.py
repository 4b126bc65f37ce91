"""MobileNetV1-1.0-128 on GAP8 over sizes of L1 and L2: section 6.4 of the IEEE TC 2021 paper.

python benchmarks/bench_memory_sweep.py [--l1 KB ...] [--l2 KB ...] [--no-run] [--markdown FILE]

Each point is compiled and run on the host simulation, compared with the golden in every layer; a
point that does not fit says why. The benchmark fails when a point differs or stops for any other
reason than memory. The network lies beside the project or in DORY_NETS.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path

from dory_core.application import run_application
from dory_core.budgets import resolve_budgets
from dory_core.compiler import (
    CompileOptions,
    import_network,
    make_vectors,
    plan_network,
    write_network,
)
from dory_core.errors import DoesNotFit, DoryError
from dory_core.ir import Linear, pixel_bytes
from dory_core.plan import LayerStep, PartPlan, Plan
from dory_core.plugins import load_plugins

ROOT = Path(__file__).resolve().parents[1]
NETWORK = Path(os.environ.get("DORY_NETS", ROOT.parent / "shared" / "nets")) / "nemo_mv1_100_128"
KB = 1024
L1_KB = (22, 28, 30, 36, 44, 52, 64, 70, 80, 128, 256, 400)
L2_KB = (256, 384, 512, 4096)
PROCESSES = 2


@dataclass(frozen=True)
class Traffic:
    """Data moved between two levels in one inference."""

    transfers: int = 0
    bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.transfers + other.transfers, self.bytes + other.bytes)

    def times(self, count: int) -> Traffic:
        """Return the same traffic ``count`` times."""
        return Traffic(self.transfers * count, self.bytes * count)


@dataclass(frozen=True)
class Numbers:
    """What a plan says.

    tiles: of all layers. parts: runs of a tile loop, one per L3 tile. stalls: cycles in which the
    cores wait for transfers between L2 and L1. constants: their bytes. l2_peak: bytes.
    """

    tiles: int
    parts: int
    l3: Traffic
    l2: Traffic
    constants: int
    cycles: int
    stalls: int
    macs_per_cycle: float
    l2_peak: int


@dataclass(frozen=True)
class Point:
    """One point of the sweep.

    numbers: None when it does not fit. exact: every layer equals the golden; None when it was not
    run. reason: why it does not fit. failure: anything that must not happen.
    """

    l1_kb: int
    l2_kb: int
    numbers: Numbers | None = None
    exact: bool | None = None
    reason: str = ""
    failure: str = ""

    @property
    def verdict(self) -> str:
        """The last column of the table."""
        if self.failure:
            return "failed"
        if self.reason:
            return "does not fit"
        return {True: "exact", False: "differs", None: "not run"}[self.exact]

    @property
    def wrong(self) -> bool:
        """True when the benchmark has to fail."""
        return bool(self.failure) or self.exact is False


def part_traffic(step: LayerStep, part: PartPlan) -> Traffic:
    """Return what one run of a tile loop moves between L2 and L1, as the generated code does."""
    schedule = part.schedule
    total = Traffic()
    for tile in schedule.steps():
        o, h, w = schedule.c_out[tile.o], schedule.h[tile.h], schedule.w[tile.w]
        _, channels = schedule.input_channels(tile)
        if tile.load_x:
            for transfer in step.inputs:
                tensor = transfer.place.tensor
                size = h.x_size * w.x_size * pixel_bytes(channels, tensor.bits)
                if isinstance(step.layer.layer, Linear):
                    size = pixel_bytes(channels, tensor.bits)
                total += Traffic(channels if transfer.form == "channels" else 1, size)
        if tile.load_w:
            assert step.weights is not None
            total += Traffic(1, step.weights.chunks[part.chunk].tiles[tile.o][tile.i].size)
        if tile.store_y:
            bits = step.output.place.tensor.bits
            total += Traffic(1, h.size * w.size * pixel_bytes(o.size, bits))
    return total


def numbers(plan: Plan) -> Numbers:
    """Return what the table shows of a plan."""
    l2 = Traffic()
    for step in plan.steps:
        for part in step.parts:
            l2 += part_traffic(step, part)
    return Numbers(
        tiles=sum(step.tile_count for step in plan.steps),
        parts=sum(len(step.parts) for step in plan.steps),
        l3=Traffic(len(plan.transfers), sum(t.size for t in plan.transfers)),
        l2=l2,
        constants=sum(step.weights.size for step in plan.steps if step.weights is not None),
        cycles=plan.cycles,
        stalls=sum(step.estimate.stall_cycles for step in plan.steps),
        macs_per_cycle=plan.macs / plan.cycles,
        l2_peak=plan.levels[1].used,
    )


class Sweep:
    """The network, imported once for all points."""

    def __init__(self) -> None:
        self.plugins = load_plugins()
        self.ctx = self.plugins.context("gap8", {})
        options = CompileOptions(onnx=NETWORK / "net.onnx", target="gap8", frontend="nemo")
        self.graph = import_network(options, self.plugins, self.ctx)
        self.vectors, _ = make_vectors(self.graph, (NETWORK / "golden.npz",), None)

    def plan(self, l1_kb: int, l2_kb: int) -> Plan:
        """Return the plan of one point. Raises: DoesNotFit."""
        budgets = resolve_budgets(self.ctx.memory, {1: l1_kb * KB, 2: l2_kb * KB})
        return plan_network(self.graph, self.ctx, budgets, self.plugins, "nemo")

    def is_exact(self, plan: Plan, dma: str) -> bool:
        """Write the application, run it and return whether every layer equals the golden."""
        with tempfile.TemporaryDirectory(prefix="dory-sweep-") as folder:
            application = Path(folder, "app")
            write_network(application, self.graph, plan, self.vectors, self.plugins, self.ctx)
            return run_application(application, plugins=self.plugins, dma=dma).exact

    def point(self, l1_kb: int, l2_kb: int, dma: str | None) -> Point:
        """Return one point, run with ``dma`` unless it is None."""
        try:
            plan = self.plan(l1_kb, l2_kb)
        except DoesNotFit as error:
            return Point(l1_kb, l2_kb, reason=error.message)
        exact = None if dma is None else self.is_exact(plan, dma)
        return Point(l1_kb, l2_kb, numbers(plan), exact)


@cache
def sweep() -> Sweep:
    """Return the sweep of this process."""
    return Sweep()


def measure(size: tuple[int, int], dma: str | None) -> Point:
    """Return the point with (L1, L2) in KB; whatever goes wrong is in it."""
    try:
        return sweep().point(*size, dma)
    except DoryError as error:
        return Point(*size, failure=error.message)
    except Exception as error:  # a crash is a result of the benchmark: the other points go on
        return Point(*size, failure=f"{type(error).__name__}: {error}")


COLUMNS = (
    "L1 KB", "L2 KB", "tiles", "parts", "L3-L2", "L3-L2 KB", "L2-L1", "L2-L1 KB", "Mcycles",
    "MAC/cycle", "L2 peak KB", "result",
)  # fmt: skip


def cells(point: Point) -> tuple[str, ...]:
    """Return a row of the table."""
    head = (str(point.l1_kb), str(point.l2_kb))
    found = point.numbers
    if found is None:
        return (*head, *["-"] * (len(COLUMNS) - len(head) - 1), point.verdict)
    return (
        *head,
        str(found.tiles),
        str(found.parts),
        str(found.l3.transfers),
        f"{found.l3.bytes / KB:.0f}",
        str(found.l2.transfers),
        f"{found.l2.bytes / KB:.0f}",
        f"{found.cycles / 1e6:.1f}",
        f"{found.macs_per_cycle:.2f}",
        f"{found.l2_peak / KB:.0f}",
        point.verdict,
    )


def reasons(points: Sequence[Point]) -> list[str]:
    """Return each distinct reason with the points that it holds for."""
    known: dict[str, list[str]] = {}
    for point in points:
        reason = point.failure or point.reason
        if reason:
            known.setdefault(reason, []).append(f"{point.l1_kb}/{point.l2_kb}")
    return [f"{', '.join(sizes)}: {reason}" for reason, sizes in known.items()]


def findings(points: Sequence[Point]) -> str:
    """Return what the table shows, in sentences."""
    found = {(p.l1_kb, p.l2_kb): p.numbers for p in points if p.numbers is not None}
    if not found:
        return "No point fits."
    best_l1, best_l2 = min(found, key=lambda size: found[size].cycles)
    row = [l1 for l1, l2 in found if l2 == best_l2]
    column = [l2 for l1, l2 in found if l1 == best_l1]
    some = sorted({min(row), best_l1, max(row)})
    ends = [found[l1, best_l2] for l1 in some]
    moved = sorted({round(n.l3.bytes / KB) for n in found.values()})
    constants = found[best_l1, best_l2].constants / KB
    rises = ": a layer in one tile has nothing to overlap its transfers with" * (some[-1] > best_l1)
    return (
        f"With {best_l2} KB of L2, {_listed(some)} KB of L1 mean {_listed(n.tiles for n in ends)} "
        f"tiles and an estimated {_listed(f'{n.cycles / 1e6:.1f}' for n in ends)} million cycles, "
        f"of which the cores wait {_listed(f'{n.stalls / 1e6:.2f}' for n in ends)} million for L2"
        f"{rises}. With {best_l1} KB of L1, {_listed(column)} KB of L2 mean "
        f"{_listed(f'{found[best_l1, l2].cycles / 1e6:.1f}' for l2 in column)} million cycles; of "
        f"all points, L3 moves from {moved[0]} KB to {moved[-1]} KB, {constants:.0f} KB of them "
        f"constants once. Cycles are those of the model of kernels and links, not of a chip."
    )


def _listed(values: Iterable[object]) -> str:
    """Return ``1, 2 and 3``."""
    texts = [str(value) for value in values]
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


def markdown(points: Sequence[Point]) -> str:
    """Return the table as a page of the documentation."""
    lines = [
        "# Memory sweep of MobileNetV1-1.0-128",
        "",
        "Made by `python benchmarks/bench_memory_sweep.py --markdown docs/memory_sweep.md`: the "
        "sweep of section 6.4 of the paper (IEEE TC 2021) for GAP8, 1 KB = 1024 bytes. Tiles: calls"
        " of a kernel. Parts: tiles between L3 and L2, one per layer where nothing is cut. L3-L2 "
        "and L2-L1: transfers started in one inference, and their bytes. Result: every layer of the"
        " generated C, run on the host simulation, compared with the golden.",
        "",
        findings(points),
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---:|" * (len(COLUMNS) - 1) + "---|",
        *("| " + " | ".join(cells(point)) + " |" for point in points),
    ]
    if reasons(points):
        lines += ["", "What does not fit (L1/L2 in KB):", ""]
        lines += [f"- {reason}" for reason in reasons(points)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--l1", type=int, nargs="+", default=L1_KB, metavar="KB")
    parser.add_argument("--l2", type=int, nargs="+", default=L2_KB, metavar="KB")
    parser.add_argument("--run", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--dma", default="random", choices=("early", "late", "random"))
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there, too")
    options = parser.parse_args()
    if not NETWORK.is_dir():
        print(f"left out: {NETWORK} does not exist (DORY_NETS names the folder)")
        return 0
    widths = [max(len(name), 9) for name in COLUMNS]
    print("  ".join(f"{name:>{n}}" for name, n in zip(COLUMNS, widths, strict=True)))
    points = []
    job = partial(measure, dma=options.dma if options.run else None)
    with ProcessPoolExecutor(options.processes) as pool:
        for point in pool.map(job, product(options.l1, options.l2)):
            points.append(point)
            row = zip(cells(point), widths, strict=True)
            print("  ".join(f"{text:>{n}}" for text, n in row), flush=True)
    print("", *reasons(points), findings(points), sep="\n")
    if options.markdown is not None:
        options.markdown.write_text(markdown(points), encoding="utf-8")
    return 1 if any(point.wrong for point in points) else 0


if __name__ == "__main__":
    sys.exit(main())
