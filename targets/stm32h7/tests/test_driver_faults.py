"""Faults seeded into driver and start-up code: the emulated chip finds every one of them."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from dory_stm32h7 import hardware, parts
from image import RUNNER, require_emulator, run_image

from dory_core.api import VerificationFailed, ops
from dory_core.importing import requant
from dory_core.testing import Plugins, run_application
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

DRIVER = "hal/stm32h7/dory_mdma.c"
BLOCKS = "hal/stm32h7/dory_mdma_blocks.h"
CHIP = "hal/stm32h7/dory_stm32h7.c"
REGISTERS = "hal/stm32h7/dory_stm32h7_registers.h"
PART = "hal/stm32h7/dory_stm32h7_part.h"
LINKER = "board/sections.ld"


@dataclass(frozen=True)
class Fault:
    """A change of one file. found: what the chip says; None: that, or values that are wrong."""

    name: str
    file: str
    old: str
    new: str
    found: str | None = None

    def __str__(self) -> str:
        return self.name


FAULTS = (
    Fault(
        "data_cache_not_written_back",
        CHIP,
        "    empty_data_cache();\n",
        "    (void)empty_data_cache;\n",
        "was not written back before",
    ),
    Fault(
        "half_of_the_data_cache_written_back",
        REGISTERS,
        "set < sets; set++",
        "set < sets; set += 2u",
        "was not written back before",
    ),
    Fault(
        "no_wait",
        DRIVER,
        "    finish(lowest(left));\n  }\n}\n",
        "    (void)finish;\n  }\n}\n",
    ),
    Fault(
        "wait_for_loads_only",
        DRIVER,
        "    finish(lowest(left));\n  }\n}\n",
        "    if (in_tcm(jobs[lowest(left)].dst)) finish(lowest(left));\n  }\n}\n",
        "was not waited for",
    ),
    Fault(
        "one_look_at_the_flags",
        DRIVER,
        "while (!((flags = mdma->isr) & (MDMA_ISR_CTCIF | MDMA_ISR_TEIF))) {",
        "while (((flags = mdma->isr), 0)) {",
    ),
    Fault(
        "axi_bus_for_dtcm",
        BLOCKS,
        "(to_tcm ? MDMA_TBR_DBUS : 0u)",
        "0u",
        "lies in DTCM, the AXI bus is selected",
    ),
    Fault(
        "tcm_bus_for_axi",
        BLOCKS,
        "(from_tcm ? MDMA_TBR_SBUS : 0u)",
        "MDMA_TBR_SBUS",
        "the TCM port is selected",
    ),
    Fault(
        "mdma_clock_off",
        PART,
        "{0x580244D4u, 0x1u}",
        "{0x580244D4u, 0x0u}",
        "its clock is off",
    ),
    Fault(
        "sram_clock_off",
        PART,
        "{0x580244DCu, 0xE0000000u}",
        "{0x580244DCu, 0x60000000u}",
        "D2 SRAM.* clock is off|clock of D2 SRAM is off",
    ),
    Fault(
        "offset_from_the_start_of_the_block",
        BLOCKS,
        "(uint32_t)job->src_row - job->bytes;",
        "(uint32_t)job->src_row;",
    ),
    Fault(
        "offset_of_destination_from_the_start",
        BLOCKS,
        "(uint32_t)job->dst_row - job->bytes;",
        "(uint32_t)job->dst_row;",
    ),
    Fault(
        "planes_for_rows",
        DRIVER,
        ".src_row = copy->src_s1,",
        ".src_row = copy->src_s2,",
    ),
    Fault(
        "one_block_too_many",
        BLOCKS,
        "MDMA_BNDTR_BRC(blocks - 1u)",
        "MDMA_BNDTR_BRC(blocks)",
    ),
    Fault(
        "stale_flags",
        DRIVER,
        "ifcr = MDMA_IFCR_ALL;",
        "ifcr = 0;",
        "stale flags",
    ),
    Fault(
        "registers_behind_enable",
        DRIVER,
        "  mdma->ifcr = MDMA_IFCR_ALL;\n  put_block",
        "  mdma->ifcr = MDMA_IFCR_ALL;\n  mdma->cr = MDMA_CR_EN;\n  put_block",
        "is written while the channel is enabled",
    ),
    Fault(
        "request_with_enable",
        DRIVER,
        "  mdma->cr = enable;\n  dsb();",
        "  dsb();",
        "takes requests once it is enabled",
    ),
    Fault(
        "no_barrier",
        DRIVER,
        "  dsb(); /* the list and",
        "  /* the list and",
        "without a DSB",
    ),
    Fault(
        "double_words_on_the_tcm_port",
        BLOCKS,
        "to_tcm ? 2u : 3u);",
        "3u);",
        "the TCM port has 32",
    ),
    Fault(
        "widest_elements_always",
        BLOCKS,
        "return lowest(bits | 1u << most);",
        "return (void)bits, most;",
        "no multiple of",
    ),
    Fault(
        "burst_of_the_whole_buffer",
        BLOCKS,
        "(buffer - 1u) | 1u",
        "buffer",
        "not shorter than a buffer",
    ),
    Fault("widths_without_packing", BLOCKS, "MDMA_TCR_PKE : 0u", "0u : 0u", "PKE = 0"),
    Fault(
        "trigger_covers_one_buffer",
        BLOCKS,
        "MDMA_TCR_TRGM_ALL",
        "0u",
        "nothing is in flight",
    ),
    Fault(
        "trigger_covers_one_block",
        BLOCKS,
        "MDMA_TCR_TRGM_ALL",
        "(1u << 28)",
        "nothing is in flight",
    ),
    Fault(
        "trigger_covers_no_list",
        BLOCKS,
        "MDMA_TCR_TRGM_ALL",
        "(2u << 28)",
        "nothing is in flight",
    ),
    Fault(
        "list_in_dtcm",
        LINKER,
        "*(.dory_mdma) } > AXI_SRAM",
        "*(.dory_mdma) } > DTCM",
        "the MDMA fetches lists over AXI",
    ),
    Fault(
        "list_at_odd_words",
        DRIVER,
        "*link = (uint32_t)(uintptr_t)node;",
        "*link = (uint32_t)(uintptr_t)node + 4u;",
        "no multiple of 8",
    ),
    Fault(
        "arenas_cached_without_cleaning",
        CHIP,
        "  MPU_CTRL |= MPU_CTRL_ENABLE",
        "  MPU_CTRL |= 0u * MPU_CTRL_ENABLE",
        "the data cache holds|is cached and was not cleaned",
    ),
    Fault(
        "uncached_region_too_small",
        PART,
        "{0x24000000u, 19u}",
        "{0x24000000u, 10u}",
        "the data cache holds AXI SRAM",
    ),
    Fault(
        "erratum_of_axi_sram",
        CHIP,
        "AXI_TARG7_FN_MOD = AXI_TARG7_FN_MOD_ONE_READ;",
        "",
        "several reads of AXI SRAM under way",
    ),
    Fault(
        "interrupts_while_the_cache_is_emptied",
        CHIP,
        "const uint32_t mask = interrupts_off();",
        "const uint32_t mask = 0;",
        "while interrupts are on",
    ),
    Fault(
        "interrupts_while_the_mpu_is_off",
        CHIP,
        "  dsb();\n  MPU_CTRL &=",
        "  interrupts_restore(mask);\n  dsb();\n  MPU_CTRL &=",
        "while interrupts are on",
    ),
    Fault(
        "cycle_counter_of_the_user",
        CHIP,
        "  SCB_DEMCR |= SCB_DEMCR_TRCENA;\n",
        "  SCB_DEMCR |= SCB_DEMCR_TRCENA;\n  DWT_CYCCNT = 0;\n",
        "cycle counter is set",
    ),
    Fault("stack_overflow", LINKER, "STACK_SIZE = 8K", "STACK_SIZE = 64", "where nothing answers"),
)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    return load_plugins()


@pytest.fixture(scope="module")
def sound(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiles with slices of the channels, lists, odd widths and both memories of L2."""
    window = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    builder = GraphBuilder((15, 31, 33), name="faulty", seed=5)
    first = builder.conv(32, window)
    second = builder.conv(32, window)
    builder.add(first, second, requants=(requant(1, 0, 512, 0, 255),))
    builder.conv(24, ops.Window(kernel=(1, 1)))
    builder.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    directory = tmp_path_factory.mktemp("sound") / "app"
    taken = parts.DEFAULT.rams[0].size_bytes - 70_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardware, "DESCRIPTORS_BYTES", taken)
        plan = build_app(builder.graph(), "stm32h7", directory, plugins=plugins, budgets={1: 12000})
    assert {t.place.memory for s in plan.steps for t in (*s.inputs, s.output)} == {0, 1}
    assert any(t.form == "pixels" for s in plan.steps for t in (*s.inputs, s.output))
    assert max(step.tile_count for step in plan.steps) > 8
    run_image(directory, plugins)
    return directory


@pytest.mark.sample(12)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_fault_is_found(fault: Fault, sound: Path, plugins: Plugins, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    shutil.copytree(sound, directory)
    path = directory / fault.file
    text = path.read_text()
    assert fault.old in text, "the fault does not apply any more"
    path.write_text(text.replace(fault.old, fault.new))
    try:
        result = run_application(directory, plugins=plugins, runner=RUNNER)
    except VerificationFailed as error:
        assert fault.found is None or re.search(fault.found, error.message), error.message
        assert re.search(r"layer \d+|before the first layer|after the last layer", error.message)
        return
    assert not result.exact, "the fault was not found"
    assert fault.found is None
