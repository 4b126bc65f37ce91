"""CPU time of planning against the number of layers, on a chip that exists here alone.

python benchmarks/bench_depth.py [--layers N ...] [--profile]

Chains of convolutions and chains of residual blocks are planned (nothing is written): resident,
all in L2, and streamed, with constants and a part of the activations in L3. Planning should take
time that is near linear in the number of layers.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time
from dataclasses import dataclass

from dory_core.api import hookimpl
from dory_core.driver.pipeline import PASSES, run
from dory_core.driver.setup import setup_for
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.hardware.target import Target, TargetContext
from dory_core.ir import Graph, Layer, Window, requant
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel
from dory_core.passes.order import order_branches
from dory_core.plan import Plan
from dory_core.plugins.manager import Plugins
from dory_core.testing.graphs import GraphBuilder

NAME = "deep"
SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = Window(kernel=(1, 1))
SUM = requant(1, 0, 2, 0, 255)


@dataclass(frozen=True)
class DeepChip:
    """A chip of three levels whose L1 takes a few tensors of these networks."""

    l1_bytes: int = 24 * 1024
    l2_bytes: int = 1 << 30

    @hookimpl
    def dory_targets(self) -> list[Target]:
        """Return the one target."""
        return [Target(NAME, "a chip for deep networks")]

    @hookimpl
    def dory_memory_hierarchy(self, ctx: TargetContext) -> MemoryHierarchy:
        """Return its levels."""
        levels = (
            Level(1, (Memory("L1", self.l1_bytes),)),
            Level(2, (Memory("L2", self.l2_bytes),)),
            Level(3, (Memory("L3", 1 << 30),)),
        )
        links = (
            Link(1, 2, setup_cycles=50, bytes_per_cycle=8.0),
            Link(2, 3, setup_cycles=300, bytes_per_cycle=1.0),
        )
        return MemoryHierarchy(levels, links, cores=4, resident_l1=True)

    @hookimpl
    def dory_kernels(self, ctx: TargetContext, layer: Layer) -> list[Kernel]:
        """Return kernels of the core, tiled."""
        return list(portable_kernels(cores=4))


def chain(layers: int) -> Graph:
    """Return convolutions in a row, of four shapes in turn."""
    b = GraphBuilder((8, 16, 16), name=f"chain_{layers}")
    for n in range(layers):
        b.conv((8, 16, 24, 16)[n % 4], SAME if n % 2 else POINT)
    return b.graph()


def residuals(layers: int) -> Graph:
    """Return residual blocks of two convolutions and a sum in a row."""
    b = GraphBuilder((8, 16, 16), name=f"residuals_{layers}")
    source = b.conv(8, POINT)
    for _ in range(max(1, (layers - 1) // 3)):
        b.conv(16, SAME, source=source)
        inner = b.conv(8, POINT)
        source = b.add(source, inner, operands=(None, None), requants=(SUM,))
    return b.graph()


def plan(graph: Graph, chip: DeepChip) -> Plan:
    """Return the Plan of a graph on a chip."""
    setup = setup_for(Plugins.from_objects(deep=chip), NAME, frontend="hand-made")
    planned: Plan = run(order_branches(graph), setup, after=PASSES)
    return planned


NETWORKS = {"chain": chain, "residuals": residuals}
CHIPS = {"resident": DeepChip(), "streamed": DeepChip(l2_bytes=8 * 1024)}


def main() -> None:
    """Plan every network in every size and print CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--only", default="", help="part of the names of the rows to measure")
    parser.add_argument("--profile", action="store_true", help="print what takes the time")
    arguments = parser.parse_args()
    gc.set_threshold(400_000, 50, 50)  # as the command line has it
    print(f"{'network':<12}{'layers':>8}{'plan':>10}{'CPU s':>9}{'cycles':>12}{'L2':>9}")
    for name, build in NETWORKS.items():
        for kind, chip in CHIPS.items():
            for layers in arguments.layers:
                if arguments.only not in f"{name} {kind}":
                    continue
                graph = build(layers)
                profile = cProfile.Profile()
                if arguments.profile:
                    profile.enable()
                start = time.process_time()
                made = plan(graph, chip)
                seconds = time.process_time() - start
                profile.disable()
                used = made.levels[1].used
                print(
                    f"{name:<12}{layers:>8}{kind:>10}{seconds:>9.2f}{made.cycles:>12}{used:>9}",
                    flush=True,
                )
                if arguments.profile:
                    pstats.Stats(profile).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main()
