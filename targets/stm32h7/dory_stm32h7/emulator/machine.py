"""The emulated chip: runs an image from reset to its exit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dory_core.api import VerificationFailed
from dory_stm32h7.emulator.counter import AccessCounter, InstructionCounter
from dory_stm32h7.emulator.elf import Elf
from dory_stm32h7.emulator.faults import ChipFault
from dory_stm32h7.emulator.mdma import Mdma
from dory_stm32h7.emulator.memories import Memories
from dory_stm32h7.emulator.system import (
    DBGMCU_BASE,
    INTERCONNECT_BASE,
    PPB_BASE,
    PPB_BYTES,
    RCC_BASE,
    Clocks,
    Core,
    Interconnect,
    identity,
    read_only,
)
from dory_stm32h7.part import Part
from dory_stm32h7.parts import DEFAULT

MDMA_BASE = 0x5200_0000
PAGE = 0x1000

SYS_WRITEC, SYS_WRITE0, SYS_EXIT, SYS_EXIT_EXTENDED = 0x03, 0x04, 0x18, 0x20
APPLICATION_EXIT = 0x2_0026
_BKPT_SEMIHOSTING = b"\xab\xbe"
_DSB = b"\xbf\xf3\x4f\x8f"
_NEVER = 0xFFFF_FFFE

# Called when the core reaches a function: gets the machine.
Breakpoint = Callable[["Machine"], None]


class Machine:
    """A chip with an image in flash. output: what it printed. exit_code: None while it runs."""

    def __init__(self, image: Elf, seed: int = 1, part: Part = DEFAULT) -> None:
        from unicorn import UC_ARCH_ARM, UC_MODE_MCLASS, UC_MODE_THUMB, Uc, arm_const

        self.image = image
        self.part = part
        self.memories = Memories(part)
        self.clocks = Clocks(self.memories, part)
        self.core = Core(masked=lambda: self._interrupts_off, part=part)
        self.interconnect = Interconnect()
        self.mdma = Mdma(
            self.memories,
            clocked=lambda: self.clocks.mdma,
            cached=self.core.cached,
            maintained=self.core.maintained,
            seed=seed,
            one_read=lambda: self.interconnect.one_read,
        )
        self.output = ""
        self.exit_code: int | None = None
        self._fault = ""
        for address, content in image.segments:
            self.memories.load(address, content)
        self._uc: Any = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
        self._uc.ctl_set_cpu_model(getattr(arm_const, part.core.emulated))
        self._map()
        self._watch_barriers()
        self._counter = InstructionCounter(self.memories.flash)
        self._counter.attach(self._uc)

    # -- set-up -------------------------------------------------------------------------------

    def _map(self) -> None:
        from unicorn import (
            UC_HOOK_INTR,
            UC_HOOK_MEM_INVALID,
            UC_PROT_EXEC,
            UC_PROT_READ,
            UC_PROT_WRITE,
        )

        for region in self.memories.all:
            access = UC_PROT_WRITE if region.writable else UC_PROT_EXEC
            if region.clocked:
                pointer = region.pointer
                self._uc.mem_map_ptr(region.base, region.size, UC_PROT_READ | access, pointer)
        if self.part.mdma is not None:
            self._mmio(MDMA_BASE, PAGE, self.mdma.read, self.mdma.write)
        if self.part.clocks:
            self._mmio(RCC_BASE, PAGE, self.clocks.read, self._write_clocks)
        if self.part.one_read:
            self._mmio(DBGMCU_BASE, PAGE, identity, read_only)
            interconnect = self.interconnect
            self._mmio(INTERCONNECT_BASE, PAGE, interconnect.read, interconnect.write)
        self._mmio(PPB_BASE, PPB_BYTES, self._read_core, self.core.write)
        self._uc.hook_add(UC_HOOK_INTR, self._interrupt)
        self._uc.hook_add(UC_HOOK_MEM_INVALID, self._invalid)

    def _watch_barriers(self) -> None:
        """Tell the MDMA of every DSB that the core executes."""
        from unicorn import UC_HOOK_CODE

        def barrier(_uc: Any, _address: int, _size: int, _data: Any) -> None:
            self.mdma.ordered = True

        flash = self.memories.flash
        code = flash.data.tobytes()
        at = code.find(_DSB)
        while at >= 0:
            address = flash.base + at
            self._uc.hook_add(UC_HOOK_CODE, barrier, None, address, address)
            at = code.find(_DSB, at + 1)

    def _mmio(
        self,
        base: int,
        size: int,
        read: Callable[[int, int], int],
        write: Callable[[int, int, int], None],
    ) -> None:
        def reading(_uc: Any, offset: int, bytes_: int, _data: Any) -> int:
            try:
                return read(offset, bytes_)
            except ChipFault as fault:
                self._stop(str(fault))
                return 0

        def writing(_uc: Any, offset: int, bytes_: int, value: int, _data: Any) -> None:
            try:
                write(offset, bytes_, value)
            except ChipFault as fault:
                self._stop(str(fault))

        self._uc.mmio_map(base, size, reading, None, writing, None)

    def _write_clocks(self, offset: int, size: int, value: int) -> None:
        from unicorn import UC_PROT_READ, UC_PROT_WRITE

        off = [region for region in self.memories.rams if not region.clocked]
        self.clocks.write(offset, size, value)
        for region in off:
            if region.clocked:
                access = UC_PROT_READ | UC_PROT_WRITE
                self._uc.mem_map_ptr(region.base, region.size, access, region.pointer)

    def _read_core(self, offset: int, size: int) -> int:
        self.core.instructions = self.instructions
        return self.core.read(offset, size)

    def at(self, function: str, action: Breakpoint) -> None:
        """Call ``action`` whenever the core enters a function of the image."""
        from unicorn import UC_HOOK_CODE

        address = self.image.symbol(function).address

        def reached(_uc: Any, _address: int, _size: int, _data: Any) -> None:
            try:
                action(self)
            except ChipFault as fault:
                self._stop(str(fault))

        self._uc.hook_add(UC_HOOK_CODE, reached, None, address, address)

    def count_accesses(self, counter: AccessCounter) -> None:
        """Count the loads and stores of the core from now on."""
        counter.attach(self._uc)

    # -- state --------------------------------------------------------------------------------

    @property
    def instructions(self) -> int:
        """Instructions executed since reset."""
        return self._counter.instructions

    @property
    def blocks(self) -> dict[tuple[int, int], int]:
        """How often each block of code was entered since reset, by its address and its bytes."""
        return self._counter.blocks()

    def argument(self, number: int) -> int:
        """Return argument 0 to 3 of the function that the core enters."""
        return int(self._uc.reg_read(self._register(number)))

    def set_argument(self, number: int, value: int) -> None:
        """Change an argument of the function that the core enters."""
        self._uc.reg_write(self._register(number), value)

    def return_from(self, value: int) -> None:
        """Leave the function that the core enters, with a result, without executing it."""
        from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_PC

        self._counter.take_back(self._pc)
        self.set_argument(0, value)
        self._uc.reg_write(UC_ARM_REG_PC, self._uc.reg_read(UC_ARM_REG_LR) | 1)

    @staticmethod
    def _register(number: int) -> int:
        from unicorn.arm_const import (
            UC_ARM_REG_R0,
            UC_ARM_REG_R1,
            UC_ARM_REG_R2,
            UC_ARM_REG_R3,
        )

        return (UC_ARM_REG_R0, UC_ARM_REG_R1, UC_ARM_REG_R2, UC_ARM_REG_R3)[number]

    @property
    def _pc(self) -> int:
        from unicorn.arm_const import UC_ARM_REG_PC

        return int(self._uc.reg_read(UC_ARM_REG_PC))

    @property
    def _interrupts_off(self) -> bool:
        from unicorn.arm_const import UC_ARM_REG_PRIMASK

        return bool(self._uc.reg_read(UC_ARM_REG_PRIMASK))

    # -- running ------------------------------------------------------------------------------

    def run(self, timeout_s: float = 600.0) -> None:
        """Run from reset until the image exits.

        Raises VerificationFailed when a rule of the chip is broken, the core faults, or the image
        does not end in time.
        """
        from unicorn import UcError
        from unicorn.arm_const import UC_ARM_REG_SP

        vectors = self.memories.flash.data[:8].view("<u4")
        self._uc.reg_write(UC_ARM_REG_SP, int(vectors[0]))
        try:
            self._uc.emu_start(int(vectors[1]) | 1, _NEVER, timeout=int(timeout_s * 1e6))
        except UcError as error:
            self._fault = self._fault or f"the core stops: {error}"
        if self._fault:
            raise VerificationFailed(
                f"{self._fault}, at {self.image.place(self._pc)}",
                "the generated C, a kernel or the HAL is at fault",
            )
        if self.exit_code is None:
            raise VerificationFailed(
                f"the image did not end within {timeout_s:g} s, at {self.image.place(self._pc)}"
            )

    def _stop(self, fault: str) -> None:
        self._fault = self._fault or fault
        self._uc.emu_stop()

    def _invalid(
        self, _uc: Any, access: int, address: int, size: int, _value: int, _data: Any
    ) -> bool:
        from unicorn import (
            UC_MEM_FETCH_PROT,
            UC_MEM_FETCH_UNMAPPED,
            UC_MEM_WRITE_PROT,
            UC_MEM_WRITE_UNMAPPED,
        )

        action = "reads"
        if access in (UC_MEM_WRITE_PROT, UC_MEM_WRITE_UNMAPPED):
            action = "writes"
        elif access in (UC_MEM_FETCH_PROT, UC_MEM_FETCH_UNMAPPED):
            action = "executes"
        where = "which is read-only" if access == UC_MEM_WRITE_PROT else "where nothing answers"
        for region in self.memories.all:
            if region.base <= address < region.end and not region.clocked:
                where = f"in {region.name}, whose clock is off"
        self._fault = self._fault or (f"the core {action} {size} bytes at {address:#010x}, {where}")
        return False

    def _interrupt(self, _uc: Any, number: int, _data: Any) -> None:
        pc = self._pc
        at = pc - self.memories.flash.base
        if self.memories.flash.data[at : at + 2].tobytes() == _BKPT_SEMIHOSTING:
            from unicorn.arm_const import UC_ARM_REG_PC

            self._semihost()
            self._uc.reg_write(UC_ARM_REG_PC, (pc + 2) | 1)
            return
        self._stop(f"exception {number} of the core")

    def _semihost(self) -> None:
        operation, argument = self.argument(0), self.argument(1)
        if operation == SYS_WRITE0:
            self.output += self._string(argument)
        elif operation == SYS_WRITEC:
            self.output += chr(self.memories.view(argument, 1, "semihosting")[0])
        elif operation in (SYS_EXIT, SYS_EXIT_EXTENDED):
            code = 0
            if operation == SYS_EXIT_EXTENDED:
                words = self.memories.view(argument, 8, "semihosting").view("<u4")
                argument, code = int(words[0]), int(words[1])
            self.exit_code = code if argument == APPLICATION_EXIT else 1
            self._uc.emu_stop()
        else:
            self._stop(f"semihosting call {operation:#04x} is unknown")

    def _string(self, address: int) -> str:
        region = self.memories.region(address, 1, "semihosting")
        start = address - region.base
        end = start
        while end < region.size and region.data[end] != 0:
            end += 1
        return region.data[start:end].tobytes().decode("ascii", "replace")
