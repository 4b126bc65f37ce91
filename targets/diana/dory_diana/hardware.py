"""Memories, links, options and operating points of Diana, as data with their sources."""

from __future__ import annotations

from dory_core.hardware import (
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    OperatingPoint,
    Option,
    Target,
    TargetContext,
)

NAME = "diana"

# Houshmand et al., "DIANA: An End-to-End Hybrid DIgital and ANAlog Neural Network SoC for the
# Edge", JSSC 2023: 256 KiB of activations shared by the arrays, 512 KiB of L2 for the host.
L1_KIB = ("256", "128")
L2_ADDRESS, L2_BYTES = 0x1C00_0000, 512 * 1024
# Runtime, driver, kernels, stack and heap of the host lie in L2 beside the network.
L2_RESERVED_BYTES = 48 * 1024
# Code of a layer: its tile loop with the constants in it.
CODE_BYTES_PER_LAYER = (768, 768)

# 16 x 16 multipliers of the digital array, one product each per cycle.
PEAK_MACS_PER_CYCLE = 256.0

NOMINAL = OperatingPoint(
    "260MHz",
    cluster_hz=260e6,
    io_hz=260e6,
    energy_j_per_cycle=2 * PEAK_MACS_PER_CYCLE / 14e12,
    source="public cost models of the arrays: 260 MHz; JSSC 2023: 14 TOP/s/W at 8 bits, the best "
    "that the digital array reaches, taken for every cycle: a lower bound",
)

TARGET = Target(
    NAME,
    "Diana: a RISC-V host with 512 KiB of L2, a digital 16x16 array and an analog 1152x512 one",
    options=(
        Option(
            "l1_kib",
            int,
            256,
            "KiB of the memory for activations that the arrays share: 256 or 128",
            L1_KIB,
        ),
    ),
    operating_points=(NOMINAL,),
)

# A call of the DMA takes 70 cycles until its first bytes arrive, and then moves 16 per cycle
# (public cost models of the chip); the host waits for it.
DMA = Link(
    upper=1,
    lower=2,
    setup_cycles=70,
    bytes_per_cycle=16.0,
    issue_cycles=70,
    blocking=True,
)


def hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the chip. The host computes on L2 alone: it does not reach L1."""
    data = frozenset({"activations", "weights"})
    l1 = Memory("activations", int(ctx.options.get("l1_kib", 256)) * 1024, holds=data)
    l2 = Memory(
        "L2 SRAM",
        L2_BYTES,
        L2_RESERVED_BYTES,
        L2_ADDRESS,
        data | {"code"},
        alignment_bytes=16,
        code_bytes_per_layer=CODE_BYTES_PER_LAYER,
    )
    return MemoryHierarchy(
        (Level(1, (l1,)), Level(2, (l2,))),
        (DMA,),
        peak_macs_per_cycle=PEAK_MACS_PER_CYCLE,
        storage_bits=(8, 16, 32),
        in_place=True,
    )
