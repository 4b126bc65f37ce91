"""The memories of a part, as bytes on the host that core and MDMA share."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dory_stm32h7.emulator.faults import ChipFault
from dory_stm32h7.part import Part
from dory_stm32h7.parts import DEFAULT

POISON = 0xA5


@dataclass(slots=True)
class Region:
    """A memory.

    tcm: it is reached over the TCM port of the MDMA. clocked: it answers. one_read: what is read
    may be wrong unless the interconnect has one read under way at a time.
    """

    name: str
    base: int
    size: int
    writable: bool
    tcm: bool = False
    clocked: bool = True
    one_read: bool = False
    buffer: mmap.mmap = field(init=False, repr=False)
    data: npt.NDArray[np.uint8] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.buffer = mmap.mmap(-1, self.size)
        self.data = np.frombuffer(self.buffer, dtype=np.uint8)
        self.data[:] = POISON if self.writable else 0xFF

    @property
    def end(self) -> int:
        """First address after the memory."""
        return self.base + self.size

    @property
    def pointer(self) -> int:
        """Address of the bytes on the host."""
        return int(self.data.ctypes.data)


class Memories:
    """All memories. Contents after reset: flash erased, everything else poisoned."""

    def __init__(self, part: Part = DEFAULT) -> None:
        tcm = (part.tcm,) if part.tcm else ()
        self.tcms = tuple(
            Region(ram.name, ram.address, ram.size_bytes, True, tcm=True) for ram in tcm
        )
        self.rams = tuple(
            Region(ram.name, ram.address, ram.size_bytes, True, clocked=ram.clock is None)
            for ram in part.rams
        )
        self.rams[0].one_read = part.one_read
        self.flash = Region("flash", part.flash.address, part.flash.size_bytes, False)
        self.external = tuple(
            Region(one.name, one.address, one.size_bytes, one is part.external_ram)
            for one in (part.external, part.external_ram)
            if one is not None
        )
        self.all = (*self.tcms, *self.rams, self.flash, *self.external)

    def outside(self, address: int) -> bool:
        """Return True when an address lies in a RAM outside of the chip."""
        return any(r.writable and r.base <= address < r.end for r in self.external)

    def region(self, address: int, bytes_: int, what: str) -> Region:
        """Return the memory that holds all of the bytes; raises ChipFault when none does."""
        for region in self.all:
            if region.base <= address and address + bytes_ <= region.end:
                if not region.clocked:
                    raise ChipFault(f"{what} at {address:#010x}: the clock of {region.name} is off")
                return region
        raise ChipFault(f"{what} of {bytes_} bytes at {address:#010x}: no memory is there")

    def view(self, address: int, bytes_: int, what: str) -> npt.NDArray[np.uint8]:
        """Return the bytes at an address, shared with the chip."""
        region = self.region(address, bytes_, what)
        start = address - region.base
        return region.data[start : start + bytes_]

    def load(self, address: int, content: bytes) -> None:
        """Write the image, as a programmer does; raises ChipFault where there is no memory."""
        for region in self.all:
            if region.base <= address and address + len(content) <= region.end:
                start = address - region.base
                region.data[start : start + len(content)] = np.frombuffer(content, np.uint8)
                return
        raise ChipFault(f"the image has {len(content)} bytes at {address:#010x}: no memory there")
