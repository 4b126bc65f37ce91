"""Memories, links and options of the target, for each part of its table (parts.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_core.api import (
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    Option,
    Target,
    TargetContext,
    UsageError,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55 import parts

NAME = "cortex_m55"
BUILTIN, PORTABLE = KERNELS = ("builtin", "portable")
#: Values of the option ``dma``.
CORE, DMA = "core", "dma"
#: Values of the option ``constants``.
STORE, RAM = "store", "ram"

# Stack and variables of the program lie in DTCM, next to the arena.
PROGRAM_BYTES = 12 * 1024
# Code, its constants and test vectors, where constants lie.
CODE_BYTES = 128 * 1024
# VMLADAV multiplies 16 pairs of bytes in two cycles.
PEAK_MACS_PER_CYCLE = 8.0
# Lines of the data cache: what a DMA moves begins and ends with one.
LINE_BYTES = 32

TARGET = Target(
    NAME,
    "chips with a Cortex-M55 or M85 and Helium; Arm's Corstone-300 unless part= says more",
    options=(
        Option(parts.OPTION, str, parts.DEFAULT.name, "the chip", parts.NAMES),
        Option(
            "kernels",
            str,
            BUILTIN,
            "builtin: kernels in Helium, portable C where they reject a layer; cmsis-nn=PATH: "
            "those of CMSIS-NN first, from sources at PATH or CMSIS_NN_PATH; portable: all in C",
        ),
        Option(
            "dma",
            str,
            CORE,
            "who moves the data: the core, or a DMA by functions of your program",
            (CORE, DMA),
        ),
        Option(
            "constants",
            str,
            STORE,
            "store: constants stay in flash, MRAM or DDR; ram: start-up code copies them to the "
            "RAM of activations",
            (STORE, RAM),
        ),
        Option("flash_kib", int, 0, "KiB of the memory of constants, where yours has less or more"),
        Option("clock_mhz", int, 0, "clock of the core in MHz", clock="core"),
    ),
    operating_points=tuple(part.point for part in parts.PARTS),
)


def has_dma(options: Mapping[str, Any]) -> bool:
    """Return True when a DMA moves the data. Raises UsageError where it has no way to DTCM."""
    part = parts.part_of(options)
    if options.get("dma", CORE) != DMA:
        return False
    if not part.dma_reaches_dtcm:
        able = ", ".join(one.name for one in parts.PARTS if one.dma_reaches_dtcm)
        raise UsageError(
            f"dma={DMA}: no DMA of part {part.name} is known to reach its DTCM",
            f"leave it out: the core copies; parts with one: {able}",
        )
    return True


def hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the part. Raises UsageError."""
    part = parts.part_of(ctx.options)
    kib = int(ctx.options.get("flash_kib", 0)) or part.store.kib
    if kib * parts.KIB <= CODE_BYTES:
        raise UsageError(
            f"flash_kib={kib}: {CODE_BYTES // parts.KIB} KiB of it are for code",
            "leave the option out",
        )
    by_dma = has_dma(ctx.options)
    dtcm = Memory("DTCM", part.dtcm_kib * parts.KIB, PROGRAM_BYTES)
    in_ram = ctx.options.get("constants", STORE) == RAM
    ram = Memory(
        part.ram,
        part.ram_kib * parts.KIB,
        holds=frozenset({"activations", "weights"} if in_ram else {"activations"}),
        alignment_bytes=LINE_BYTES,
    )
    store = Memory(
        part.store.name,
        kib * parts.KIB,
        CODE_BYTES,
        frozenset({"weights", "code"}),
        mapped=True,
    )
    levels = Level(1, (dtcm,)), Level(2, (ram,)), Level(3, (store,))
    links = (
        _link(1, part.ram_bytes_per_cycle, costs.RAM_LATENCY, by_dma),
        _link(2, part.store.bytes_per_cycle, part.store.latency_cycles, by_dma),
    )
    return MemoryHierarchy(
        levels[:2] if in_ram else levels,
        links[:1] if in_ram else links,
        peak_macs_per_cycle=PEAK_MACS_PER_CYCLE,
        storage_bits=(8, 16, 32),
        keeps_binary32=ctx.options.get("kernels") != PORTABLE,
        resident_l1=True,
    )


def _link(upper: int, rate: float, latency: int, by_dma: bool) -> Link:
    """Return the link of a memory that gives ``rate`` bytes per cycle after ``latency`` cycles."""
    if by_dma:
        return Link(
            upper=upper,
            lower=upper + 1,
            setup_cycles=costs.DMA_SETUP + latency,
            bytes_per_cycle=rate,
            row_cycles=costs.DMA_ROW,
            issue_cycles=costs.DMA_ISSUE,
            element_cycles=costs.DMA_ROW,
        )
    return Link(
        upper=upper,
        lower=upper + 1,
        setup_cycles=costs.COPY_SETUP + latency,
        bytes_per_cycle=min(rate, costs.COPY_BYTES_PER_CYCLE),
        row_cycles=costs.COPY_ROW,
        issue_cycles=costs.COPY_SETUP + latency,
        element_cycles=costs.COPY_ROW,
        blocking=True,
    )
