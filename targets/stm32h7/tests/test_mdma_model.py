"""The model of the MDMA alone: what moves when, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from dory_stm32h7.emulator import mdma_registers as registers
from dory_stm32h7.emulator.faults import ChipFault
from dory_stm32h7.emulator.mdma import Mdma
from dory_stm32h7.emulator.memories import POISON, Memories

AXI, DTCM, FLASH = 0x2400_0000, 0x2000_0000, 0x0800_0000
UP = 2 << 0 | 2 << 2
SWRM, TRGM_ALL, PKE = 1 << 30, 3 << 28, 1 << 25
DBUS = 1 << 17
CTCIF = 1 << 1


class Chip:
    """An MDMA whose registers are written as a driver does."""

    def __init__(self) -> None:
        self.memories = Memories()
        self.mdma = Mdma(self.memories, lambda: True, lambda _: False, set())
        self.memories.rams[0].data[:256] = np.arange(256)

    def write(self, register: int, value: int, channel: int = 0) -> None:
        self.mdma.write(0x40 + 0x40 * channel + register, 4, value)

    def read(self, register: int, channel: int = 0) -> int:
        return self.mdma.read(0x40 + 0x40 * channel + register, 4)

    def program(self, **values: int) -> None:
        words = {
            "TCR": UP | 15 << 18 | TRGM_ALL | SWRM,
            "BNDTR": 16,
            "SAR": AXI,
            "DAR": DTCM,
            "BRUR": 0,
            "LAR": 0,
            "TBR": DBUS,
        }
        for name, value in (words | values).items():
            self.write(getattr(registers, name), value)

    def start(self) -> None:
        self.write(registers.CR, 1)
        self.mdma.ordered = True
        self.write(registers.CR, 1 | 1 << 16)

    def wait(self) -> int:
        for polls in range(20):
            if self.read(registers.ISR) & CTCIF:
                return polls
        raise AssertionError("the transfer does not end")

    def dtcm(self, count: int) -> list[int]:
        return self.memories.tcms[0].data[:count].tolist()


def test_bytes_move_when_the_program_sees_the_end() -> None:
    chip = Chip()
    chip.program()
    chip.start()
    assert chip.dtcm(16) == [POISON] * 16
    chip.memories.rams[0].data[3] = 99  # overwritten too early: it arrives
    assert chip.wait() >= 1
    assert chip.dtcm(16) == [0, 1, 2, 99, *range(4, 16)]
    assert chip.read(registers.CR) == 0


def test_offsets_of_a_repetition_count_from_the_end_of_a_block() -> None:
    chip = Chip()
    chip.program(BNDTR=4 | 2 << 20, BRUR=6 | 2 << 16)
    chip.start()
    chip.wait()
    rows = [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]
    gap = [POISON] * 2
    assert chip.dtcm(16) == [*rows[0], *gap, *rows[1], *gap, *rows[2]]


def test_offsets_may_be_subtracted() -> None:
    chip = Chip()
    chip.program(BNDTR=4 | 1 << 20 | 1 << 18, BRUR=8, SAR=AXI + 8)
    chip.start()
    chip.wait()
    assert chip.dtcm(8) == [8, 9, 10, 11, 4, 5, 6, 7]


def test_a_list_is_walked_to_its_end() -> None:
    chip = Chip()
    node = chip.memories.view(AXI + 0x1000, 40, "node").view("<u4")
    tcr = UP | 15 << 18 | TRGM_ALL | SWRM
    node[:] = [tcr, 8, AXI + 100, DTCM + 16, 0, 0, DBUS, 0, 0, 0]
    chip.program(LAR=AXI + 0x1000)
    chip.start()
    chip.wait()
    assert chip.dtcm(24) == [*range(16), *range(100, 108)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"TBR": 0}, "the AXI bus is selected"),
        ({"TBR": DBUS | 1 << 16}, "the TCM port is selected"),
        ({"BNDTR": 0}, "blocks of 0 bytes"),
        ({"BNDTR": 65537}, "blocks of 65537 bytes"),
        ({"SAR": 0x2408_0000}, "no memory is there"),
        ({"SAR": 0x3000_0000}, "the clock of D2 SRAM is off"),
        ({"DAR": FLASH, "TBR": 0}, "flash is read-only"),
        ({"TCR": UP | 15 << 18 | TRGM_ALL}, "SWRM = 0"),
        ({"TCR": UP | 3 << 6 | 3 << 10 | PKE | 15 << 18 | TRGM_ALL | SWRM}, "TCM port has 32"),
        ({"TCR": UP | 2 << 4 | 2 << 8 | 15 << 18 | TRGM_ALL | SWRM}, "PKE = 0"),
        ({"TCR": UP | 15 << 18 | 4 << 12 | TRGM_ALL | SWRM}, "is not shorter than a buffer"),
        ({"TCR": UP | 2 << 8 | 15 << 18 | TRGM_ALL | SWRM}, "steps of 4 B"),
        ({"TCR": 2 << 2 | 15 << 18 | TRGM_ALL | SWRM}, "does not count upwards"),
        ({"LAR": AXI + 4}, "no multiple of 8"),
        ({"LAR": DTCM + 8}, "fetches lists over AXI"),
        (
            {"TCR": UP | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10 | 15 << 18 | TRGM_ALL | SWRM}
            | {"SAR": AXI + 1},
            "no multiple of 2 B",
        ),
        (
            {"TCR": UP | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10 | 15 << 18 | TRGM_ALL | SWRM}
            | {"BNDTR": 15},
            "are no multiples of 2 B",
        ),
        (
            {"TCR": UP | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10 | 15 << 18 | TRGM_ALL | SWRM}
            | {"BNDTR": 16 | 1 << 20, "BRUR": 1},
            "offset 1: no multiple",
        ),
    ],
)
def test_a_rule_is_broken(values: dict[str, int], message: str) -> None:
    chip = Chip()
    with pytest.raises(ChipFault, match=message):
        chip.program(**values)
        chip.start()


def test_registers_of_an_enabled_channel_are_not_written() -> None:
    chip = Chip()
    chip.program()
    chip.write(registers.CR, 1)
    with pytest.raises(ChipFault, match="EN = 1"):
        chip.write(registers.SAR, AXI)


def test_flags_are_cleared_before_the_next_transfer() -> None:
    chip = Chip()
    chip.program()
    chip.start()
    chip.wait()
    chip.program()
    with pytest.raises(ChipFault, match="stale flags"):
        chip.start()


def test_a_start_needs_a_barrier_behind_the_last_write() -> None:
    chip = Chip()
    chip.program()
    chip.mdma.ordered = True
    chip.write(registers.CR, 1)
    with pytest.raises(ChipFault, match="without a DSB"):
        chip.write(registers.CR, 1 | 1 << 16)


def test_nobody_moves_on_before_all_transfers_are_waited_for() -> None:
    chip = Chip()
    chip.program()
    chip.start()
    with pytest.raises(ChipFault, match=r"layer 3 ends: channel 0 was not waited for"):
        chip.mdma.require_idle("layer 3 ends")
    chip.wait()
    chip.mdma.require_idle("layer 3 ends")


@pytest.mark.parametrize("trigger", [0, 1 << 28])
def test_one_request_moves_what_its_trigger_covers(trigger: int) -> None:
    chip = Chip()
    chip.program(TCR=UP | 3 << 18 | trigger | SWRM, BNDTR=8 | 1 << 20)
    chip.start()
    with pytest.raises(ChipFault, match="nothing is in flight"):
        for _ in range(20_000):
            chip.read(registers.ISR)
    moved = 4 if trigger == 0 else 8
    assert chip.dtcm(16) == [*range(moved), *[POISON] * (16 - moved)]
