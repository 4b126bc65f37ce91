"""Cycles of the upstream kernels, fitted to counts on the GVSOC model of GAP8.

Operands in L1, eight cores, fork and barrier included. The fit meets ten 3x3 layers and eight 1x1
layers within 6 %, depthwise 3x3 layers within 5 %, linear layers within 5 %.
"""

from __future__ import annotations

from dory_core.api import Number, ceil_div

CALL = 150
# A word of the block of 4 channels x 2 pixels: 6 loads, 8 dot products; tenths of a cycle of a word
# of a single column.
BLOCK_WORD = 14
COLUMN_WORD_TENTHS = 45
# The same of one channel of two pixels, for what is left of four channels.
PAIR_WORD = 5
# From accumulator to stored output.
EPILOGUE = {32: 29, 64: 53}
# im2col of two pixels: fixed part, and tenths of a cycle per element of one of them.
IM2COL_PAIR = 680
IM2COL_TENTHS = 18
# Depthwise, a column of the image: per input row and word copied; per output, word of four taps and
# remaining tap.
DEPTHWISE_ROW = 12
DEPTHWISE_ROW_WORD = 12
DEPTHWISE_OUTPUT = 36
DEPTHWISE_WORD = 6
DEPTHWISE_TAP = 8
DEPTHWISE_WIDE = 23
LINEAR_WORD_TENTHS = 42
LINEAR_OUTPUT = 40
ADD_ELEMENT = 20
AVGPOOL_OUTPUT = 57
AVGPOOL_TAP_TENTHS = 43


def matmul(pixels: Number, c_out: Number, words: Number, im2col: Number, bits: int) -> Number:
    """Cycles of ``pixels`` pixels on one core: pairs, and a single last one when they are odd."""
    block = c_out // 4 * (words * BLOCK_WORD + 8 * EPILOGUE[bits])
    block = block + c_out % 4 * (words * PAIR_WORD + 2 * EPILOGUE[bits])
    single = c_out * (words * COLUMN_WORD_TENTHS // 10 + EPILOGUE[bits])
    return pixels // 2 * (im2col + block) + pixels % 2 * (im2col // 2 + single)


def conv(h: Number, w: Number, c_out: Number, column: Number, bits: int, cores: int) -> Number:
    """Convolution whose rows the cores share. column: taps x input channels."""
    im2col = IM2COL_PAIR + IM2COL_TENTHS * column // 10
    return CALL + matmul(ceil_div(h, cores) * w, c_out, ceil_div(column, 4), im2col, bits)


def pointwise(h: Number, w: Number, c_out: Number, c_in: Number, bits: int, cores: int) -> Number:
    """1x1 filters without im2col; rows that do not divide among the cores are halved."""
    odd = h % cores != 0
    whole = ceil_div(h, cores) * matmul(w, c_out, ceil_div(c_in, 4), 0, bits)
    if cores == 1:
        return CALL + whole
    half = ceil_div(h, cores // 2) * matmul(ceil_div(w, 2), c_out, ceil_div(c_in, 4), 0, bits)
    return CALL + odd * half + (1 - odd) * whole
