"""Memories, links, options and operating points of GAP8, as data with their sources."""

from __future__ import annotations

from dory_core.hardware import (
    STORAGE_BITS,
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    OperatingPoint,
    Option,
    Target,
    TargetContext,
)

NAME = "gap8"
MAX_CORES = 8
# A dot product of four 8-bit pairs is one instruction.
MACS_PER_CYCLE_AND_CORE = 4
BOARDS = ("gvsoc", "gapuino")
KERNELS = ("dory", "portable")
PULP_NN = "pulp-nn="

L1_BYTES = 64 * 1024
L2_BYTES = 512 * 1024
L3_BYTES = 8 * 1024 * 1024

# Widths in which activations are stored, by the option ``kernels``. PULP-NN takes whole bytes only.
STORAGE = {"dory": STORAGE_BITS, "portable": STORAGE_BITS, PULP_NN: (8, 16, 32)}

# Stacks lie in L1: of core 0, and of each other core (the configuration of the DORY paper's tool).
STACK_CORE0_BYTES = 3500
STACK_CORE_BYTES = 3400

# L2 also holds code with its constants, the stack of the fabric controller and the SDK's heap. The
# applications of this tool need 30 to 50 KiB for them.
L2_RESERVED_BYTES = 64 * 1024

LOW_VOLTAGE = OperatingPoint(
    "1.0V",
    cluster_hz=100e6,
    io_hz=100e6,
    # 63 pJ/MAC at about 8 MAC/cycle.
    energy_j_per_cycle=63e-12 * 8,
    source="DORY (IEEE TC 2021): 100/100 MHz at 1.0 V, MobileNetV1-1.0-128 on average 63 pJ/MAC "
    "at about 8 MAC/cycle",
)
HIGH_VOLTAGE = OperatingPoint(
    "1.2V",
    cluster_hz=175e6,
    io_hz=250e6,
    energy_j_per_cycle=63e-12 * 8 * 1.44,
    source="vendor: cluster 175 MHz, fabric 250 MHz at 1.2 V; energy scaled from 1.0 V with the "
    "square of the voltage",
)

TARGET = Target(
    NAME,
    "GreenWaves GAP8: eight RISC-V cores with 64 KiB of L1, 512 KiB of L2, 8 MiB of HyperRAM",
    options=(
        Option("board", str, "gvsoc", "simulator or board that the application is for", BOARDS),
        Option("cores", int, MAX_CORES, "cores of the cluster that run kernels, 1 to 8"),
        Option(
            "kernels",
            str,
            "dory",
            "dory: kernels for the cluster, portable C where they reject a layer; "
            "portable: portable C only; pulp-nn=PATH: a copy of PULP-NN, portable C where it would "
            "not be exact",
        ),
    ),
    operating_points=(LOW_VOLTAGE, HIGH_VOLTAGE),
)


def stack_bytes(cores: int) -> int:
    """Return the bytes of L1 that the stacks of ``cores`` cores take."""
    return STACK_CORE0_BYTES + STACK_CORE_BYTES * (cores - 1)


# Cluster DMA, measured: 26 cycles + 8 bytes per cycle until the wait returns, at least 34; a cycle
# per row (towards L1 rows of 8 bytes and more are free); rows of one byte take a cycle each.
CLUSTER_DMA = Link(
    upper=1,
    lower=2,
    setup_cycles=26,
    bytes_per_cycle=8.0,
    row_cycles=1.0,
    issue_cycles=26,
    minimum_cycles=34,
    element_cycles=1.0,
)

# HyperRAM read from the cluster, in cycles of the cluster: 700 + 1.23 per byte at 100/100 MHz,
# 500 + 0.865 per byte at 250/175 MHz; 91 of them to issue the request.
HYPER_RAM_100 = Link(upper=2, lower=3, setup_cycles=700, bytes_per_cycle=1 / 1.23, issue_cycles=91)
HYPER_RAM_250 = Link(upper=2, lower=3, setup_cycles=500, bytes_per_cycle=1 / 0.865, issue_cycles=91)


def hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the chip for the chosen number of cores and operating point."""
    cores = int(ctx.options.get("cores", MAX_CORES))
    point = ctx.operating_point or LOW_VOLTAGE
    hyper_ram = HYPER_RAM_250 if point.io_hz > LOW_VOLTAGE.io_hz else HYPER_RAM_100
    data = frozenset({"activations", "weights"})
    levels = (
        Level(1, (Memory("TCDM", L1_BYTES, stack_bytes(cores), 0x1000_0000, data),)),
        Level(2, (Memory("L2 SRAM", L2_BYTES, L2_RESERVED_BYTES, 0x1C00_0000, data | {"code"}),)),
        Level(3, (Memory("HyperRAM", L3_BYTES, 0, 0, data),)),
    )
    peak = MACS_PER_CYCLE_AND_CORE * cores
    kernels = str(ctx.options.get("kernels", KERNELS[0]))
    storage = STORAGE[PULP_NN if kernels.startswith(PULP_NN) else kernels]
    return MemoryHierarchy(levels, (CLUSTER_DMA, hyper_ram), cores, peak, storage)
