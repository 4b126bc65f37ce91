"""Registers of clock control and of the core's system control space that images use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dory_core.api import caches
from dory_stm32h7.emulator.faults import ChipFault
from dory_stm32h7.emulator.memories import Memories
from dory_stm32h7.part import Bits, Part
from dory_stm32h7.parts import DEFAULT

RCC_BASE = 0x5802_4000
DBGMCU_BASE, INTERCONNECT_BASE = 0x5C00_1000, 0x5100_8000
REVISION_Y = 0x1003_6450  # DBGMCU_IDCODE
TARG7_FN_MOD = 0x108

PPB_BASE, PPB_BYTES = 0xE000_0000, 0x1_0000
DWT_CTRL, DWT_CYCCNT, DWT_LAR = 0x1000, 0x1004, 0x1FB0
VTOR, CCR, CCSIDR, CSSELR, CPACR = 0xED08, 0xED14, 0xED80, 0xED84, 0xED88
MPU_CTRL, MPU_RNR, MPU_RBAR, MPU_RASR = 0xED94, 0xED98, 0xED9C, 0xEDA0
DHCSR, DEMCR = 0xEDF0, 0xEDFC
ICIALLU, DCIMVAC, DCISW, DCCMVAC, DCCIMVAC = 0xEF50, 0xEF5C, 0xEF60, 0xEF68, 0xEF70
DCCISW = 0xEF74

CCR_DC = 1 << 16
CCR_IC = 1 << 17
_OF_CACHES = (CCR, ICIALLU, DCIMVAC, DCISW, DCCMVAC, DCCIMVAC, DCCISW, CSSELR)
_PLAIN = (VTOR, CSSELR, CPACR, DEMCR, DWT_CTRL, DWT_CYCCNT, DWT_LAR, MPU_RNR, MPU_CTRL)


def cache_size(cache: caches.Cache) -> int:
    """Return CCSIDR of a data cache: write-back, and how many sets, ways and words of a line."""
    words_log2 = (cache.line_bytes // 4).bit_length() - 1
    return 0xF000_0000 | (cache.sets - 1) << 13 | (cache.ways - 1) << 3 | (words_log2 - 2)


def _sets_and_ways(cache: caches.Cache) -> frozenset[int]:
    """Return the operands of operations by set and way, one for each line of four ways."""
    return frozenset(s << 5 | w << 30 for s in range(cache.sets) for w in range(cache.ways))


class Clocks:
    """Reset and clock control: the clocks of MDMA and memories, off after reset."""

    def __init__(self, memories: Memories, part: Part = DEFAULT) -> None:
        self._memories = memories
        self._part = part
        self._registers: dict[int, int] = {}

    def read(self, offset: int, size: int) -> int:
        """Return a register; offset: from RCC_BASE."""
        return self._registers.get(offset, 0)

    def write(self, offset: int, size: int, value: int) -> None:
        """Write a register; size: bytes. Raises ChipFault."""
        if size != 4:
            raise ChipFault(f"RCC register {offset:#05x} is written with {size} bytes")
        self._registers[offset] = value
        for region, ram in zip(self._memories.rams, self._part.rams, strict=True):
            region.clocked = self._on(ram.clock)

    def _on(self, clock: Bits | None) -> bool:
        if clock is None:
            return True
        return self._registers.get(clock.address - RCC_BASE, 0) & clock.mask == clock.mask

    @property
    def mdma(self) -> bool:
        """The MDMA has a clock."""
        return self._on(self._part.mdma)


class Interconnect:
    """The AXI interconnect of a chip of revision Y.

    one_read: it has one read of AXI SRAM under way at a time; with more of them data may be wrong
    (ES0392, 2.2.9).
    """

    def __init__(self) -> None:
        self.one_read = False

    def read(self, offset: int, size: int) -> int:
        """Return a register; offset: from INTERCONNECT_BASE."""
        return int(self.one_read) if offset == TARG7_FN_MOD else 0

    def write(self, offset: int, size: int, value: int) -> None:
        """Write a register; raises ChipFault."""
        if offset != TARG7_FN_MOD:
            raise ChipFault(f"interconnect register {offset:#05x} is written: this model lacks it")
        self.one_read = bool(value & 1)


def identity(offset: int, size: int) -> int:
    """Return a register of the chip's identity; offset: from DBGMCU_BASE."""
    return 0 if offset else REVISION_Y


def read_only(offset: int, size: int, value: int) -> None:
    """Refuse a write: raises ChipFault."""
    raise ChipFault(f"register {offset:#05x} of the chip's identity is written")


@dataclass(slots=True)
class Core:
    """System control space of the core: caches, MPU, cycle counter, debug state.

    maintained: addresses of the lines of the data cache that were cleaned or invalidated.
    emptied: sets and ways of the data cache that were written back and emptied while it was on.
    instructions: what the cycle counter shows; the emulator counts no cycles.
    masked: tells whether interrupts are off. part: whose caches and MPU these are.
    """

    maintained: set[int] = field(default_factory=set)
    emptied: set[int] = field(default_factory=set)
    instructions: int = 0
    masked: Callable[[], bool] = lambda: True
    part: Part = DEFAULT
    _registers: dict[int, int] = field(default_factory=dict)
    _regions: dict[int, tuple[int, int]] = field(default_factory=dict)

    def read(self, offset: int, size: int) -> int:
        """Return a register; offset: from PPB_BASE."""
        if offset == DWT_CYCCNT:
            return self.instructions & 0xFFFF_FFFF
        if offset == CCSIDR:
            return cache_size(self._cache())
        if offset == DHCSR:
            return 1  # a debugger is attached: semihosting works
        return self._registers.get(offset, 0)

    def write(self, offset: int, size: int, value: int) -> None:
        """Write a register; raises ChipFault."""
        if size != 4:
            raise ChipFault(f"system register {offset:#06x} is written with {size} bytes")
        if offset in _OF_CACHES:
            self._cache()
        if offset in (DCIMVAC, DCCMVAC, DCCIMVAC):
            self.maintained.add(value & ~31)
        elif offset in (MPU_RBAR, MPU_RASR):
            self._set_region(offset, value)
        elif offset == DCCISW:
            if self.data_cache:
                self._check_masked("the data cache is emptied")
                self.emptied.add(value)
        elif offset in _PLAIN or offset == CCR:
            self._registers[offset] = value
            if offset == DWT_CYCCNT:
                raise ChipFault("the cycle counter is set: it may be in somebody's use")
            if offset == MPU_CTRL:
                self._check_masked("the MPU is switched")
                self._check_emptied()
        elif offset not in (ICIALLU, DCISW):
            raise ChipFault(f"system register {offset:#06x} is written: this model lacks it")

    def _cache(self) -> caches.Cache:
        """Return the data cache; raises ChipFault on a core without one."""
        if self.part.cache is None:
            raise ChipFault(f"a register of caches is used: the {self.part.core.name} has none")
        return self.part.cache

    def _set_region(self, offset: int, value: int) -> None:
        if self._registers.get(MPU_CTRL, 0) & 1:
            raise ChipFault("a region of the MPU is written while the MPU is on")
        number = self._registers.get(MPU_RNR, 0)
        count = self.part.mpu_regions
        if number >= count:
            raise ChipFault(f"the MPU has {count} regions, region {number} is written")
        base, attributes = self._regions.get(number, (0, 0))
        if offset == MPU_RBAR:
            base = value & ~0x1F
        else:
            attributes = value
            if attributes & 1 and base % self._size(attributes):
                raise ChipFault(f"MPU region {number} at {base:#010x} is not aligned to its size")
        self._regions[number] = (base, attributes)

    def _check_masked(self, what: str) -> None:
        if not self.masked():
            raise ChipFault(
                f"{what} while interrupts are on: a handler may leave lines in the data cache"
            )

    def _check_emptied(self) -> None:
        """Memory that bypasses the data cache from now on must not lie in it."""
        bypassing = any(a & 1 and not a & 1 << 17 for _, a in self._regions.values())
        on = self.data_cache and self._registers[MPU_CTRL] & 1
        if on and bypassing and not self.emptied >= _sets_and_ways(self._cache()):
            raise ChipFault(
                "the MPU makes memory bypass the data cache, which was not written back before: "
                "the core no longer sees what it wrote there"
            )

    @staticmethod
    def _size(attributes: int) -> int:
        return 2 << (attributes >> 1 & 0x1F)

    @property
    def data_cache(self) -> bool:
        """The data cache is on."""
        return bool(self._registers.get(CCR, 0) & CCR_DC)

    @property
    def instruction_cache(self) -> bool:
        """The instruction cache is on."""
        return bool(self._registers.get(CCR, 0) & CCR_IC)

    def cached(self, address: int) -> bool:
        """Return True when the data cache may hold the address."""
        if not self.data_cache:
            return False
        tcm = self.part.tcm
        if tcm is not None and tcm.address <= address < tcm.address + tcm.size_bytes:
            return False
        attributes = self.region(address)
        return attributes is None or bool(attributes & (1 << 17))  # C

    def region(self, address: int) -> int | None:
        """Return the attributes of the MPU's region at an address, None outside of all."""
        if self._registers.get(MPU_CTRL, 0) & 1:
            for number in sorted(self._regions, reverse=True):
                base, attributes = self._regions[number]
                if attributes & 1 and base <= address < base + self._size(attributes):
                    return attributes
        return None
