"""Everything that estimates rest on, with its source: a model of the core. No chip was measured."""

from __future__ import annotations

# Copies by the core, 16 bytes in a load and a store of two cycles each (hal/dory_copy.c). A start
# is a call with its loops; a row begins a loop.
COPY_SETUP = 40
COPY_ROW = 10.0
COPY_BYTES_PER_CYCLE = 4.0
# From the core to SRAM and back over AXI, once for a run of lines that are fetched ahead.
RAM_LATENCY = 12
# A DMA that the program drives: writing its registers, and a row's descriptor. By counting.
DMA_SETUP = 150
DMA_ISSUE = 100
DMA_ROW = 8.0

# Kernels. A vector instruction takes two cycles, one for each half, and an instruction of another
# kind begins after the first half: loads and stores, products, and the rest are such kinds. Loops:
# the scheduling model of the Cortex-M55 in LLVM 16 (ARMScheduleM55.td), by llvm-mca on the loops as
# compiled. What is around them: instructions as QEMU counts them, one cycle each.
CALL = 60
# A product of 16 bytes with the load of the next one: 2 cycles.
PRODUCT = 2
# A column in registers: its loop, a load of 16 bytes. Two channels: their sums are stored.
HELD = 50
HELD_LOAD = 2
HELD_TWO = 3
# Two columns by two channels: pointers, sums, loop. A round of 16 inputs: four loads, four
# products. The same of one column: three loads, two products.
BLOCK = 32
BLOCK_ROUND = 8
ONE_ROUND = 6
# A column: where it begins; a run of neighbours that is copied; 16 bytes of it.
COLUMN = 90
RUN = 34
COPY_VECTOR = 4
# Depthwise: an output; eight channels of a 3x3 window; of another window: eight channels, a tap,
# where sums of 16 bits become some of 32.
PIXEL = 80
EIGHT_3X3 = 74
EIGHT = 30
EIGHT_TAP = 16
EIGHT_GROUP = 12
# Eight outputs come together as bytes.
EIGHT_JOINED = 8
# Four sums of tables, with two loads that gather; four multiples of two operands.
SUMS_FOUR = 18
LINE_FOUR = 15
# 16 bytes by a table.
LUT_VECTOR = 14
# A pool: a vector of channels, a tap of it.
POOL_VECTOR = 14
MAXPOOL_TAP = 17
AVGPOOL_TAP = 17
# Requantisation: sums of a pixel, and four of them by form.
FINISH_ROW = 20
FINISH = {"VECTOR": 18, "TURNED": 30, "SHIFTED": 30, "SCALAR": 90}


def finish(form: str) -> int:
    """Return the cycles of the requantisation of four sums."""
    return FINISH[form]
