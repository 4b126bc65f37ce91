"""The driver of the MDMA on the emulated chip: random copies, joined ones, large ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.toolchain import find_toolchain
from image import require_emulator

from dory_core.api import ops, simulate
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

# Copies between a buffer in DTCM and one in AXI SRAM; a loop of the core says what must result.
MAIN = """\
#include <string.h>

#include "board.h"
#include "dory_hal.h"
#include "dory_stm32h7_config.h"

#define TCM_BYTES 50000
#define AXI_BYTES 140000

static uint8_t tcm[TCM_BYTES];
static uint8_t axi[AXI_BYTES] __attribute__((section(".dory_l2")));
static uint8_t want[AXI_BYTES] __attribute__((section(".dory_l2_1")));
static uint32_t state = 12345;

void dory_stm32h7_fault(uint32_t channel, uint32_t status)
{
  (void)channel;
  (void)status;
  board_exit(70);
}

static uint32_t number(uint32_t below)
{
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % below;
}

static void fill(void)
{
  for (uint32_t i = 0; i < TCM_BYTES; i++) tcm[i] = (uint8_t)number(256);
  for (uint32_t i = 0; i < AXI_BYTES; i++) axi[i] = (uint8_t)number(256);
}

static void reference(const dory_copy_t *copy, uint8_t *base, const uint8_t *whole)
{
  uint8_t *const dst = base + ((const uint8_t *)copy->dst - whole);
  for (uint32_t p = 0; p < copy->n2; p++)
    for (uint32_t r = 0; r < copy->n1; r++)
      for (uint32_t i = 0; i < copy->n0 * copy->elem; i++)
        dst[(int32_t)p * copy->dst_s2 + (int32_t)r * copy->dst_s1 + (int32_t)i] =
            ((const uint8_t *)copy->src)[(int32_t)p * copy->src_s2 + (int32_t)r * copy->src_s1 +
                                         (int32_t)i];
}

/* Starts `count` copies on one ticket, waits for it, and compares the whole destination. */
static void check(const dory_copy_t *copies, uint32_t count, int status)
{
  const int to_tcm = copies[0].dir == DORY_L2_TO_L1;
  uint8_t *const whole = to_tcm ? tcm : axi;
  const uint32_t bytes = to_tcm ? TCM_BYTES : AXI_BYTES;
  memcpy(want, whole, bytes);
  for (uint32_t i = 0; i < count; i++) reference(&copies[i], want, whole);
  dory_ticket_t ticket = DORY_NO_TICKET;
  for (uint32_t i = 0; i < count; i++) ticket = dory_dma_join(ticket, &copies[i]);
  dory_dma_wait(ticket);
  if (memcmp(want, whole, bytes) != 0) board_exit(status);
}

static dory_copy_t copy_of(int to_tcm, uint32_t n0, uint32_t n1, uint32_t n2, int32_t tcm_s1,
                           int32_t tcm_s2, int32_t axi_s1, int32_t axi_s2, uint32_t tcm_at,
                           uint32_t axi_at)
{
  const dory_copy_t copy = {
    .dst = to_tcm ? tcm + tcm_at : axi + axi_at,
    .src = to_tcm ? axi + axi_at : tcm + tcm_at,
    .n0 = n0, .n1 = n1, .n2 = n2,
    .dst_s1 = to_tcm ? tcm_s1 : axi_s1, .dst_s2 = to_tcm ? tcm_s2 : axi_s2,
    .src_s1 = to_tcm ? axi_s1 : tcm_s1, .src_s2 = to_tcm ? axi_s2 : tcm_s2,
    .elem = 1, .dir = to_tcm ? DORY_L2_TO_L1 : DORY_L1_TO_L2,
  };
  return copy;
}

int main(void)
{
  dory_stm32h7_init();
  fill();
  for (uint32_t n = 0; n < 120; n++) {
    const uint32_t unit = 1u << number(4);
    const int32_t n0 = (int32_t)(unit * (1 + number(9)));
    const uint32_t n1 = 1 + number(9), n2 = 1 + number(7);
    const int32_t row = n0 + (int32_t)(unit * number(3)), wide = n0 + (int32_t)(unit * number(5));
    const int32_t plane = row * (int32_t)n1 + (int32_t)(unit * number(2));
    const int32_t far = wide * (int32_t)n1 + (int32_t)(unit * number(3));
    dory_copy_t one = copy_of((int)number(2), (uint32_t)n0, n1, n2, row, plane, wide, far,
                              unit * number(100), unit * number(1000));
    if (unit == 4) {
      one.n0 /= 2;
      one.elem = 2;
    }
    check(&one, 1, 1);
  }
  /* 40 copies on one ticket: more than there are channels. */
  dory_copy_t many[40];
  for (uint32_t n = 0; n < 40; n++)
    many[n] = copy_of(1, 1, 5, 7, 1, 5, 40, 250, n * 35, n);
  check(many, 40, 2);
  /* Beyond 4096 rows, 65535 bytes between rows, and the room of a list. */
  const dory_copy_t rows = copy_of(1, 4, 5000, 1, 4, 0, 12, 0, 0, 0);
  check(&rows, 1, 3);
  const dory_copy_t stride = copy_of(0, 100, 2, 1, 100, 0, 70000, 0, 8, 4);
  check(&stride, 1, 4);
  const dory_copy_t planes = copy_of(1, 3, 40, 41, 3, 120, 7, 301, 1, 2);
  check(&planes, 1, 5);
  const dory_copy_t single = copy_of(0, 45000, 1, 1, 0, 0, 0, 0, 3, 9);
  check(&single, 1, 6);
  /* Tickets that are open at once, waited for in another order. */
  dory_ticket_t tickets[12];
  memcpy(want, tcm, TCM_BYTES);
  for (uint32_t n = 0; n < 12; n++) {
    const dory_copy_t one = copy_of(1, 64, 4, 1, 64, 0, 100, 0, n * 300, n * 411);
    reference(&one, want, tcm);
    tickets[n] = dory_dma_start(&one);
  }
  for (uint32_t n = 12; n-- > 0;) dory_dma_wait(tickets[n]);
  if (memcmp(want, tcm, TCM_BYTES) != 0) board_exit(7);
  /* One copy stays under way beside more of them than there are channels. */
  axi[0] = (uint8_t)(tcm[0] + 1);
  const dory_copy_t slow = copy_of(1, 64, 1, 1, 0, 0, 0, 0, 0, 0);
  const dory_ticket_t open = dory_dma_start(&slow);
  for (uint32_t n = 0; n < 40; n++) {
    const dory_copy_t one = copy_of(1, 64, 1, 1, 0, 0, 0, 0, 128, 128);
    dory_dma_wait(dory_dma_start(&one));
  }
  board_print(*(volatile uint8_t *)tcm == axi[0] ? "moved" : "under way");
  dory_dma_wait(open);
  return *(volatile uint8_t *)tcm == axi[0] ? 0 : 8;
}
"""


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("driver", "cached", "channels"),
    [("mdma", 0, 0xFFFF), ("mdma", 1, 0xFFFF), ("mdma", 0, 0x0412), ("memcpy", 1, 0xFFFF)],
)
def test_copies_are_those_of_a_loop(
    driver: str, cached: int, channels: int, tmp_path: Path
) -> None:
    require_emulator()
    plugins = load_plugins()
    builder = GraphBuilder((4, 5, 5), name="tiny")
    builder.conv(4, ops.Window(kernel=(1, 1)))
    directory = tmp_path / "app"
    budgets, settings = {1: 4096, 2: 4096}, {"dma": driver}
    build_app(
        builder.graph(),
        "stm32h7",
        directory,
        plugins=plugins,
        budgets=budgets,
        settings=settings,
    )
    config = directory / "hal/stm32h7/dory_stm32h7_config.h"
    text = config.read_text()
    for old in (0, 1):
        text = text.replace(f"ARENAS_CACHED {old}", f"ARENAS_CACHED {cached}")
    for old, new in (("CHANNELS 0x00FFu", f"CHANNELS {channels:#x}u"), ("NODES 0", "NODES 24")):
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    (directory / "board/main.c").write_text(MAIN)
    toolchain = find_toolchain()
    machine = Machine(
        read_elf(simulate.build_program(directory, toolchain.recipe(), toolchain.compiler)),
        seed=cached,
    )
    machine.run(120)
    assert machine.exit_code == 0
    assert machine.output == ("under way" if driver == "mdma" else "moved")
    taken = sum(1 << c.number for c in machine.mdma.channels if any(c.registers.values()))
    assert taken == (channels if driver == "mdma" else 0)


# A copy of a row and its wait, again and again, between marks.
FEW = """\
#include "board.h"
#include "dory_hal.h"
#include "dory_stm32h7_config.h"
#include "dory_tile.h"

static uint8_t tcm[4096];
static uint8_t axi[4096] __attribute__((section(".dory_l2")));
__attribute__((noinline)) void mark(void) { __asm__ volatile("" ::: "memory"); }

int main(void)
{
  dory_stm32h7_init();
  for (uint32_t n = 0; n < 40; n++) {
    mark();
    const dory_ticket_t ticket = dory_dma_start(DORY_LOAD_ROW(tcm, axi, 4096));
    mark();
    dory_dma_wait(ticket);
    mark();
    dory_dma_wait(dory_dma_start(DORY_LOAD_ROWS(tcm, axi, 64, 20, 128)));
  }
  return 0;
}
"""


def test_a_transfer_takes_few_instructions(tmp_path: Path) -> None:
    require_emulator()
    builder = GraphBuilder((4, 5, 5), name="tiny")
    builder.conv(4, ops.Window(kernel=(1, 1)))
    build_app(builder.graph(), "stm32h7", tmp_path / "app", plugins=load_plugins())
    (tmp_path / "app/board/main.c").write_text(FEW)
    toolchain = find_toolchain()
    chip = Machine(
        read_elf(simulate.build_program(tmp_path / "app", toolchain.recipe(), toolchain.compiler))
    )
    seen: list[int] = []
    chip.at("mark", lambda chip: seen.append(chip.instructions))
    chip.run(60)
    assert chip.exit_code == 0 and len(seen) == 120
    start = min(b - a for a, b in zip(seen[0::3], seen[1::3], strict=True))
    wait = min(b - a for a, b in zip(seen[1::3], seen[2::3], strict=True))
    assert start + wait <= 190, (start, wait)
