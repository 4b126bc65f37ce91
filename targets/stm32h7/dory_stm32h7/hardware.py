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
    Option,
    Target,
    TargetContext,
    UsageError,
    simulate,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7 import parts

NAME = "stm32h7"
PORTABLE = "portable"
KERNELS = ("builtin", PORTABLE)
CMSIS_NN = "cmsis-nn"  # cmsis-nn=PATH, or CMSIS_NN_PATH

# Stack and variables of the application lie in DTCM, above the arena.
STACK_BYTES = 8 * 1024
VARIABLES_BYTES = 4 * 1024
# Descriptors of the MDMA lie at the end of AXI SRAM: the MDMA fetches them over AXI.
DESCRIPTORS_BYTES = 16 * 1024
# Code, its constants, vector table and test vectors lie in flash before the network's constants.
CODE_BYTES = 128 * 1024

# Values of the option ``memory``: where kernels work.
AUTO, DTCM, D_CACHE, UNCACHED = "auto", "dtcm", "dcache", "uncached"
# Values of the option ``dma``.
MDMA, MEMCPY = "mdma", "memcpy"
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
        Option("external_flash_kib", int, 0, "KiB of the external flash of a part with one"),
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
    return MemoryHierarchy(
        (Level(1, l1), Level(2, rams), Level(3, (_flash(part, point.name),))),
        (_copy_link(part, by_core), _flash_link(part, by_core)),
        peak_macs_per_cycle=PEAK_MACS_PER_CYCLE,
        storage_bits=(8, 16, 32),
        in_place=mode != DTCM,
        cache=part.cache if mode == D_CACHE else None,
        one_memory=part.tcm is None,
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
    )


def _flash(part: parts.Part, point: str) -> Memory:
    """Return the memory of constants, with the wait states of an operating point."""
    flash = part.constants
    holds, reserved = frozenset({"weights", "code"}), CODE_BYTES
    if part.external is not None:
        holds, reserved = frozenset({"weights"}), 0
    if flash.serial is not None:
        access, line = float(flash.serial.access_cycles), float(flash.serial.line_cycles)
    else:
        waiting = part.bus_ratio * part.flash_waits(point)
        # Chips whose RAM is at the core also have their flash there.
        bus = 0 if part.rams[0].bus == "core" else part.bus_ratio
        access = costs.AXI_ACCESS * bus + waiting / (parts.CACHE_LINE // 4)
        line = costs.AXI_LINE * bus + waiting
    return Memory(
        flash.name,
        flash.size_bytes,
        reserved,
        holds,
        mapped=True,
        access_cycles=access,
        line_cycles=line,
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


def _flash_link(part: parts.Part, by_core: bool) -> Link:
    """Return the link over which constants come into tiles."""
    setup, rate = costs.FLASH_SETUP, costs.FLASH_BYTES_PER_CYCLE / part.bus_ratio
    issue = costs.MDMA_ISSUE
    if by_core:
        setup = issue = costs.MEMCPY_SETUP
        rate = costs.MEMCPY_FLASH_BYTES_PER_CYCLE
    serial = part.constants.serial
    if serial is not None:
        setup, rate = setup + serial.setup_cycles, serial.bytes_per_cycle
    return Link(
        upper=2,
        lower=3,
        setup_cycles=setup,
        bytes_per_cycle=rate,
        issue_cycles=issue,
        blocking=by_core,
    )
