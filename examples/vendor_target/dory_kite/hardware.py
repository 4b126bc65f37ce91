"""Memories, DMA and clock of Kite, as data.

A vendor writes here what the data sheet says, and where it says so. Kite is an example: one
RV32IMC core, 32 KiB of tightly coupled memory, 256 KiB of SRAM, and a DMA without any luxury.
"""

from __future__ import annotations

from dory_core.api import (
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    OperatingPoint,
    Target,
)

NAME = "kite"

TARGET = Target(
    NAME,
    "Kite: one RV32IMC core, 32 KiB of TCM filled by a DMA of words, 256 KiB of SRAM",
    operating_points=(
        OperatingPoint(
            "nominal", core_hz=80e6, io_hz=80e6, energy_j_per_cycle=2e-10, source="an example"
        ),
    ),
)

# The stack lies at the end of the TCM.
TCM = Memory("TCM", size_bytes=32 * 1024, reserved_bytes=4 * 1024, alignment_bytes=4)
# Activations and constants; data of the program are reserved.
SRAM = Memory("SRAM", size_bytes=256 * 1024, reserved_bytes=16 * 1024, alignment_bytes=4)

# Source, destination and length are multiples of 4 bytes, a command moves one row of at most 4092
# bytes. What that does not allow the core copies, at some 3 cycles a byte.
DMA = Link(
    upper=1,
    lower=2,
    setup_cycles=24,
    bytes_per_cycle=4.0,
    alignment_bytes=4,
    dimensions=1,
    max_bytes=4092,
    core_cycles_per_byte=3.0,
)

HIERARCHY = MemoryHierarchy(
    (Level(1, (TCM,)), Level(2, (SRAM,))), (DMA,), cores=1, storage_bits=(8, 16, 32)
)
