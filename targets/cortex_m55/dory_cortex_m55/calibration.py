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
# Some pixels by 128 channels: calls.
GROUP = 60
# A column in registers: its loop, a load of 16 bytes. Two channels: their sums are stored.
HELD = 12
HELD_LOAD = 2
HELD_TWO = 2
# Two columns by two channels: sums, pointers, loop. A round of 16 inputs: four loads and products;
# of one column three loads, two products.
BLOCK = 13
BLOCK_ROUND = 8
ONE_ROUND = 6
# Inputs of windows: a column of x and a row of it, of at most 16 channels or of more; 16 bytes; a
# row in a call of its own, where one lies outside of x; a row of many columns.
SMALL_COLUMN = 8
SMALL_ROW = 5
COLUMN = 30
RUN = 6
COPY_VECTOR = 4
BORDER_ROW = 25
VECTORS_ROW = 60
# Depthwise: a row of outputs of 16 channels; a plane of words, and a column of it; a channel of a
# row; four outputs of small windows; two of which each is a vector; an output, and a vector of its
# window.
ROW = 60
PLANE = 120
PLANE_COLUMN = 20
CHANNEL = 24
FOUR_OUTPUTS = 11
TWO_OUTPUTS = 10
OUTPUT = 4
OUTPUT_VECTOR = 4
# A pool: an output.
PIXEL = 80
# Four sums of tables, with two loads that gather; four multiples of two operands.
SUMS_FOUR = 18
LINE_FOUR = 18
# 16 bytes by a table.
LUT_VECTOR = 14
# A pool: a vector of channels, a tap of it.
POOL_VECTOR = 14
MAXPOOL_TAP = 9
AVGPOOL_TAP = 7
# Requantisation: a pixel; eight outputs of it by form, and where the shift is 16, which narrowing
# has.
FINISH_PIXEL = 14
FINISH = {"VECTOR": 29, "TURNED": 42, "SHIFTED": 48, "SCALAR": 320}
FINISH_BY_16 = {"VECTOR": 25, "TURNED": 38}
FINISH_SIGNED_BY_16 = {"VECTOR": 24, "TURNED": 35}


def finish(form: str, down: int, signed: bool) -> int:
    """Return the cycles of the requantisation of eight sums.

    down: the shift to the right. signed: True where the bounds are those of a byte with a sign.
    """
    by_16 = FINISH_SIGNED_BY_16 if signed else FINISH_BY_16
    return by_16.get(form, FINISH[form]) if down == 16 else FINISH[form]
