"""The records of a part: core, memories, clocks."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.api import OperatingPoint, caches

KIB = 1024


@dataclass(frozen=True, slots=True)
class Core:
    """A processor core.

    gcc, zig: what these compilers are told. emulated: its name in unicorn. fpv5: its FPU rounds to
    integers in any direction (VCVTN). cycles_percent: cycles of kernels, of those of a Cortex-M7,
    which issues up to two instructions per cycle.
    """

    name: str
    gcc: tuple[str, ...]
    zig: str
    emulated: str
    fpv5: bool = True
    cycles_percent: int = 100


@dataclass(frozen=True, slots=True)
class Bits:
    """Bits of a register that turn something on."""

    address: int
    mask: int


@dataclass(frozen=True, slots=True)
class Ram:
    """A memory that can be written.

    region: its name in our linker scripts. cube: in those of STM32CubeIDE. bus: ``tcm``, ``axi``,
    ``ahb``, or ``core`` where the core never waits for it. clock: what turns it on after reset,
    None where it is on.
    """

    name: str
    region: str
    address: int
    size_bytes: int
    bus: str
    cube: str = "RAM"
    clock: Bits | None = None


@dataclass(frozen=True, slots=True)
class Serial:
    """What reading a flash behind a serial bus takes, in cycles of the core.

    setup_cycles: before a run. bytes_per_cycle: within it. access_cycles, line_cycles: an access
    that goes there, a line of the cache.
    """

    setup_cycles: int
    bytes_per_cycle: float
    access_cycles: float
    line_cycles: float


@dataclass(frozen=True, slots=True)
class Flash:
    """A memory that is read like any other and holds constants.

    serial: the bus that it lies behind, None on the chip.
    """

    address: int
    size_bytes: int
    name: str = "flash"
    serial: Serial | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """A clock of the core. flash_waits: wait states of the flash at it, in cycles of its bus."""

    clock: OperatingPoint
    flash_waits: int


@dataclass(frozen=True, slots=True)
class Part:
    """A chip, or a core with memories that other chips have.

    also: other names of chips with the same facts. source: of the facts. tcm: the memory for tiles;
    None where kernels work in place. rams: memories of activations, best first. external: mapped
    flash outside of the chip that holds the constants, of the size that is assumed; ``window``
    bytes can be mapped, of it or of the flash where that is outside. bus_ratio: clock of the core
    by that of its bus. mdma: what turns the MDMA on; None where the core copies. cache: for data.
    mpu_regions: of the MPU. one_read: reads of the first memory may be wrong in early revisions
    unless only one is under way (ES0392, 2.2.9). generic: sizes of its memories are examples.
    """

    name: str
    summary: str
    source: str
    core: Core
    tcm: Ram | None
    rams: tuple[Ram, ...]
    flash: Flash
    points: tuple[Point, ...]
    also: tuple[str, ...] = ()
    external: Flash | None = None
    window: int = 0
    bus_ratio: int = 1
    mdma: Bits | None = None
    cache: caches.Cache | None = None
    mpu_regions: int = 8
    one_read: bool = False
    generic: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which it is known."""
        return (self.name, *self.also)

    @property
    def constants(self) -> Flash:
        """The flash that holds the constants of networks."""
        return self.external or self.flash

    @property
    def clocks(self) -> tuple[Bits, ...]:
        """What the driver turns on."""
        memories = (ram.clock for ram in self.rams if ram.clock)
        return (*((self.mdma,) if self.mdma else ()), *memories)

    @property
    def uncached(self) -> tuple[tuple[int, int], ...]:
        """(address, log2 of the bytes) of regions of the MPU that cover the memories.

        Empty where a memory does not start on a multiple of the size of such a region.
        """
        if self.cache is None:
            return ()
        found = tuple((ram.address, (ram.size_bytes - 1).bit_length()) for ram in self.rams)
        return found if all(base % (1 << log2) == 0 for base, log2 in found) else ()

    def flash_waits(self, point: str) -> int:
        """Return the wait states of the flash at an operating point."""
        return next(one.flash_waits for one in self.points if one.clock.name == point)
