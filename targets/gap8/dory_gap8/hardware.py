"""Memories, links, options and operating points of GAP8, as data with their sources."""

from __future__ import annotations

from dataclasses import replace

from dory_core.api import (
    InstructionCache,
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    OperatingPoint,
    Option,
    Target,
    TargetContext,
    UsageError,
)
from dory_gap8.code_sizes import L2_RESERVED_BYTES, SIZES

NAME = "gap8"
MAX_CORES = 8
# A dot product of four 8-bit pairs is one instruction.
MACS_PER_CYCLE_AND_CORE = 4
GVSOC, GAPUINO, GAPUINO_L2 = "gvsoc", "gapuino", "gapuino-l2"
BOARDS = (GVSOC, GAPUINO, GAPUINO_L2)
F_CLUSTER, F_IO = "f_cluster", "f_io"
PROFILES = ("none", "layers")
KERNELS = ("dory", "portable")
PULP_NN = "pulp-nn="
DMA_COUNTERS = 16  # of the cluster's DMA; each open ticket has one

L1_BYTES = 64 * 1024
L2_BYTES = 512 * 1024
L3_BYTES = 8 * 1024 * 1024
# The SDK's allocator of the HyperRAM keeps the first bytes, so that no block is at address 0.
L3_RESERVED_BYTES = 64
# The flash also holds the program and the test vectors.
FLASH_BYTES = 64 * 1024 * 1024
FLASH_RESERVED_BYTES = 16 * 1024 * 1024

# Widths in which activations are stored, by the option ``kernels``. PULP-NN takes whole bytes only.
ALL_BITS = (2, 4, 8, 16, 32)
STORAGE = {"dory": ALL_BITS, "portable": ALL_BITS, PULP_NN: (8, 16, 32)}

# Stacks lie in L1, and an overflow raises an exception. Of 53 networks the deepest layers, 1x1
# convolutions in parts whose sums go through C, take 1104 bytes with the chip's compiler, all but
# two at most 992; core 0 also moves rows of rolling buffers by way of 1 KiB, 1264 in all. Another
# compiler is counted by tests/test_chip_build.py. What a kernel needs beyond is scratch of its
# tiles. An odd number of words: what cores read of their stacks at a time lies in different banks.
STACK_CORE0_BYTES = 1348
STACK_CORE_BYTES = 1140

# What pulp-os takes of L1: 32 bytes of data, and up to 8 each by which stacks and arena are
# rounded. A network that fills its arena to the last byte has so much less stack on core 0.
L1_RUNTIME_BYTES = 48

# L2 also holds code with its constants. What planning takes for granted of a layer, in L2 or
# streamed, and of one that runs the function of another one; the rule of code_sizes checks plans.
CODE_BYTES_PER_LAYER = (300, 700)
CODE_BYTES_PER_ROW = (120, 300)

# Highest clocks of cluster and fabric in MHz by the voltage in mV. At 1.0 V the vendor names 87 for
# the cluster; the paper ran at 100.
CLOCK_LIMITS_MHZ = {1000: (100, 150), 1200: (175, 250)}

LOW_VOLTAGE = OperatingPoint(
    "1.0V",
    core_hz=100e6,
    io_hz=100e6,
    # 63 pJ/MAC at about 8 MAC/cycle.
    energy_j_per_cycle=63e-12 * 8,
    cores=8,
    source="DORY (IEEE TC 2021): 100/100 MHz at 1.0 V, MobileNetV1-1.0-128 on average 63 pJ/MAC "
    "at about 8 MAC/cycle",
)
HIGH_VOLTAGE = OperatingPoint(
    "1.2V",
    core_hz=175e6,
    io_hz=250e6,
    energy_j_per_cycle=63e-12 * 8 * 1.44,
    cores=8,
    source="vendor: cluster 175 MHz, fabric 250 MHz at 1.2 V; energy scaled from 1.0 V with the "
    "square of the voltage",
)

TARGET = Target(
    NAME,
    "GreenWaves GAP8: eight RISC-V cores with 64 KiB of L1, 512 KiB of L2, 8 MiB of HyperRAM",
    options=(
        Option(
            "board",
            str,
            GVSOC,
            "gvsoc: the simulator; gapuino: the board, whose DMA must not have commands queued; "
            "gapuino-l2: the same without HyperRAM",
            BOARDS,
        ),
        Option("profile", str, "none", "layers: cycles of each layer on the target", PROFILES),
        Option(
            F_CLUSTER,
            int,
            0,
            "clock of the cluster in MHz, 0: that of the operating point",
            clock="core",
        ),
        Option(F_IO, int, 0, "clock of the fabric and its uDMA in MHz, 0: likewise", clock="io"),
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


# Cluster DMA, measured: 26 cycles + 8 bytes per cycle until its event, at least 34; a cycle per row
# (towards L1 rows of 8 bytes and more are free), 17 for each further plane, a command of its own;
# rows of one byte take a cycle each. The port of L2 is busy for a cycle per 4 bytes: 8192 bytes
# take 2086 cycles until the next access of L2 gets through, 32768 bytes 8231. A wait of the HAL is
# such an access. Beside a load of 2100 cycles, 1x1 kernels take 442 cycles longer. Loads by words
# take a cycle per word; MCHAN may give half of that, see README.md.
CLUSTER_DMA = Link(
    upper=1,
    lower=2,
    setup_cycles=26,
    bytes_per_cycle=8.0,
    row_cycles=1.0,
    issue_cycles=26,
    plane_cycles=17,
    minimum_cycles=34,
    element_cycles=1.0,
    port_bytes_per_cycle=4.0,
    contention=0.2,
    words_per_cycle=0.97,
    least_words_per_cycle=0.5,
)

# The instruction cache of the cluster: 4 KiB in lines of 16 bytes, four ways, one refill at a time
# for all cores. At the port of L2, after the bursts of the DMA, it waits for as long as they have
# been under way; without one a line takes 12 cycles. Around the kernel run 512 bytes. A line
# of the first tile adds 7 cycles: the cycles of kernels contain the rest. Kernels that do not say
# what they run take 0.7 of their code, the mean of the others. Further tiles: the misses of random
# replacement, which are those that GVSOC counts in layers with 2 to 12 tiles of 118 to 311 lines.
# For loads by words they wait for 0.2 to 0.8 of the load (180 layers of eleven networks on GVSOC).
CODE_CACHE = InstructionCache(
    size_bytes=4096,
    line_bytes=16,
    ways=4,
    driver_bytes=512,
    running_share=0.7,
    first_cycles=7.0,
    miss_cycles=12.0,
    wait_cycles=100.0,
    words_wait=0.5,
)
# What an inference takes outside of its layers: the team of cores is forked (200), cores fetch the
# first lines of `dory_network_run` and meet (250), it returns and the team ends (250).
NETWORK_CYCLES = 700
# What the tile loop takes per tile beyond that: 70 to 130 cycles, and what cores wait for each
# other where their shares of a tile differ.
TILE_CYCLES = 200

# HyperRAM read from the cluster, in cycles of the cluster: a transfer keeps the RAM for 609 + 1.23
# per byte at 100/100 MHz when nothing else uses L2, 1.44 per byte while the cluster works; for 409
# + 0.865 per byte at 250/175 MHz. Core 0 spends 900 on each of them within a network, where code
# misses: 470 in the SDK and its HAL to start it, 230 to wait for it, the rest in the table of
# events.
_EXT_ISSUE = 900


def _hyper_ram(setup_cycles: float, byte_cycles: float) -> Link:
    """Return the link to a HyperRAM, given how long a transfer keeps it, at all and per byte."""
    return Link(
        upper=2,
        lower=3,
        setup_cycles=round(setup_cycles) + _EXT_ISSUE,
        bytes_per_cycle=1 / byte_cycles,
        issue_cycles=_EXT_ISSUE,
    )


HYPER_RAM_100 = _hyper_ram(609, 1.44)
HYPER_RAM_250 = _hyper_ram(409, 0.865)


def barrier_cycles(cores: int) -> int:
    """Return the cycles of one barrier: none for one core, 22 for 8, growing with the cores.

    The team meets at a counter that each core updates, two cycles apiece after a fixed part for
    going to sleep and waking up.
    """
    return 0 if cores == 1 else 6 + 2 * cores


def stack_core0_bytes(arena_bytes: int, cores: int) -> int:
    """Return the stack of core 0 next to an arena of L1 that is used to ``arena_bytes``."""
    left = L1_BYTES - L1_RUNTIME_BYTES - arena_bytes - STACK_CORE_BYTES * (cores - 1)
    return min(STACK_CORE0_BYTES, left // 4 * 4)


def millivolts(point: OperatingPoint) -> int:
    """Return the chip's voltage at an operating point; points are named after it."""
    return round(float(point.name.removesuffix("V")) * 1000)


def check_options(ctx: TargetContext) -> None:
    """Raise UsageError for cores, clocks or kernels that there are not."""
    cores = int(ctx.options.get("cores", MAX_CORES))
    if not 1 <= cores <= MAX_CORES:
        raise UsageError(f"GAP8 has no {cores} cores", f"--set cores=1 to --set cores={MAX_CORES}")
    kernels = str(ctx.options.get("kernels", KERNELS[0]))
    if kernels not in KERNELS and not kernels.startswith(PULP_NN):
        known = f"known: {', '.join(KERNELS)}, {PULP_NN}PATH"
        raise UsageError(f"there are no kernels {kernels!r} for {NAME}", known)
    point = ctx.operating_point or LOW_VOLTAGE
    clocks = ((F_CLUSTER, point.core_hz), (F_IO, point.io_hz))
    limits = CLOCK_LIMITS_MHZ[millivolts(point)]
    for (option, clock), most in zip(clocks, limits, strict=True):
        if not 0 < clock <= most * 1e6:
            raise UsageError(
                f"{option} {round(clock / 1e6)} is not possible at {point.name}",
                f"--set {option}=1 to --set {option}={most}, or another operating_point",
            )


def hyper_ram(point: OperatingPoint) -> Link:
    """Return the costs of HyperRAM transfers; they run at the clock of the fabric."""
    for known, link in ((LOW_VOLTAGE, HYPER_RAM_100), (HIGH_VOLTAGE, HYPER_RAM_250)):
        if (point.core_hz, point.io_hz) == (known.core_hz, known.io_hz):
            return link
    ratio = point.core_hz / point.io_hz
    return _hyper_ram(609 * ratio, 1.44 * ratio)


def hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the chip for the chosen board, cores and operating point."""
    cores = int(ctx.options.get("cores", MAX_CORES))
    board = ctx.options.get("board", GVSOC)
    data = frozenset({"activations", "weights"})
    reserved = stack_bytes(cores)
    l2 = Memory(
        "L2 SRAM",
        L2_BYTES,
        L2_RESERVED_BYTES,
        data | {"code"},
        code_bytes_per_layer=CODE_BYTES_PER_LAYER,
        code_bytes_per_row=CODE_BYTES_PER_ROW,
        code=SIZES,
    )
    levels = [
        Level(1, (Memory("TCDM", L1_BYTES, reserved, data),)),
        Level(2, (l2,)),
    ]
    links = [replace(CLUSTER_DMA, blocking=board != GVSOC)]
    if board != GAPUINO_L2:
        flash = Memory(
            "HyperFlash",
            FLASH_BYTES,
            FLASH_RESERVED_BYTES,
            holds=frozenset({"weights"}),
            read_only=True,
        )
        levels.append(Level(3, (Memory("HyperRAM", L3_BYTES, L3_RESERVED_BYTES, data), flash)))
        links.append(hyper_ram(ctx.operating_point or LOW_VOLTAGE))
    peak = MACS_PER_CYCLE_AND_CORE * cores
    kernels = str(ctx.options.get("kernels", KERNELS[0]))
    storage = STORAGE[PULP_NN if kernels.startswith(PULP_NN) else kernels]
    # The cycles of portable kernels are no counts: they stand for a whole tile.
    measured = kernels != "portable"
    step_cycles, instructions = (TILE_CYCLES, CODE_CACHE) if measured else (0, None)
    return MemoryHierarchy(
        tuple(levels),
        tuple(links),
        cores,
        peak,
        storage,
        step_cycles=step_cycles,
        instructions=instructions,
        barrier_cycles=barrier_cycles(cores),
        network_cycles=NETWORK_CYCLES,
        resident_l1=True,
    )
