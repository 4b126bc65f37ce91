"""What each move and each threshold of the planner is worth: writes docs/planner_moves.md.

python benchmarks/bench_moves.py [--only TEXT] [--targets gap8,stm32h7] [--output FILE]
    [--keep FILE] [--thresholds PATTERN]

Every network of the collection is planned with all moves, within its default budgets and within
tight ones. Then it is planned once more without each move that was kept, and with other values of
the thresholds of those moves, and of the planner. A move that was not kept changes no plan.

All this takes hours. With --keep the figures are also written to a file after every plan, and those
that are there are not measured again; so the work can be stopped and continued.

With --thresholds only those thresholds are varied whose titles have the pattern, and their rows of
the page are printed; with --keep the next page has them.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collection import folder_of
from moves_page import Figures, Found, document, keep, kept, threshold_row

from dory_core.driver.pipeline import PASSES, TILED, Source, run
from dory_core.driver.setup import Setup, setup_for
from dory_core.errors import DoryError
from dory_core.planning.moves import fused_chains
from dory_core.planning.search import Trial
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.tiling.network import TiledGraph

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "planner_moves.md"
#: Budgets: percent of the bytes of L2 that the default plan uses; part of the bytes of L1.
BUDGETS = {"default": (0, 1), "L2 75 %": (75, 1), "L2 50 %": (50, 1), "L1 / 3": (0, 3)}
#: Budgets within which thresholds are varied.
VARIED = ("default", "L2 75 %")


@dataclass(frozen=True)
class Threshold:
    """A number in the planner.

    Attributes:
        move: The move by which it acts; empty for one that acts in every plan.
        module: The module that it stands in.
        name: Its name there.
        values: Other values to be tried.
    """

    move: str
    module: str
    name: str
    values: tuple[Any, ...]

    @property
    def title(self) -> str:
        """The threshold as in the page, with its value."""
        value = getattr(importlib.import_module(self.module), self.name)
        return f"{self.move or self.module.rpartition('.')[2]}: {self.name} = {value}"


MOVE_ROOM = "dory_core.planning.moves"
THRESHOLDS = (
    Threshold("fused-chains", "dory_core.planning.chains.paths", "_LONGEST_STREAMED", (4, 16)),
    Threshold("fused-chains", f"{MOVE_ROOM}.fused_chains", "_ATTEMPTS", (6, 24)),
    Threshold("weight-prefetch", f"{MOVE_ROOM}.weight_prefetch", "_WAYS", (2, 32)),
    Threshold("l1-residency", "dory_core.planning.residents", "WINDOW", (10, 1000)),
    Threshold("l1-residency", "dory_core.planning.residents", "MARGIN", (2, 32)),
    Threshold("", "dory_core.planning.fitting", "_MORE_FUNCTIONS", (0, 32)),
    Threshold("", "dory_core.planning.fitting", "_ATTEMPTS", (2, 10)),
)


@dataclass(frozen=True)
class Job:
    """A network, for a target, within budgets."""

    network: str
    target: str
    budget: str
    tiled: TiledGraph
    setup: Setup

    @property
    def name(self) -> str:
        """Name of the row."""
        return f"{self.network} {self.target} {self.budget}"

    def planned(self, off: str = "") -> Figures | None:
        """Return the figures of the plan without a move; None where there is no plan."""
        shown: list[Trial] = []

        def watch(name: str, value: Any) -> None:
            if name == "moves":
                shown.extend(value)

        ctx = replace(
            self.setup.ctx, options={**self.setup.ctx.options, "moves": f"-{off}" if off else ""}
        )
        start = time.process_time()
        try:
            plan = run(self.tiled, replace(self.setup, ctx=ctx, watch=watch), after=TILED)
        except DoryError:
            return None
        seconds = time.process_time() - start
        kept = frozenset(trial.move for trial in shown if trial.kept)
        if any(step.chain > 1 for step in plan.steps):
            kept |= {fused_chains.NAME}  # plans of chains are also found without the move
        l2 = next(level.used for level in plan.levels if level.name == "L2")
        return Figures(plan.cycles, l2, seconds, kept)


def sources() -> Iterator[tuple[str, Source]]:
    """Yield the networks of the collection, and how each is read."""
    nets = folder_of("")
    for folder in sorted(path.parent for path in nets.glob("*/meta.json")):
        meta = json.loads((folder / "meta.json").read_text())
        how = (meta["frontend"], meta["input_bits"], meta["input_signed"])
        yield folder.name, Source(folder / "net.onnx", *how)
    for path in sorted(nets.parent.glob("nets_onnx/*/net.onnx")):
        name = path.parent.name
        yield name, Source(path, "deeploy" if name.startswith("deeploy") else "qdq")
    for path in sorted(nets.parent.glob("nets_tflite/*/net.tflite")):
        yield path.parent.name, Source(path, "tflite")


def jobs(
    plugins: Plugins, targets: Sequence[str], only: str, known: Mapping[str, Figures]
) -> Iterator[Job]:
    """Yield every network for every target within all budgets that can be tiled.

    Args:
        plugins: The installed ones.
        targets: Names of targets.
        only: Part of the names of the rows.
        known: Figures that need not be measured again, by the name of the row.
    """
    for network, source in sources():
        for target in targets:
            if only in f"{network} {target}":
                yield from _jobs_of(plugins, network, source, target, known)


def _jobs_of(
    plugins: Plugins, network: str, source: Source, target: str, known: Mapping[str, Figures]
) -> Iterator[Job]:
    used = 0
    graph: Any = None
    tiled: dict[int, TiledGraph] = {}
    l1 = 0
    for budget, (percent, part) in BUDGETS.items():
        budgets = {2: used * percent // 100} if percent else {}
        if part > 1:
            budgets[1] = l1 // part
        try:
            setup = setup_for(plugins, target, {}, budgets, frontend=source.frontend)
            l1 = l1 or setup.budgets.bytes[1]
            graph = graph or run(source, setup, until=PASSES)
            tiled[part] = tiled.get(part) or run(graph, setup, after=PASSES, until=TILED)
        except DoryError:
            continue
        job = Job(network, target, budget, tiled[part], setup)
        if not used:
            base = known.get(job.name) or job.planned()
            if base is None:
                return
            used = base.l2
        yield job


def measure(work: Iterator[Job], found: Found, output: Path, path: Path | None) -> None:
    """Plan every job in all ways; write the page of what was measured after each one.

    Args:
        work: The jobs.
        found: What is known; jobs that are there are left out.
        output: The page.
        path: Where the figures are kept, None for nowhere.
    """
    for job in work:
        if job.name in found.base:
            continue
        base = job.planned()
        if base is None:
            continue
        for move in sorted(base.kept):
            found.without[move][job.name] = job.planned(move)
        for one in THRESHOLDS if job.budget in VARIED else ():
            if not one.move or one.move in base.kept:
                _vary(job, one, found)
        found.base[job.name] = base
        print(job.name, base.cycles, base.l2, f"{base.seconds:.2f}", *sorted(base.kept), flush=True)
        output.write_text(document(found))
        if path is not None:
            keep(found, path)


def vary(work: Iterator[Job], found: Found, pattern: str) -> None:
    """Vary the thresholds whose titles have a pattern, and print their rows.

    Args:
        work: The jobs.
        found: What is known; the rows are added.
        pattern: A regular expression.
    """
    base = dict(found.base)
    for job in work:
        figures = (base.get(job.name) or job.planned()) if job.budget in VARIED else None
        if figures is None:
            continue
        base[job.name] = figures
        for one in THRESHOLDS:
            if re.search(pattern, one.title) and (not one.move or one.move in figures.kept):
                _vary(job, one, found)
    for (title, value), rows in found.thresholds.items():
        if re.search(pattern, title):
            mine = {name: figures for name, figures in rows.items() if name in base}
            print(threshold_row(title, value, mine, base))


def _vary(job: Job, one: Threshold, found: Found) -> None:
    module, title = importlib.import_module(one.module), one.title
    before = getattr(module, one.name)
    for value in one.values:
        setattr(module, one.name, value)
        found.thresholds.setdefault((title, str(value)), {})[job.name] = job.planned()
        setattr(module, one.name, before)


def main() -> None:
    """Measure everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the names of the rows to measure")
    parser.add_argument("--targets", default="gap8,stm32h7", help="names of targets")
    parser.add_argument("--thresholds", help="pattern of the titles of thresholds")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the page to write")
    parser.add_argument("--keep", type=Path, help="file in which the figures are kept")
    arguments = parser.parse_args()
    gc.set_threshold(400_000, 50, 50)  # as the command line has it
    found = kept(arguments.keep)
    work = jobs(load_plugins(), arguments.targets.split(","), arguments.only, found.base)
    if arguments.thresholds is not None:
        vary(work, found, arguments.thresholds)
        if arguments.keep is not None:
            keep(found, arguments.keep)
    else:
        measure(work, found, arguments.output, arguments.keep)


if __name__ == "__main__":
    main()
