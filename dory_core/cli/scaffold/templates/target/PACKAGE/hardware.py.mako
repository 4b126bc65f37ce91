"""Memories, links and options of ${n.name}, as data.

Every number is an example: replace it, and say where the right one stands.
"""

from __future__ import annotations

from dory_core.api import (
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    OperatingPoint,
    Option,
    Target,
    TargetContext,
)

NAME = "${n.name}"

TARGET = Target(
    NAME,
    "a microcontroller with a scratchpad",
    options=(Option("cores", int, 1, "cores that run kernels"),),
    operating_points=(
        OperatingPoint(
            "nominal", core_hz=100e6, io_hz=100e6, energy_j_per_cycle=1e-10, source="an example"
        ),
    ),
)

# The scratchpad next to the cores. Stacks that lie in it are reserved.
L1 = Memory("scratchpad", size_bytes=64 * 1024, reserved_bytes=4 * 1024)
# Activations and, if they fit, constants. Code and heap are reserved.
L2 = Memory("SRAM", size_bytes=512 * 1024, reserved_bytes=64 * 1024)

# The DMA between them: cycles to start a transfer, bytes per cycle once it runs.
DMA = Link(upper=1, lower=2, setup_cycles=40, bytes_per_cycle=4.0, row_cycles=1.0)


def hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories for the chosen options."""
    return MemoryHierarchy((Level(1, (L1,)), Level(2, (L2,))), (DMA,), int(ctx.options["cores"]))
