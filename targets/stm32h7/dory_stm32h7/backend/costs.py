"""Instructions of the kernels, counted on the Cortex-M7's instruction set.

The images were compiled by clang and executed instruction by instruction; tests hold the estimate
against such counts. The core issues up to two instructions per cycle and waits for loads and
taken branches: one cycle per instruction is assumed, which no measurement on a chip backs.
"""

from __future__ import annotations

# A call of a kernel: arguments, loop over groups.
CALL = 60
# The 2 x 2 block: a vector of four elements, entry with its row addresses, exit.
BLOCK_VECTOR = 18
BLOCK = 34
# One row and one pixel of it: odd numbers of channels or pixels.
SINGLE_VECTOR = 10
SINGLE = 16
# An output: requantisation and store.
OUTPUT = 8
# Wider forms of requantisation.
SHIFT_EXTRA = 3
BOUNDS_EXTRA = 4
SECOND = 14
# Columns: a pixel, a run of taps, one that is first copied as bytes, ten elements widened, ten
# elements copied.
PIXEL = 20
RUN = 24
RUN_COPIED = 110
TEN_WIDENED = 11
TEN_COPIED = 12
# Fully connected: four rows and a vector; one row and a vector.
LINEAR_FOUR = 27
LINEAR_ONE = 10
LINEAR_ENTRY = 24
# Depthwise: a tap of four channels in a pair of pixels (each), at a border; row of taps; pixel.
DEPTHWISE_PAIR = 9
DEPTHWISE_BORDER = 14
DEPTHWISE_ROW = 8
DEPTHWISE_PIXEL = 50
DEPTHWISE_NARROW = 9
# Pooling: a pixel, four channels, a tap of four channels, of one.
POOL_PIXEL = 90
POOL_FOUR = 30
MAXPOOL_TAP = 9
AVGPOOL_TAP = 8
POOL_NARROW = 7
# Sums: an element with both operands as they are; a scaled operand; a clipped one.
ADD_ELEMENT = 4
ADD_SCALED = 2
ADD_CLIPPED = 4
# CMSIS-NN: instructions per hundred multiplications, by function; per output; per element of a
# column and per tap that is copied into it; per tap of a maximum; per word whose bits turn over.
CMSIS_CONV = 165
CMSIS_POINTWISE = 165
CMSIS_DEPTHWISE_3X3 = 400
CMSIS_DEPTHWISE = 930
CMSIS_LINEAR = 350
CMSIS_OUTPUT = 20
CMSIS_COLUMN_TENTHS = 45
CMSIS_TAP = 60
CMSIS_MAXPOOL_TAP = 4
CMSIS_TURN = 5
