"""Memories, links and options of the target, for each part of its table (parts.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dory_core.api import (
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    OperatingPoint,
    Option,
    Target,
    TargetContext,
    UsageError,
    simulate,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7 import parts
from dory_stm32h7.buses import BUSES
from dory_stm32h7.part import MOST_CODE

NAME = "stm32h7"
PORTABLE = "portable"
KERNELS = ("builtin", PORTABLE)

# Stack and variables of the application lie in DTCM, above the arena.
STACK_BYTES = 8 * 1024
VARIABLES_BYTES = 4 * 1024
# Descriptors of the MDMA lie at the end of AXI SRAM: the MDMA fetches them over AXI.
DESCRIPTORS_BYTES = 16 * 1024

# What a load moves.
WORD_BYTES = 4

# Values of the option ``memory``: where kernels work.
AUTO, DTCM, D_CACHE, UNCACHED = "auto", "dtcm", "dcache", "uncached"
# Values of the option ``dma``.
MDMA, MEMCPY = "mdma", "memcpy"
# Ways out for networks that are too large.
_LARGER_RAM = "stream through RAM outside of the chip with `--set external_ram_kib=8192`"
_LARGER_FLASH = "place constants in flash outside of the chip with `--set external_flash_kib=8192`"
_ACTIVATIONS = frozenset({"activations"})
# SMLAD multiplies two pairs and adds the products; one per cycle.
PEAK_MACS_PER_CYCLE = 2.0

TARGET = Target(
    NAME,
    "STM32H7 and F7, and other chips with a Cortex-M7, M4 or M33; STM32H743 unless part= says more",
    options=(
        Option(parts.OPTION, str, parts.DEFAULT.name, "the chip", parts.NAMES),
        Option(
            "kernels",
            str,
            "builtin",
            "builtin: dory's own kernels, portable C where they reject a layer; cmsis-nn=PATH: "
            "those of CMSIS-NN first, from sources at PATH or CMSIS_NN_PATH; portable: portable C "
            "only",
        ),
        Option(
            "dma",
            str,
            AUTO,
            "who moves the data: the mdma of parts that have one, or the core (memcpy)",
            (AUTO, MDMA, MEMCPY),
        ),
        Option(
            "memory",
            str,
            AUTO,
            "dtcm: tiles are moved to DTCM, of parts that have it; dcache: layers run on SRAM and "
            "flash through the D-cache; uncached: the same without a D-cache",
            (AUTO, DTCM, D_CACHE, UNCACHED),
        ),
        Option("flash_kib", int, 0, "KiB of flash, of a part with less or of a generic one"),
        Option("ram_kib", int, 0, "KiB of RAM of a generic part"),
        Option(
            "external_flash_kib",
            int,
            0,
            "KiB of a mapped flash outside of the chip (QUADSPI, OCTOSPI), for constants that the "
            "flash of the chip has no room for",
        ),
        Option(
            "external_ram_kib",
            int,
            0,
            "KiB of RAM outside of the chip (SDRAM, PSRAM): activations that L2 has no room for "
            "pass through it",
        ),
        Option("clock_mhz", int, 0, "clock of the core in MHz", clock="core"),
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
    operating_points=parts.operating_points(),
)


def memory_mode(options: Mapping[str, Any]) -> str:
    """Return where kernels work: DTCM, D_CACHE or UNCACHED. Raises UsageError."""
    part, wanted = parts.part_of(options), options.get("memory", AUTO)
    offered = [DTCM] if part.tcm else []
    offered += [D_CACHE] if part.cache else []
    offered.append(UNCACHED)
    if wanted == AUTO:
        return offered[0]
    if wanted not in offered:
        missing = "DTCM" if wanted == DTCM else "D-cache"
        raise UsageError(
            f"memory={wanted}: part {part.name} has no {missing}",
            f"it takes {', '.join(offered)}",
        )
    return str(wanted)


def copies(options: Mapping[str, Any]) -> bool:
    """Return True when the core moves all data itself. Raises UsageError."""
    part, wanted = parts.part_of(options), options.get("dma", AUTO)
    if wanted == MDMA and part.mdma is None:
        raise UsageError(
            f"dma={MDMA}: part {part.name} has no MDMA", f"leave it out: the core copies ({MEMCPY})"
        )
    return part.mdma is None or wanted == MEMCPY or memory_mode(options) != DTCM


def in_place(ctx: TargetContext) -> bool:
    """Return True when kernels work on SRAM and flash instead of tiles in DTCM."""
    return memory_mode(ctx.options) != DTCM


def hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the part for the chosen way of moving data. Raises UsageError."""
    part = parts.part_of(ctx.options)
    mode, by_core = memory_mode(ctx.options), copies(ctx.options)
    point = ctx.operating_point or part.points[0].clock
    rams = tuple(_ram(part, number) for number in range(len(part.rams)))
    if part.tcm is None:
        own = STACK_BYTES + VARIABLES_BYTES
        rams = (replace(rams[0], reserved_bytes=own),)
        l1: tuple[Memory, ...] = rams
    else:
        l1 = (Memory("DTCM", part.tcm.size_bytes, STACK_BYTES + VARIABLES_BYTES),)
    levels, links = [Level(1, l1), Level(2, rams)], [_copy_link(part, by_core)]
    if part.external_ram is not None:
        levels.append(Level(3, (_external_ram(part.external_ram),)))
        links.append(_ram_link(part.external_ram, by_core, mode != UNCACHED, point.core_hz))
    flash = len(levels) + 1
    flashes = part.constants
    levels.append(Level(flash, tuple(_flash(part, one, point) for one in flashes)))
    to_tiles = [_flash_link(part, one, by_core, point.core_hz, flash) for one in flashes]
    links.append(to_tiles[0])
    return MemoryHierarchy(
        tuple(levels),
        tuple(links),
        peak_macs_per_cycle=PEAK_MACS_PER_CYCLE,
        storage_bits=(8, 16, 32),
        in_place=mode != DTCM,
        resident_l1=mode == DTCM,
        layer_cycles=costs.LAYER,
        smaller_l1=() if by_core or mode != DTCM else costs.SMALLER_L1,
        cache=part.cache if mode == D_CACHE else None,
        one_memory=part.tcm is None,
        far_link=to_tiles[1] if len(flashes) > 1 else None,
        # Other FPUs round to integers in another way: they get integers.
        keeps_binary32=part.core.fpv5 and ctx.options.get("kernels") != PORTABLE,
    )


def _ram(part: parts.Part, number: int) -> Memory:
    """Return a memory of activations. The first one ends with the lists of the MDMA."""
    ram = part.rams[number]
    access, line = {
        "axi": (costs.AXI_ACCESS, costs.AXI_LINE),
        "ahb": (costs.AHB_ACCESS, costs.AHB_LINE),
        "core": (0, 0),
    }[ram.bus]
    return Memory(
        ram.name,
        ram.size_bytes,
        DESCRIPTORS_BYTES if part.mdma and number == 0 else 0,
        _ACTIVATIONS,
        parts.CACHE_LINE,
        access_cycles=access * part.bus_ratio,
        line_cycles=line * part.bus_ratio,
        remedy=_LARGER_RAM if part.ram_port and not part.external_ram else "",
    )


def _external_ram(ram: parts.Ram) -> Memory:
    """Return the memory outside of the chip through which activations are streamed."""
    return Memory(ram.name, ram.size_bytes, 0, _ACTIVATIONS, parts.CACHE_LINE)


def _flash(part: parts.Part, flash: parts.Flash, point: OperatingPoint) -> Memory:
    """Return a memory of constants, with its wait states at an operating point."""
    holds, reserved = frozenset({"weights", "code"}), MOST_CODE
    if flash is part.external:
        holds, reserved = frozenset({"weights"}), 0
    if flash.bus:
        bus = BUSES[flash.bus]
        access = bus.cycles(WORD_BYTES, point.core_hz)
        line = bus.cycles(parts.CACHE_LINE, point.core_hz)
    else:
        waiting = part.bus_ratio * part.flash_waits(point.name)
        # Chips whose RAM is at the core also have their flash there.
        ratio = 0 if part.rams[0].bus == "core" else part.bus_ratio
        access = costs.AXI_ACCESS * ratio + waiting / (parts.CACHE_LINE // WORD_BYTES)
        line = costs.AXI_LINE * ratio + waiting
    return Memory(
        flash.name,
        flash.size_bytes,
        reserved,
        holds,
        mapped=True,
        access_cycles=access,
        line_cycles=line,
        remedy=_LARGER_FLASH if part.flash_port and not part.external else "",
    )


def _copy_link(part: parts.Part, by_core: bool) -> Link:
    """Return the link between the tiles and the memories of activations."""
    if by_core:
        return Link(
            upper=1,
            lower=2,
            setup_cycles=costs.MEMCPY_SETUP,
            bytes_per_cycle=costs.MEMCPY_BYTES_PER_CYCLE,
            row_cycles=costs.MEMCPY_ROW,
            issue_cycles=costs.MEMCPY_SETUP,
            element_cycles=costs.MEMCPY_ELEMENT,
            blocking=True,
        )
    return Link(
        upper=1,
        lower=2,
        setup_cycles=costs.MDMA_SETUP,
        bytes_per_cycle=costs.MDMA_BYTES_PER_CYCLE / part.bus_ratio,
        row_cycles=costs.MDMA_ROW,
        issue_cycles=costs.MDMA_ISSUE,
        element_cycles=costs.MDMA_ELEMENT,
    )


def _ram_link(ram: parts.Ram, by_core: bool, cached: bool, core_hz: float) -> Link:
    """Return the link between the memories of activations and the one outside of the chip."""
    bus = BUSES[ram.bus]
    setup, issue, run = costs.MDMA_SETUP, costs.MDMA_ISSUE, bus.run_bytes
    if by_core:
        setup = issue = costs.MEMCPY_SETUP
        run = parts.CACHE_LINE if cached else WORD_BYTES
    return Link(
        upper=2,
        lower=3,
        setup_cycles=setup + bus.setup_cycles(core_hz),
        bytes_per_cycle=bus.rate(run, core_hz),
        issue_cycles=issue,
        blocking=by_core,
        alignment_bytes=8,  # the widest beats of the MDMA
    )


def _flash_link(
    part: parts.Part, flash: parts.Flash, by_core: bool, core_hz: float, level: int
) -> Link:
    """Return the link over which constants come from a flash of a level into tiles."""
    setup, rate = costs.FLASH_SETUP, costs.FLASH_BYTES_PER_CYCLE / part.bus_ratio
    issue = costs.MDMA_ISSUE
    if by_core:
        setup = issue = costs.MEMCPY_SETUP
        rate = costs.MEMCPY_FLASH_BYTES_PER_CYCLE
    if flash.bus:
        bus = BUSES[flash.bus]
        setup += bus.setup_cycles(core_hz)
        rate = min(rate, bus.rate(parts.CACHE_LINE if by_core else bus.run_bytes, core_hz))
    return Link(
        upper=level - 1,
        lower=level,
        setup_cycles=setup,
        bytes_per_cycle=rate,
        issue_cycles=issue,
        blocking=by_core,
    )
