"""The parts that networks are compiled for: one record each, from public sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dory_core.api import OperatingPoint

KIB = 1024


@dataclass(frozen=True, slots=True)
class Store:
    """Where constants lie: a memory that is read like any other and keeps its content.

    Attributes:
        name: Name of the memory.
        kib: KiB of the memory.
        bytes_per_cycle: What a cycle of the core brings from it in long reads, counted from its
            width and clock.
        latency_cycles: Cycles of the core to its first byte.
    """

    name: str
    kib: int
    bytes_per_cycle: float
    latency_cycles: int


@dataclass(frozen=True, slots=True)
class Part:
    """A chip, or one of its cores.

    Attributes:
        name: Value of the option ``part``.
        summary: What it is.
        source: Where sizes and clocks stand.
        core: ``cortex-m55`` or ``cortex-m85``, as compilers call it.
        megahertz: Clock of the core.
        dtcm_kib: KiB of the memory next to the core: tiles, stack and variables.
        ram: Name of the memory of activations.
        ram_kib: KiB of it.
        ram_bytes_per_cycle: What a cycle of the core moves from or to it in long runs.
        store: Memory of constants.
        dma_reaches_dtcm: Whether a DMA controller of the chip is known to have a way to DTCM.
    """

    name: str
    summary: str
    source: str
    core: str
    megahertz: int
    dtcm_kib: int
    ram: str
    ram_kib: int
    ram_bytes_per_cycle: float
    store: Store
    dma_reaches_dtcm: bool

    @property
    def point(self) -> OperatingPoint:
        """The clock of the core; no energy of a cycle is published for any of them."""
        hertz = self.megahertz * 1e6
        return OperatingPoint(
            f"{self.megahertz}MHz", hertz, hertz, 0.0, self.source, (OPTION, (self.name,))
        )


#: Name of the option that chooses the part.
OPTION = "part"

CORSTONE = Part(
    name="corstone300",
    summary="Arm's Corstone-300 on an MPS3 board or QEMU; constants in DDR",
    source="Arm AN547 and AN552: memory map; the clock is an example",
    core="cortex-m55",
    megahertz=400,
    dtcm_kib=512,
    ram="SRAM",
    ram_kib=2048,
    ram_bytes_per_cycle=4.0,
    store=Store("DDR", 256 * KIB, 2.0, 40),
    dma_reaches_dtcm=False,
)
ALIF_HP = Part(
    name="ensemble-hp",
    summary="Alif Ensemble E3 to E7, the high-performance core; SRAM0 and MRAM",
    source="Zephyr ensemble_rtss_hp.dtsi: DTCM, 400 MHz; Alif device headers: DTCM_GLOBAL_BASE",
    core="cortex-m55",
    megahertz=400,
    dtcm_kib=1024,
    ram="SRAM0",
    ram_kib=4096,
    ram_bytes_per_cycle=4.0,
    store=Store("MRAM", 5632, 2.0, 20),
    dma_reaches_dtcm=True,  # it has a global address, 0x50800000
)
ALIF_HE = Part(
    name="ensemble-he",
    summary="Alif Ensemble E1 to E7, the high-efficiency core; SRAM0 and MRAM",
    source="Zephyr ensemble_rtss_he.dtsi: DTCM, 160 MHz; Alif device headers: DTCM_GLOBAL_BASE",
    core="cortex-m55",
    megahertz=160,
    dtcm_kib=256,
    ram="SRAM0",
    ram_kib=4096,
    ram_bytes_per_cycle=4.0,
    store=Store("MRAM", 5632, 2.0, 12),
    dma_reaches_dtcm=True,  # global address 0x60800000
)
RA8M1 = Part(
    name="ra8m1",
    summary="Renesas RA8M1 and RA8D1: a Cortex-M85",
    source="Renesas R01DS0418; Zephyr r7fa8m1ahecbd.dtsi: flash; r7fa8m1xh.dtsi: 480 and 240 MHz",
    core="cortex-m85",
    megahertz=480,
    dtcm_kib=64,
    ram="SRAM",
    ram_kib=896,
    ram_bytes_per_cycle=4.0,
    store=Store("flash", 2016, 2.0, 20),
    dma_reaches_dtcm=False,
)
APOLLO510 = Part(
    name="apollo510",
    summary="Ambiq Apollo510; shared SRAM and MRAM",
    source="Zephyr's hal_ambiq, am_apollo510.h: DTCM, SSRAM, MRAM; turbo clock 250 MHz",
    core="cortex-m55",
    megahertz=250,
    dtcm_kib=496,
    ram="SSRAM",
    ram_kib=3072,
    ram_bytes_per_cycle=4.0,
    store=Store("MRAM", 4032, 2.0, 12),
    dma_reaches_dtcm=False,
)
PSE84 = Part(
    name="psoc-edge-e84",
    summary="Infineon PSOC Edge E84, its Cortex-M55; SOCMEM and octal flash",
    source="Infineon device header: CY_CM55_DTCM_INTERNAL_SIZE; Zephyr pse84.cm55.dtsi: 400 MHz",
    core="cortex-m55",
    megahertz=400,
    dtcm_kib=256,
    ram="SOCMEM",
    ram_kib=5120,
    ram_bytes_per_cycle=4.0,
    store=Store("octal flash", 16 * KIB, 1.0, 60),
    dma_reaches_dtcm=True,  # CY_CM55_DTCM_REMAP_BASE, 0x48040000
)
STM32N6 = Part(
    name="stm32n657",
    summary="STM32N6, its Cortex-M55 alone; AXISRAM1 and 2, constants in XSPI flash",
    source="Zephyr stm32n657X0.dtsi: AXISRAM; not confirmed: DTCM, 800 MHz",
    core="cortex-m55",
    megahertz=800,
    dtcm_kib=128,
    ram="AXISRAM1 and 2",
    ram_kib=2047,
    ram_bytes_per_cycle=4.0,
    store=Store("XSPI flash", 64 * KIB, 0.5, 120),
    dma_reaches_dtcm=False,
)
HX6538 = Part(
    name="hx6538",
    summary="Himax WiseEye2, its large Cortex-M55; constants in QSPI flash",
    source="Himax SDK TrustZone_S_ONLY.ld: TCM, SRAM; not confirmed: 400 MHz",
    core="cortex-m55",
    megahertz=400,
    dtcm_kib=256,
    ram="SRAM",
    ram_kib=2048,
    ram_bytes_per_cycle=4.0,
    store=Store("QSPI flash", 16 * KIB, 0.125, 120),
    dma_reaches_dtcm=False,
)

PARTS = (CORSTONE, ALIF_HP, ALIF_HE, RA8M1, APOLLO510, PSE84, STM32N6, HX6538)
DEFAULT = CORSTONE
NAMES = tuple(part.name for part in PARTS)


def part_of(options: Mapping[str, Any]) -> Part:
    """Return the part of the target's options."""
    name = options.get(OPTION, DEFAULT.name)
    return next(part for part in PARTS if part.name == name)
