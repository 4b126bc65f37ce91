"""Memories, links, options and operating points of the STM32H743, as data with their sources."""

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
    caches,
    simulate,
)
from dory_stm32h7 import calibration

NAME = "stm32h7"
KERNELS = ("builtin", "portable")
CMSIS_NN = "cmsis-nn"  # cmsis-nn=PATH, or CMSIS_NN_PATH

# RM0433 rev 8, section 2.3: memory map.
DTCM_ADDRESS, DTCM_BYTES = 0x2000_0000, 128 * 1024
AXI_ADDRESS, AXI_BYTES = 0x2400_0000, 512 * 1024
D2_ADDRESS, D2_BYTES = 0x3000_0000, 288 * 1024  # SRAM1, SRAM2 and SRAM3 in a row
FLASH_ADDRESS, FLASH_BYTES = 0x0800_0000, 2 * 1024 * 1024

# Stack and variables of the application lie in DTCM, above the arena.
STACK_BYTES = 8 * 1024
VARIABLES_BYTES = 4 * 1024
# Descriptors of the MDMA lie at the end of AXI SRAM: the MDMA fetches them over AXI.
DESCRIPTORS_BYTES = 16 * 1024
# Code, its constants, vector table and test vectors lie in flash before the network's constants.
CODE_BYTES = 128 * 1024

CACHE_LINE = 32
# The L1 data cache of this core (data sheet DS12110; Cortex-M7 manual DDI 0489).
DATA_CACHE = caches.Cache(size_bytes=16 * 1024, ways=4, line_bytes=CACHE_LINE)
# Values of the option ``memory``: where kernels work.
DTCM, D_CACHE, UNCACHED = "dtcm", "dcache", "uncached"
# SMLAD multiplies two pairs and adds the products; one per cycle.
PEAK_MACS_PER_CYCLE = 2.0

VOS1 = OperatingPoint(
    "400MHz",
    core_hz=400e6,
    io_hz=200e6,
    energy_j_per_cycle=calibration.ENERGY_J_PER_CYCLE_VOS1,
    source="data sheet DS12110: VOS1, core 400 MHz, AXI 200 MHz; product page: 275 uA/MHz, 3.3 V",
)
VOS0 = OperatingPoint(
    "480MHz",
    core_hz=480e6,
    io_hz=240e6,
    energy_j_per_cycle=calibration.ENERGY_J_PER_CYCLE_VOS0,
    source="data sheet DS12110: VOS0, core 480 MHz, AXI 240 MHz, 1.35 V; 275 uA/MHz scaled from "
    "the 1.20 V of VOS1",
)

FLASH_WAITS = {
    VOS1.name: calibration.FLASH_WAITS_VOS1,
    VOS0.name: calibration.FLASH_WAITS_VOS0,
}

TARGET = Target(
    NAME,
    "STM32H743: Cortex-M7, 128 KiB of DTCM filled by the MDMA, 800 KiB of SRAM, 2 MiB of flash",
    options=(
        Option(
            "kernels",
            str,
            "builtin",
            "builtin: dory's own kernels, portable C where they reject a layer; cmsis-nn=PATH: "
            "those of CMSIS-NN first, from sources at PATH or CMSIS_NN_PATH; portable: portable C "
            "only",
        ),
        Option("dma", str, "mdma", "who moves the data: mdma or memcpy", ("mdma", "memcpy")),
        Option(
            "memory",
            str,
            DTCM,
            "dtcm: tiles are moved to DTCM; dcache: layers run on SRAM and flash through the "
            "D-cache; uncached: the same with the D-cache off",
            (DTCM, D_CACHE, UNCACHED),
        ),
        Option(
            "form",
            str,
            "application",
            "application: with start-up, main and linker script; library: without, for a project "
            "of your own",
            ("application", "library"),
        ),
        simulate.VECTORS_OPTION,
    ),
    operating_points=(VOS0, VOS1),
)

MDMA = Link(
    upper=1,
    lower=2,
    setup_cycles=calibration.MDMA_SETUP,
    bytes_per_cycle=calibration.MDMA_BYTES_PER_CYCLE,
    row_cycles=calibration.MDMA_ROW,
    issue_cycles=calibration.MDMA_ISSUE,
    element_cycles=calibration.MDMA_ELEMENT,
)
FLASH = Link(
    upper=2,
    lower=3,
    setup_cycles=calibration.FLASH_SETUP,
    bytes_per_cycle=calibration.FLASH_BYTES_PER_CYCLE,
    issue_cycles=calibration.MDMA_ISSUE,
)
MEMCPY = Link(
    upper=1,
    lower=2,
    setup_cycles=calibration.MEMCPY_SETUP,
    bytes_per_cycle=calibration.MEMCPY_BYTES_PER_CYCLE,
    row_cycles=calibration.MEMCPY_ROW,
    issue_cycles=calibration.MEMCPY_SETUP,
    element_cycles=calibration.MEMCPY_ELEMENT,
)


_ACTIVATIONS = frozenset({"activations"})
AXI_SRAM = Memory(
    "AXI SRAM",
    AXI_BYTES,
    DESCRIPTORS_BYTES,
    _ACTIVATIONS,
    CACHE_LINE,
    access_cycles=calibration.AXI_ACCESS,
    line_cycles=calibration.AXI_LINE,
)
D2_SRAM = Memory(
    "D2 SRAM",
    D2_BYTES,
    0,
    _ACTIVATIONS,
    CACHE_LINE,
    access_cycles=calibration.D2_ACCESS,
    line_cycles=calibration.D2_LINE,
)


def _flash(ctx: TargetContext) -> Memory:
    """Return the flash, whose wait states depend on the operating point."""
    point = ctx.operating_point or VOS0
    # Wait states are cycles of the bus, which has half the clock of the core.
    waiting = 2 * FLASH_WAITS[point.name]
    words = CACHE_LINE // 4
    return Memory(
        "flash",
        FLASH_BYTES,
        CODE_BYTES,
        frozenset({"weights", "code"}),
        mapped=True,
        access_cycles=calibration.AXI_ACCESS + waiting / words,
        line_cycles=calibration.AXI_LINE + waiting,
    )


def in_place(ctx: TargetContext) -> bool:
    """Return True when kernels work on SRAM and flash instead of tiles in DTCM."""
    return ctx.options.get("memory", DTCM) != DTCM


def hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the chip for the chosen way of moving data."""
    link = MEMCPY if ctx.options.get("dma") == "memcpy" else MDMA
    return MemoryHierarchy(
        (
            Level(1, (Memory("DTCM", DTCM_BYTES, STACK_BYTES + VARIABLES_BYTES),)),
            Level(2, (AXI_SRAM, D2_SRAM)),
            Level(3, (_flash(ctx),)),
        ),
        (link, FLASH),
        peak_macs_per_cycle=PEAK_MACS_PER_CYCLE,
        storage_bits=(8, 16, 32),
        in_place=in_place(ctx),
        cache=DATA_CACHE if ctx.options.get("memory") == D_CACHE else None,
    )
