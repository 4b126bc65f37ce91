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

# Kernels: cycles of the core, which executes half of a vector in a cycle and lets an instruction of
# another kind begin behind the first half.
CALL = 60
# A product of 16 bytes with the load of the next: two cycles each, one behind the other's half.
PRODUCT = 2
# A column in registers: the call of its loop, a load of 16 bytes; two channels: their sums are stored.
HELD = 20
HELD_LOAD = 2
HELD_TWO = 4
# Two columns by two channels: pointers, sums and the loop; 16 inputs: four loads, four products. The
# same of one column: three loads, two products.
BLOCK = 16
BLOCK_ROUND = 8
ONE_ROUND = 6
# A column: where it begins; a run of neighbours that is copied; 16 bytes of it.
COLUMN = 20
RUN = 24
COPY_VECTOR = 5
# Depthwise: a pixel; eight channels of it, a tap, and where sums of 16 bits become some of 32.
PIXEL = 30
EIGHT = 24
EIGHT_TAP = 10
EIGHT_GROUP = 12
# Four sums of tables, with two loads that gather.
SUMS_FOUR = 24
# Four multiples of two operands.
LINE_FOUR = 22
# 16 bytes by a table: a load that gathers takes a cycle for each.
LUT_VECTOR = 26
# A vector of channels of a pool, and a tap of it.
POOL_VECTOR = 14
MAXPOOL_TAP = 14
AVGPOOL_TAP = 14
# Requantisation of the sums of a pixel, and of four of them by form: eight instructions in two cycles
# each, behind which loads hide.
FINISH_ROW = 16
FINISH = {"VECTOR": 18, "TURNED": 26, "SHIFTED": 28, "SCALAR": 90}


def finish(form: str) -> int:
    """Return the cycles of the requantisation of four sums."""
    return FINISH[form]
