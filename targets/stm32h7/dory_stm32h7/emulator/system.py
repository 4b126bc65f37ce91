"""Registers of clock control and of the core's system control space that images use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dory_stm32h7.emulator.faults import ChipFault
from dory_stm32h7.emulator.memories import Memories
from dory_stm32h7.hardware import DTCM_ADDRESS, DTCM_BYTES

RCC_BASE = 0x5802_4000
RCC_AHB3ENR, RCC_AHB2ENR = 0x4D4, 0x4DC
MDMAEN = 1 << 0
SRAM123EN = 7 << 29

DBGMCU_BASE, INTERCONNECT_BASE = 0x5C00_1000, 0x5100_8000
REVISION_Y = 0x1003_6450  # DBGMCU_IDCODE
TARG7_FN_MOD = 0x108

PPB_BASE, PPB_BYTES = 0xE000_0000, 0x1_0000
DWT_CTRL, DWT_CYCCNT, DWT_LAR = 0x1000, 0x1004, 0x1FB0
CCR, CCSIDR, CSSELR, CPACR = 0xED14, 0xED80, 0xED84, 0xED88
MPU_CTRL, MPU_RNR, MPU_RBAR, MPU_RASR = 0xED94, 0xED98, 0xED9C, 0xEDA0
DHCSR, DEMCR = 0xEDF0, 0xEDFC
ICIALLU, DCIMVAC, DCISW, DCCMVAC, DCCIMVAC = 0xEF50, 0xEF5C, 0xEF60, 0xEF68, 0xEF70
DCCISW = 0xEF74

CCR_DC = 1 << 16
CCR_IC = 1 << 17
D_CACHE_SIZE = 0xF00FE019  # CCSIDR of the 16 KiB data cache: 4 ways, 128 sets, lines of 32 bytes
_SETS_AND_WAYS = frozenset(s << 5 | w << 30 for s in range(128) for w in range(4))
_PLAIN = (CSSELR, CPACR, DEMCR, DWT_CTRL, DWT_CYCCNT, DWT_LAR, MPU_RNR, MPU_CTRL)
_REGIONS = 16


class Clocks:
    """Reset and clock control: the clocks of MDMA and D2 SRAM, off after reset."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._registers: dict[int, int] = {}

    def read(self, offset: int, size: int) -> int:
        """Return a register; offset: from RCC_BASE."""
        return self._registers.get(offset, 0)

    def write(self, offset: int, size: int, value: int) -> None:
        """Write a register; size: bytes. Raises ChipFault."""
        if size != 4:
            raise ChipFault(f"RCC register {offset:#05x} is written with {size} bytes")
        self._registers[offset] = value
        self._memories.d2.clocked = self._on(RCC_AHB2ENR, SRAM123EN)

    def _on(self, register: int, bits: int) -> bool:
        return self._registers.get(register, 0) & bits == bits

    @property
    def mdma(self) -> bool:
        """The MDMA has a clock."""
        return self._on(RCC_AHB3ENR, MDMAEN)


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
    masked: tells whether interrupts are off.
    """

    maintained: set[int] = field(default_factory=set)
    emptied: set[int] = field(default_factory=set)
    instructions: int = 0
    masked: Callable[[], bool] = lambda: True
    _registers: dict[int, int] = field(default_factory=dict)
    _regions: dict[int, tuple[int, int]] = field(default_factory=dict)

    def read(self, offset: int, size: int) -> int:
        """Return a register; offset: from PPB_BASE."""
        if offset == DWT_CYCCNT:
            return self.instructions & 0xFFFF_FFFF
        if offset == CCSIDR:
            return D_CACHE_SIZE
        if offset == DHCSR:
            return 1  # a debugger is attached: semihosting works
        return self._registers.get(offset, 0)

    def write(self, offset: int, size: int, value: int) -> None:
        """Write a register; raises ChipFault."""
        if size != 4:
            raise ChipFault(f"system register {offset:#06x} is written with {size} bytes")
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

    def _set_region(self, offset: int, value: int) -> None:
        if self._registers.get(MPU_CTRL, 0) & 1:
            raise ChipFault("a region of the MPU is written while the MPU is on")
        number = self._registers.get(MPU_RNR, 0)
        if number >= _REGIONS:
            raise ChipFault(f"the MPU has {_REGIONS} regions, region {number} is written")
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
        if on and bypassing and not self.emptied >= _SETS_AND_WAYS:
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
        if DTCM_ADDRESS <= address < DTCM_ADDRESS + DTCM_BYTES:
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
