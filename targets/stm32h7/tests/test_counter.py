"""Instructions are counted by blocks as by single steps, those of a false condition, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from dory_stm32h7.emulator.counter import InstructionCounter
from dory_stm32h7.emulator.memories import Region
from image import require_emulator, session

from dory_core.api import ops
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

FLASH = 0x0800_0000
PAGE_BYTES = 1024  # where a block of the emulator ends at the latest
CMP_R0_0, ITE_EQ, MOV_R1_1, MOV_R1_2, NOP = 0x2800, 0xBF0C, 0x2101, 0x2102, 0xBF00


def instructions_of(
    blocks: Mapping[tuple[int, int], int], code: npt.NDArray[np.uint8]
) -> tuple[Counter[int], set[int]]:
    """Return how often each instruction was executed, and those that an IT block makes conditional.

    A block that begins where another one ends within an IT block goes on with its conditions.
    """
    executed: Counter[int] = Counter()
    conditional: set[int] = set()
    open_until: dict[int, int] = {}  # by the end of a block: instructions of its IT block to come
    for (start, size), count in sorted(blocks.items()):
        at, under_it = start, open_until.get(start, 0)
        while at < start + size:
            executed[at] += count
            if under_it:
                conditional.add(at)
                under_it -= 1
            low, high = (int(code[at - FLASH + k]) for k in (0, 1))
            if high == 0xBF and low & 0xF:
                under_it = 4 - ((low & -low) & 0xF).bit_length() + 1
            at += 4 if high >> 3 >= 0x1D else 2
        open_until[at] = under_it
    return executed, conditional


def test_an_image_is_counted_as_by_single_steps(tmp_path: Path) -> None:
    require_emulator()
    from unicorn import UC_HOOK_CODE

    builder = GraphBuilder((4, 5, 5), name="tiny")
    builder.conv(4, ops.Window(kernel=(1, 1)))
    build_app(builder.graph(), "stm32h7", tmp_path / "app", plugins=load_plugins())
    image = session(tmp_path / "app")
    stepped: Counter[int] = Counter()

    def on_step(_uc: object, address: int, _size: int, _data: object) -> None:
        stepped[address] += 1

    image.machine._uc.hook_add(UC_HOOK_CODE, on_step)
    image.run(60)
    counted, conditional = instructions_of(image.machine.blocks, image.machine.memories.flash.data)
    assert image.machine.instructions == counted.total() > 10_000
    # The runner leaves board_input at once when there are no more inputs.
    left = image.machine.image.symbol("board_input").address
    assert stepped[left] == counted[left] + 1
    stepped[left] -= 1
    different = {at for at in counted | stepped if counted[at] != stepped[at]}
    assert different <= conditional
    assert all(counted[at] > stepped[at] for at in different)


@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("r0", [0, 1])
def test_an_it_block_goes_on_in_the_next_page(before: int, r0: int) -> None:
    """The page ends ``before`` instructions behind the start: before, in and behind the block."""
    require_emulator()
    from unicorn import UC_ARCH_ARM, UC_HOOK_BLOCK, UC_MODE_MCLASS, UC_MODE_THUMB, UC_PROT_ALL, Uc
    from unicorn.arm_const import UC_ARM_REG_R0, UC_ARM_REG_R1

    flash = Region("flash", FLASH, 4 * PAGE_BYTES, writable=False)
    program = np.array([CMP_R0_0, ITE_EQ, MOV_R1_1, MOV_R1_2, NOP, NOP], "<u2")
    start = PAGE_BYTES - 2 * before
    flash.data[start : start + 12] = program.view(np.uint8)
    engine = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
    engine.mem_map_ptr(FLASH, flash.size, UC_PROT_ALL, flash.pointer)
    entered: list[int] = []
    engine.hook_add(UC_HOOK_BLOCK, lambda _uc, address, _size, _data: entered.append(address))
    counter = InstructionCounter(flash)
    counter.attach(engine)
    engine.reg_write(UC_ARM_REG_R0, r0)
    engine.emu_start((FLASH + start) | 1, FLASH + start + 12)
    assert engine.reg_read(UC_ARM_REG_R1) == 1 + r0
    assert (FLASH + PAGE_BYTES in entered) and len(entered) == 1 + (before > 0)
    assert counter.instructions == 6
    counted, conditional = instructions_of(counter.blocks(), flash.data)
    first = FLASH + start + 4
    assert conditional == {first, first + 2}
    assert counted == dict.fromkeys(range(FLASH + start, FLASH + start + 12, 2), 1)
