"""Cycles of the upstream kernels, by the counts in dory_gap8.calibration."""

from __future__ import annotations

from dory_core.expr import ceil_div
from dory_core.kernel import Number
from dory_gap8 import calibration as costs


def matmul(pixels: Number, c_out: Number, words: Number, im2col: Number, bits: int) -> Number:
    """Cycles of ``pixels`` pixels on one core: pairs, and a last one alone when they are odd."""
    block = c_out // 4 * (words * costs.PULP_BLOCK_WORD + 8 * costs.PULP_EPILOGUE[bits])
    block = block + c_out % 4 * (words * costs.PULP_PAIR_WORD + 2 * costs.PULP_EPILOGUE[bits])
    single = c_out * (words * costs.PULP_COLUMN_WORD_TENTHS // 10 + costs.PULP_EPILOGUE[bits])
    return pixels // 2 * (im2col + block) + pixels % 2 * (im2col // 2 + single)


def conv(h: Number, w: Number, c_out: Number, column: Number, bits: int, cores: int) -> Number:
    """Convolution whose rows the cores share. column: taps x input channels."""
    im2col = costs.PULP_IM2COL_PAIR + costs.PULP_IM2COL_TENTHS * column // 10
    return costs.PULP_CALL + matmul(
        ceil_div(h, cores) * w, c_out, ceil_div(column, 4), im2col, bits
    )


def pointwise(h: Number, w: Number, c_out: Number, c_in: Number, bits: int, cores: int) -> Number:
    """1x1 filters without im2col; rows that do not divide among the cores are halved."""
    odd = h % cores != 0
    whole = ceil_div(h, cores) * matmul(w, c_out, ceil_div(c_in, 4), 0, bits)
    if cores == 1:
        return costs.PULP_CALL + whole
    half = ceil_div(h, cores // 2) * matmul(ceil_div(w, 2), c_out, ceil_div(c_in, 4), 0, bits)
    return costs.PULP_CALL + odd * half + (1 - odd) * whole
