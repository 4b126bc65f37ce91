"""Cycle constants of the GAP8 kernels and transfers.

Fitted to counts on the GVSOC model of GAP8 with eight cores, operands in L1, fork and barrier
included. A dense kernel costs, on the core with the most work,

    pixel pairs * (im2col + blocks of four channels * (words * BLOCK_WORD + 8 * epilogue))

with words = ceil(column / 4). The fit meets ten 3x3 layers (16 to 64 channels) within 5 % and eight
1x1 layers within 5 %, but for outputs of 8 channels or fewer (15 %).
"""

from __future__ import annotations

# One word of four inputs in the block of 4 channels x 2 pixels: 6 loads and 8 dot products.
BLOCK_WORD = 14
# The same for one channel of two pixels, and for the block of 4 channels x 1 pixel.
SINGLE_WORD = 6
COLUMN_WORD = 9

# From accumulator to stored output, per output: 32-bit and 64-bit requantisation, none.
EPILOGUE_32 = 29
EPILOGUE_64 = 53
EPILOGUE_NONE = 8
# Division by 2^k - 1 adds this; by any other number a division in software.
ONES_EXTRA = 8
DIVISION_32 = 40
DIVISION_64 = 400

# im2col of two pixels: fixed part, and tenths of a cycle per element.
IM2COL_PAIR = 680
IM2COL_TENTHS = 18
# im2col of a pixel in units of one output channel, by which cores decide how to share a tile.
IM2COL_CHANNELS = 4

# Depthwise, by counting instructions of the padded-row scheme; the upstream special 3x3 stride-1
# kernel, which works alike, takes 36 cycles per output with 32-bit requantisation.
DEPTHWISE_WORD = 5
DEPTHWISE_TAP = 5
DEPTHWISE_OUTPUT = 6
DEPTHWISE_ROW = 30
DEPTHWISE_ROW_WORD = 4

# Pools, per output element: upstream 2x2 maximum 20 (of four elements), 2x2 sum 75 with 32 bits.
MAXPOOL_TAP = 5
MAXPOOL_PIXEL = 60
AVGPOOL_TAP = 9
AVGPOOL_OUTPUT = 10

# Residual sum, per element: upstream 9 in one unit with 16-bit multipliers, 20 without inlining.
ADD_ELEMENT = 12
ADD_OPERAND_STEP = 4

# Call, fork-free, with reading the arguments and the sharing of work; the closing barrier.
CALL = 150
BARRIER = 22
