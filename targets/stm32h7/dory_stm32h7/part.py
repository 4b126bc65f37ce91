"""The records of a part: core, memories, clocks."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.api import OperatingPoint, caches

KIB = 1024
#: Bytes of flash that code, its constants, vector table and test vectors take at most.
MOST_CODE = 128 * KIB


@dataclass(frozen=True, slots=True)
class Core:
    """A processor core.

    Attributes:
        name: Name of the core.
        gcc: Options of gcc.
        zig: Name of the core for zig.
        emulated: Name of the core in unicorn.
        fpv5: True when its FPU rounds to integers in any direction (VCVTN).
        cycles_percent: Cycles of kernels in percent of those of a Cortex-M7, which issues up to two
            instructions per cycle.
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

    Attributes:
        name: Name of the memory.
        region: Name of its region in our linker scripts.
        address: First address.
        size_bytes: Size of the memory.
        bus: ``tcm``, ``axi``, ``ahb``, ``core`` when the core never waits for the memory, or the
            name of a bus to the outside in BUSES.
        cube: Name of its region in linker scripts of STM32CubeIDE.
        clock: Bits that turn it on after reset, None when it is on.
    """

    name: str
    region: str
    address: int
    size_bytes: int
    bus: str
    cube: str = "RAM"
    clock: Bits | None = None


@dataclass(frozen=True, slots=True)
class Flash:
    """A memory that is read like any other and holds constants.

    Attributes:
        address: First address.
        size_bytes: Size of the memory.
        name: Name of the memory.
        bus: Name of its bus in BUSES, empty for a flash on the chip.
    """

    address: int
    size_bytes: int
    name: str = "flash"
    bus: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A clock of the core. flash_waits: wait states of the flash at it, in cycles of its bus."""

    clock: OperatingPoint
    flash_waits: int


@dataclass(frozen=True, slots=True)
class Part:
    """A chip, or a core with memories that other chips have.

    Attributes:
        source: Manual with these facts.
        core: The core.
        tcm: The memory for tiles; None when kernels work in place.
        rams: Memories of activations, best first.
        flash: The flash that the chip boots from.
        points: Clocks, the default first.
        also: Names of other chips with the same facts.
        external: Mapped flash outside of the chip for constants.
        external_ram: Memory outside of the chip for activations that the others have no room for.
        flash_port: What ``external`` may be, of an assumed size; None without an interface for it.
        ram_port: What ``external_ram`` may be, likewise.
        bus_ratio: Clock of the core divided by the clock of its bus.
        mdma: Bits that turn the MDMA on; None when the core copies.
        cache: The data cache.
        mpu_regions: Regions of the MPU.
        one_read: True when reads of the first memory may be wrong in early revisions unless only
            one is in flight (ES0392, 2.2.9).
        generic: True when the sizes of its memories are examples.
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
    external_ram: Ram | None = None
    flash_port: Flash | None = None
    ram_port: Ram | None = None
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
    def constants(self) -> tuple[Flash, ...]:
        """The flashes that hold the constants of networks, the faster one first.

        That of the chip is left to the code where it is smaller than ``MOST_CODE``.
        """
        if self.external is None:
            return (self.flash,)
        inside = (self.flash,) if self.flash.size_bytes > MOST_CODE else ()
        return (*inside, self.external)

    @property
    def clocks(self) -> tuple[Bits, ...]:
        """What the driver turns on."""
        memories = (ram.clock for ram in self.rams if ram.clock)
        return (*((self.mdma,) if self.mdma else ()), *memories)

    @property
    def uncached(self) -> tuple[tuple[int, int], ...]:
        """(address, log2 of the bytes) of regions of the MPU that cover the memories of arenas.

        That of the memory outside of the chip comes last. Empty where a memory does not start on a
        multiple of the size of such a region.
        """
        if self.cache is None:
            return ()
        written = (*self.rams, *((self.external_ram,) if self.external_ram else ()))
        found = tuple((ram.address, (ram.size_bytes - 1).bit_length()) for ram in written)
        return found if all(base % (1 << log2) == 0 for base, log2 in found) else ()

    def flash_waits(self, point: str) -> int:
        """Return the wait states of the flash at an operating point."""
        return next(one.flash_waits for one in self.points if one.clock.name == point)
