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

# Slices, padding, concatenation: a run of bytes.
MOVE_RUN = 52
# Axes in another order: a line of bytes that are apart, eight of them: a load that gathers, a store
# that scatters.
APART_LINE = 24
APART_EIGHT = 20
# Portable kernels: instructions on QEMU of layers of MLPerf Tiny, coral's MobileNet and NEMO's
# networks, one cycle each. A pool visits the taps that it has, a convolution looks at each.
PORTABLE = {"output": 120, "step": 180, "tap": 75, "mac": 4, "generic_mac": 44, "element": 20}
PORTABLE_POOL = {**PORTABLE, "tap": 30}

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
# Rows in registers: of a column of a vector four rows, of two or three vectors two rows; their
# weights and the loop.
FOUR_OF_1 = 11
TWO_OF = {2: 10, 3: 14}
FEW = 18
# Two columns by two channels: sums, pointers, loop. A round of 16 inputs: four loads and products;
# of one column three loads, two products.
BLOCK = 13
BLOCK_ROUND = 8
ONE_ROUND = 6
# The sum of a column where weights are stored less a number: a column, 16 bytes, eight channels.
LIFT = 16
LIFT_VECTOR = 7
LIFT_EIGHT = 14
# Inputs of windows: a call; of a row of x a run of bytes, of at most 16 or of more, 16 bytes of it;
# a row whose taps are laid one by one; a row that is partly beside of x.
LAY = 60
RUN_OF_ONE = 5
RUN = 6
COPY_VECTOR = 4
ROW_OF_TAPS = 15
BORDER_ROW = 20
# A channel of a matrix as a row of weights, and 16 of its bytes.
LAY_CHANNEL = 40
LAY_CHANNEL_VECTOR = 30
# Depthwise: a row of outputs of 16 channels; a plane of words, and a column of it; a channel of a
# row; four outputs of small windows; two of which each is a vector; an output, and a vector of its
# window.
ROW = 60
PLANE = 120
PLANE_COLUMN, FLIPPED_COLUMN = 16, 20
CHANNEL = 16
CHANNEL_OF_TWO = 24
FOUR_OUTPUTS = 10
TWO_OUTPUTS = 8
OUTPUT = 4
OUTPUT_VECTOR = 4
# Sums of both bytes of eight channels, of a pixel.
BOTH_BYTES = 12
# Interpolation: a pixel of nearest neighbours, four channels of a sum.
RESIZE_RUN = 20
RESIZE_FOUR = 30
# A pool: an output.
PIXEL = 80
# Four sums of tables, with two loads that gather; a pixel of them; four multiples of two operands.
SUMS_FOUR = 18
SUMS_RUN = 10
# In addition where operands or outputs are others than bytes.
SUMS_OTHER = 36
LINE_FOUR = 18
# 16 bytes by a table.
LUT_VECTOR = 14
# Outputs of a pixel by a table.
TABLE_PIXEL = 12
# Four numbers by a table.
LUT_WORDS = 8
# A pool: a vector of channels, a tap of it.
POOL_VECTOR = 14
MAXPOOL_TAP = 9
AVGPOOL_TAP = 7
# In binary32: a tap of four channels, and their divisions.
MEAN_TAP = 9
MEAN_FOUR = 180
# Softmax: a pixel, 16 channels of its largest one, four of the sum, four shares.
SOFTMAX_PIXEL = 190
SOFTMAX_LARGEST = 12
SOFTMAX_SUM = 12
SOFTMAX_SHARE = 26
# Shares of integers: a pixel with its division, four quotients.
SHARES_PIXEL = 420
SHARES_FOUR = 36
# Normalisation: a pixel with its root, 16 channels of its sums, four outputs.
NORM_PIXEL = 250
NORM_SUM = 10
NORM_FOUR = 40
# Requantisation: a call; eight channels of its pixels, two of these pixels, and where the shift is
# 16, which narrowing has. Where pixels go one by one: a pixel, eight outputs of it by form.
FINISH_CALL = 60
FINISH_EIGHT = 20
FINISH_TWO, FINISH_TWO_BY_16, FINISH_TWO_FLOAT = 42, 34, 51
FINISH_PIXEL = 14
FINISH = {
    "VECTOR": 32,
    "PLAIN": 32,
    "TURNED": 40,
    "SHIFTED": 46,
    "BINARY32": 37,
    "ROUNDED": 37,
    "SCALAR": 320,
    "SUMS": 16,
}
FINISH_SIGNED_BY_16 = {"TURNED": 33}
# The shift to the right that narrowing has.
FAST_DOWN = 16
# CMSIS-NN with MVE (sources of July 2026, -O2): least squares over instructions of 299 layers on
# QEMU, one cycle each; its loops over products alternate between loads and products, as those
# above. A call; a word whose bits turn over, or that is copied.
CMSIS_CALL = 300
CMSIS_TURN = 5
# A pixel of a convolution and of a depthwise layer, a tap of it, 16 channels of a tap.
CMSIS_COLUMN, CMSIS_WINDOW = 102, 80
CMSIS_TAP = 14
CMSIS_TAP_VECTOR = 6
# A channel of four columns, 16 inputs of it; of one column.
CMSIS_FOUR, CMSIS_FOUR_VECTOR = 58, 11
CMSIS_ONE, CMSIS_ONE_VECTOR = 26, 6
# Four channels of four windows, a tap of them; of one window.
CMSIS_DEPTHWISE_FOUR, CMSIS_DEPTHWISE_FOUR_TAP = 126, 13
CMSIS_DEPTHWISE_ONE, CMSIS_DEPTHWISE_ONE_TAP = 20, 10
# Four outputs of a fully connected layer, 16 inputs of them; one output.
CMSIS_OUTPUTS, CMSIS_OUTPUTS_VECTOR = 66, 34
CMSIS_OUTPUT, CMSIS_OUTPUT_VECTOR = 27, 15
# A pixel of a pool, 16 channels of it, a tap, 16 channels of a tap.
CMSIS_POOL, CMSIS_POOL_VECTOR = 7, 4
CMSIS_POOL_TAP, CMSIS_POOL_TAP_VECTOR = 27, 16


def finish_two(form: str, down: int) -> int:
    """Return the cycles of the requantisation of eight sums of two pixels."""
    if form == "BINARY32":
        return FINISH_TWO_FLOAT
    return FINISH_TWO_BY_16 if down == FAST_DOWN else FINISH_TWO


def finish(form: str, down: int, signed: bool) -> int:
    """Return the cycles of the requantisation of eight sums.

    down: the shift to the right. signed: True where the bounds are those of a byte with a sign.
    """
    by_16 = FINISH_SIGNED_BY_16 if signed and down == FAST_DOWN else FINISH
    return by_16.get(form, FINISH[form])
