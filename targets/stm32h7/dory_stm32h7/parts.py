"""The parts that images are made for: one record each, from public reference manuals.

A new part is a new record of PARTS. Memory hierarchy, linker script, start-up, regions of the MPU,
budgets, clocks of reports, build files and the emulated chip follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from dory_core.api import OperatingPoint, UsageError, caches
from dory_stm32h7 import calibration
from dory_stm32h7.buses import BUSES
from dory_stm32h7.part import KIB, Bits, Core, Flash, Part, Point, Ram

Port = TypeVar("Port", Flash, Ram)
CACHE_LINE = 32
#: Name of the option that chooses the part.
OPTION = "part"
#: Names of the options that say how large its memories are, in KiB.
SIZES = ("flash_kib", "ram_kib", "external_flash_kib", "external_ram_kib")


def _gcc(core: str, fpu: str) -> tuple[str, ...]:
    # Constants come from MOVW and MOVT: loads from flash are for weights.
    return (f"-mcpu={core}", "-mthumb", f"-mfpu={fpu}", "-mfloat-abi=hard", "-mslow-flash-data")


M7 = Core(
    "Cortex-M7", _gcc("cortex-m7", "fpv5-d16"), "cortex_m7+fp_armv8d16", "UC_CPU_ARM_CORTEX_M7"
)
M7_SINGLE = Core(
    "Cortex-M7", _gcc("cortex-m7", "fpv5-sp-d16"), "cortex_m7+fp_armv8d16sp", "UC_CPU_ARM_CORTEX_M7"
)
M4 = Core(
    "Cortex-M4",
    _gcc("cortex-m4", "fpv4-sp-d16"),
    "cortex_m4+vfp4d16sp",
    "UC_CPU_ARM_CORTEX_M4",
    False,
    calibration.SINGLE_ISSUE_PERCENT,
)
M33 = Core(
    "Cortex-M33",
    _gcc("cortex-m33", "fpv5-sp-d16"),
    "cortex_m33+dsp+fp_armv8d16sp",
    "UC_CPU_ARM_CORTEX_M33",
    True,
    calibration.SINGLE_ISSUE_PERCENT,
)

#: Caches of four ways; data sheets name their size.
CACHE_4K, CACHE_16K, CACHE_32K = (
    caches.Cache(size_bytes=size * KIB, ways=4, line_bytes=CACHE_LINE) for size in (4, 16, 32)
)

_RCC = 0x5802_4400
# AHB3ENR and AHB2ENR; SRAM1EN to SRAM3EN are bits 29 to 31.
_MDMA = Bits(_RCC + 0xD4, 1)
_SRAM123 = Bits(_RCC + 0xDC, 7 << 29)
_SRAM12 = Bits(_RCC + 0xDC, 3 << 29)
_DTCM = Ram("DTCM", "DTCM", 0x2000_0000, 128 * KIB, "tcm", "DTCMRAM")
_AXI = Ram("AXI SRAM", "AXI_SRAM", 0x2400_0000, 512 * KIB, "axi", "RAM_D1")
_D2 = Ram("D2 SRAM", "D2_SRAM", 0x3000_0000, 288 * KIB, "ahb", "RAM_D2", _SRAM123)
_FLASH = Flash(0x0800_0000, 2048 * KIB)
_QUADSPI = Flash(0x9000_0000, 8192 * KIB, "QUADSPI flash", "quadspi")
_OCTOSPI = Flash(0x9000_0000, 65536 * KIB, "OCTOSPI flash", "octospi")
# The first of the two banks of SDRAM; boards that use the other one change the address in the
# linker script, or name DORY_L3_ADDRESS.
_SDRAM = Ram("SDRAM", "EXTERNAL_RAM", 0xC000_0000, 8192 * KIB, "fmc", "EXTERNAL_RAM")
_UNKNOWN = "no energy figure is published for it"

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


def _clock(megahertz: int, bus: int, waits: int, source: str) -> Point:
    """Return the point of a part without a published energy."""
    name, text = f"{megahertz}MHz", f"{source}; {_UNKNOWN}"
    return Point(OperatingPoint(name, megahertz * 1e6, bus * 1e6, 0.0, text), waits)


STM32H743 = Part(
    name="stm32h743",
    also=("stm32h753",),
    summary="xI, 2 MB of flash",
    source="RM0433 rev 8, section 2.3; DS12110",
    core=M7,
    tcm=_DTCM,
    rams=(_AXI, _D2),
    flash=_FLASH,
    points=(
        Point(VOS0, calibration.FLASH_WAITS_VOS0),
        Point(VOS1, calibration.FLASH_WAITS_VOS1),
    ),
    bus_ratio=2,
    mdma=_MDMA,
    cache=CACHE_16K,
    mpu_regions=16,
    one_read=True,
    flash_port=_QUADSPI,
    ram_port=_SDRAM,
)
STM32H750 = replace(
    STM32H743,
    name="stm32h750",
    also=(),
    summary="128 kB of flash, constants in a QUADSPI flash",
    source="RM0433 rev 8, section 2.3; DS12556",
    flash=Flash(0x0800_0000, 128 * KIB),
    external=_QUADSPI,
    points=(
        _clock(480, 240, 4, "data sheet DS12556: VOS0, AXI 240 MHz"),
        _clock(400, 200, 2, "data sheet DS12556: VOS1, AXI 200 MHz"),
    ),
)
STM32H747 = replace(
    STM32H743,
    name="stm32h747",
    also=("stm32h745", "stm32h755", "stm32h757"),
    summary="the Cortex-M7; the Cortex-M4 leaves SRAM1 to 3 and the flash to it",
    source="RM0399, section 2.3; DS12930",
    points=(
        _clock(480, 240, 4, "data sheet DS12930: VOS0, AXI 240 MHz"),
        _clock(400, 200, 2, "data sheet DS12930: VOS1, AXI 200 MHz"),
    ),
)
STM32H723 = replace(
    STM32H743,
    name="stm32h723",
    also=("stm32h733",),
    summary="320 kB of AXI SRAM, as after reset",
    source="RM0468, section 2.3; DS13313",
    rams=(
        replace(_AXI, size_bytes=320 * KIB),
        replace(_D2, size_bytes=32 * KIB, clock=_SRAM12),
    ),
    flash=Flash(0x0800_0000, 1024 * KIB),
    points=(_clock(550, 275, 3, "data sheet DS13313: VOS0, boost, AXI 275 MHz"),),
    cache=CACHE_32K,
    one_read=False,
    flash_port=_OCTOSPI,
)
STM32H7A3 = replace(
    STM32H743,
    name="stm32h7a3",
    also=("stm32h7b3",),
    summary="1 MB of AXI SRAM in one piece",
    source="RM0455, section 2.3; DS13195",
    rams=(
        replace(_AXI, size_bytes=1024 * KIB, cube="RAM"),
        replace(
            _D2,
            name="AHB SRAM",
            size_bytes=128 * KIB,
            cube="RAM_CD",
            clock=Bits(_RCC + 0x13C, 3 << 29),
        ),
    ),
    points=(_clock(280, 280, 6, "data sheet DS13195: VOS0, AXI 280 MHz"),),
    bus_ratio=1,
    mdma=Bits(_RCC + 0x134, 1),
    one_read=False,
    flash_port=_OCTOSPI,
)
# AHB SRAM of 32 KiB and the parts of AXI SRAM that can be TCM are the program's.
STM32H7S7 = Part(
    name="stm32h7s7",
    also=("stm32h7s3", "stm32h7r3", "stm32h7r7"),
    summary="runs from an XSPI flash, as after reset; the core copies",
    source="RM0477, section 2.3; DS14359",
    core=M7,
    tcm=replace(_DTCM, size_bytes=64 * KIB, cube="DTCM"),
    rams=(replace(_AXI, size_bytes=456 * KIB, cube="RAM"),),
    flash=Flash(0x7000_0000, 32 * 1024 * KIB, "XSPI flash", "xspi"),
    ram_port=Ram("PSRAM", "EXTERNAL_RAM", 0x9000_0000, 32768 * KIB, "xspi16", "EXTERNAL_RAM"),
    points=(_clock(600, 300, 0, "data sheet DS14359: VOS high, AXI 300 MHz"),),
    bus_ratio=2,
    cache=CACHE_32K,
    mpu_regions=16,
)
STM32F746 = Part(
    name="stm32f746",
    also=("stm32f745", "stm32f756"),
    summary="the core copies",
    source="RM0385, section 2.2; DS10916",
    core=M7_SINGLE,
    tcm=replace(_DTCM, size_bytes=64 * KIB, cube="RAM"),
    rams=(Ram("SRAM1 and 2", "SRAM", 0x2001_0000, 256 * KIB, "ahb"),),
    flash=Flash(0x0800_0000, 1024 * KIB),
    points=(_clock(216, 216, 7, "data sheet DS10916: over-drive, 216 MHz"),),
    cache=CACHE_4K,
    flash_port=_QUADSPI,
    ram_port=_SDRAM,
)
STM32F767 = replace(
    STM32F746,
    name="stm32f767",
    also=("stm32f765", "stm32f769", "stm32f777", "stm32f779"),
    source="RM0410, section 2.2; DS11532",
    core=M7,
    tcm=replace(_DTCM, cube="RAM"),
    rams=(Ram("SRAM1 and 2", "SRAM", 0x2002_0000, 384 * KIB, "ahb"),),
    flash=_FLASH,
    points=(_clock(216, 216, 7, "data sheet DS11532: over-drive, 216 MHz"),),
    cache=CACHE_16K,
)
# Cores of other chips: one memory without wait states, code and constants at address 0.
CORTEX_M4 = Part(
    name="cortex-m4",
    summary="any chip with this core: one RAM, in place",
    source="Armv7-M manual; sizes and clock are examples",
    core=M4,
    tcm=None,
    rams=(Ram("RAM", "RAM", 0x2000_0000, 256 * KIB, "core"),),
    flash=Flash(0x0000_0000, 1024 * KIB),
    points=(_clock(100, 100, 0, "an example: name yours with clock_mhz"),),
    generic=True,
)
CORTEX_M33 = replace(
    CORTEX_M4,
    name="cortex-m33",
    summary="any chip with this core and its DSP extension: one RAM, in place",
    source="Armv8-M manual; sizes and clock are examples",
    core=M33,
)
CORTEX_M7 = replace(
    CORTEX_M4,
    name="cortex-m7",
    core=M7_SINGLE,
    cache=CACHE_16K,
    points=(_clock(400, 200, 0, "an example: name yours with clock_mhz"),),
)

PARTS = (
    STM32H743,
    STM32H747,
    STM32H750,
    STM32H723,
    STM32H7A3,
    STM32H7S7,
    STM32F746,
    STM32F767,
    CORTEX_M7,
    CORTEX_M4,
    CORTEX_M33,
)
DEFAULT = STM32H743
NAMES = tuple(name for part in PARTS for name in part.names)


def operating_points() -> tuple[OperatingPoint, ...]:
    """Return the points of all parts; each says of which parts it is."""
    return tuple(
        replace(point.clock, only=(OPTION, part.names)) for part in PARTS for point in part.points
    )


def part_of(options: Mapping[str, Any]) -> Part:
    """Return the part of the target's options, with the sizes that they name.

    Raises UsageError for sizes that it cannot have.
    """
    sizes = (int(options.get(key, 0)) for key in SIZES)
    return _sized(str(options.get(OPTION, DEFAULT.name)), *sizes)


@cache
def _sized(name: str, flash: int, ram: int, flash_outside: int, ram_outside: int) -> Part:
    part = next(part for part in PARTS if name in part.names)
    if flash:
        own = BUSES[part.flash.bus].window if part.flash.bus else part.flash.size_bytes
        most = 0 if part.generic else own // KIB
        _check(part, "flash_kib", flash, most)
        part = replace(part, flash=replace(part.flash, size_bytes=flash * KIB))
    if ram:
        if not part.generic:
            raise UsageError(
                f"ram_kib={ram}: part {part.name} has the memories of its manual",
                "--l1, --l2 and --l2-reserve bound what the network takes of them",
            )
        _check(part, "ram_kib", ram, 0)
        part = replace(part, rams=(replace(part.rams[0], size_bytes=ram * KIB),))
    if flash_outside:
        mapped = _outside(part, "external_flash_kib", flash_outside, part.flash_port)
        part = replace(part, external=mapped)
    if ram_outside:
        written = _outside(part, "external_ram_kib", ram_outside, part.ram_port)
        part = replace(part, external_ram=written)
    return part


def _outside(part: Part, option: str, kib: int, port: Port | None) -> Port:
    """Return the memory outside of the chip that an option asks for. Raises UsageError."""
    if port is None:
        with_one = (p for p in PARTS if (p.flash_port if "flash" in option else p.ram_port))
        raise UsageError(
            f"{option}={kib}: part {part.name} has no interface for it",
            f"parts with one: {', '.join(one.name for one in with_one)}",
        )
    _check(part, option, kib, BUSES[port.bus].window // KIB)
    return replace(port, size_bytes=kib * KIB)


def _check(part: Part, option: str, value: int, most: int) -> None:
    """Raise UsageError unless a size is positive, and at most ``most`` unless that is 0."""
    if value < 0 or (most and value > most):
        above = f" to {most}" if most else ""
        raise UsageError(
            f"{option}={value}: part {part.name} takes 1{above} KiB", "leave the option out"
        )
