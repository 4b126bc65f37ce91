"""Cycle constants of the GAP8 kernels and transfers.

Fitted to counts on the GVSOC model of GAP8 with eight cores, operands in L1, fork and barrier
included. A dense kernel costs, on the core with the most work,

    pixel pairs * (im2col + blocks of four channels * (words * BLOCK_WORD + 8 * epilogue))

with words = ceil(column / 4). The fit meets ten 3x3 layers (16 to 64 channels) within 5 % and eight
1x1 layers within 5 %, except for outputs of 8 channels or fewer (15 %).
"""

from __future__ import annotations

# A vector of four inputs in the block of 4 channels x 2 pixels: 6 loads and 8 dot products, which
# is measured. Other blocks and precisions have other numbers of the same parts.
VECTOR_LOAD = 1
VECTOR_DOT = 1
# A vector of packed elements, its share of the word's load included: in the high bits of its bytes
# (or unsigned), sign-extended.
VECTOR_FIELD_HIGH = 3
VECTOR_FIELD_SIGNED = 3
# 16-bit inputs have no dot product with 8-bit weights: every product is an instruction, and
# operands are loaded one by one. A single column, of a fully connected layer, takes three times as
# long on the GVSOC model.
VECTOR_16 = 4
VECTOR_16_ALONE = 12

# From accumulator to stored output of a dense kernel, per output and with that of a block without
# its words: 32-bit and 64-bit requantisation, none.
EPILOGUE_32 = 29
EPILOGUE_64 = 53
EPILOGUE_NONE = 8
# What narrow forms cost beyond one multiplication: the clamp of the accumulator, a second limb. In
# the assembly kernel of a 1x1 layer of 64 channels 2.1 and 3.9 cycles per output.
CLAMP_EXTRA = 2
LIMBS_EXTRA = 4
# The upper word of a product: four cycles more than the lower one, a shift of the accumulator, and
# one more word of parameters.
HIGH_EXTRA = 6
# Another addend below zero: two more words of parameters and four instructions, by counting them.
TURNED_EXTRA = 6
# A step in binary32 by the upper word of a product: as HIGH, and whether that is near a tie. With
# the roundings one after the other: twenty instructions instead of five, by counting them; two more
# to see that an accumulator, which may have more digits, has not.
EVEN_EXTRA = 11
EPILOGUE_BINARY32 = 48
STEP_BINARY32 = 24
BINARY32_WIDE = 2
# Only a step: another one in sequence, that of an operand of a sum, that of a pool.
STEP_32 = 5
STEP_64 = 43
# Division by 2^k - 1 adds this; by any other number a division, in software for 64 bits.
ONES_EXTRA = 12
DIVISION_32 = 40
DIVISION_64 = 400

# im2col of two pixels: fixed part, part per run of neighbours in memory (three in a 3x3 filter),
# and tenths of a cycle per byte. Taking a vector of packed inputs apart: load, shift, mask, store.
IM2COL_PAIR = 80
IM2COL_RUN = 200
IM2COL_TENTHS = 18
UNPACK_VECTOR = 3
UNPACK_VECTOR_SIGNED = 4
# Packing, per output.
PACK_OUTPUT = 2
# Tiles taken apart as a whole: two barriers and three calls, per eight elements, and per pixel
# where it ends inside a byte.
UNPACK_TILE = 200
UNPACK_ELEMENT = 9
UNPACK_ELEMENT_SIGNED = 16
PACK_ELEMENT = 12
UNPACK_PIXEL = 60
# im2col of a pixel in units of one output channel, by which cores decide how to share a tile.
IM2COL_CHANNELS = 4

# The 4x4 block, fitted to twenty shapes within 10 % (the large ones within 2 %): tenths of a
# cycle per step of 64 products, a few percent of which wait for the memory, and per output; what
# inputs off words and forms of requantisation add to them. Per group of four channels and per
# further segment of it; per four pixels, per row of their windows and, at borders, per tap (by
# counting instructions: three windows of which all taps lie in the tile, and one at the border);
# per call, fork and barrier included. RAW: tenths of a cycle of an output without its
# requantisation in C. HIGH: the upper word of a product, by counting; EVEN: the same with a look at
# ties; SHIFTS: a shift for each channel, which is loaded once for four pixels. TURNED: another
# addend below zero is 14 instructions for four outputs, none of which waits. ROW_CALL: a call where
# pixels follow one another and nothing is known of rows.
BLOCK_STEP = 245
BLOCK_UNALIGNED = 25
BLOCK_OUTPUT = 47
BLOCK_CLAMP = 12
BLOCK_LIMBS = 25
BLOCK_HIGH = 52
BLOCK_EVEN = 92
BLOCK_SHIFTS = 3
BLOCK_GROUP = 20
BLOCK_SEGMENT = 14
BLOCK_PIXELS = 108
BLOCK_ROW = 25
BLOCK_TAP = 22
BLOCK_CALL = 900
# Where cores share the groups of blocks: of a share that begins or ends within a block.
BLOCK_PART = 100
BLOCK_ROW_CALL = 200
BLOCK_RAW = 60
BLOCK_TURNED = 36
# Going on to the next four pixels in assembly, and moving the pointers of a segment for them:
# 18 and 12 instructions, a jump and from the second segment on a branch that is taken.
BLOCK_FOURS = 20
BLOCK_FOURS_SEGMENT = 15
# By counting instructions (test_assembly_cycles.py): a step of three pixels is 19 of them instead
# of 24. Where a column is one segment, a group has 6 less and no jump, the next four pixels 3 less,
# and a call of the block 1 more.
BLOCK_STEP_THREES = 194
# Likewise steps of inputs in two halves, 44 and 34 instructions for as many products of 9 bits.
BLOCK_HALVES = 449
BLOCK_HALVES_THREES = 347
BLOCK_ONE_GROUP = -7
BLOCK_ONE_FOURS = -3
BLOCK_ONE_CALL = 1
# Copying windows at a border with their padding, one or two of four, by counting: a window, a row
# of it, a word of that; images so wide at most, but windows along a row may have wider ones.
BLOCK_COPIED = 60
BLOCK_COPIED_ROW = 30
BLOCK_COPIED_WORD = 4
BLOCK_COPIED_WIDTH = 48
# Products of matrices, by counting instructions: laying out four columns of the first one, and four
# rows of them; a row of the second one whose elements are added up, and a word of it; terms of
# channels or of pixels, per 16 outputs; a matrix. Rows that are no words wait as in convolutions.
MATRICES_GROUP = 40
MATRICES_STEP = 28
MATRICES_ROW = 14
MATRICES_ROW_WORD = 3
MATRICES_TERMS = 21
MATRICES_MATRIX = 60
# Four neighbours that share inputs, by counting instructions: tenths of a cycle for 64 products, of
# which three take 66 instructions instead of 72, with stride 2 69, and wait for the memory as the
# block does; a group of four channels without them, and a row of its windows; the next four pixels;
# a call for a row of outputs, 120 of which are compiled and estimated; what four pixels of other
# rows take more, a call and by estimate 150 for their pointers.
SLIDE_STEP = 225
SLIDE_STEP_TWO = 235
SLIDE_GROUP = 22
SLIDE_ROW = 10
SLIDE_FOURS = 29
SLIDE_CALL = 193
SLIDE_APART = 350
# Gathering the columns of four pixels: fixed part; the same for neighbours in a row, whose places
# the compiler knows (40 instructions less, by counting those of a compiled loop); per row, per run
# where taps are apart (by counting), tenths of a cycle per element and, at borders, per tap and per
# element of a column: 11 taps of 11 channels add 2700 cycles to four pixels. Longer columns are not
# gathered: they take too much of L1.
GATHER_PIXELS = 180
GATHER_NEIGHBOURS = 140
GATHER_ROW = 8
GATHER_RUN = 36
GATHER_TENTHS = 12
GATHER_TAP = 42
# Four pixels of channels that make no four, which go through the stack (GVSOC: 229 to 459).
GATHER_REST = 230
GATHER_INPUT = 18
GATHER_COLUMN = 160
# Blocks that one call computes. They take L1 from tiles, so only columns of LEAST + 1 to MOST bytes
# come in batches where tiles are copied, and those of up to LEAST bytes where they are not. What a
# call costs, by counting instructions: blocks after the first one only cost going on to them.
GATHER_BATCH = 3
GATHER_BATCH_LEAST = 16
GATHER_BATCH_MOST = 40
GATHER_CALL = 81
# Tiles with rows of at most N bytes are copied with their padding first: a row takes fewer
# cycles than bytes, by counting, and N around it. LARGE: of filters with at least N taps, whose
# borders take longest. LONG_ROW: of windows along a row.
GATHER_SHORT_ROW = 128
GATHER_LARGE_TAPS = 25
GATHER_LARGE_ROW = 256
GATHER_LONG_ROW = 4096
GATHER_COPIED_ROW = 60

# Rows that are copied with pixels filled up to words, by counting those of compiled loops: pixels
# whose columns leave the same remainder, a pixel, and a word of it, loads off words included. ENDS:
# two calls of the block, and the last block's channels that make no four, by way of the stack.
# CALL: fitted to twelve layers. LESS: of 1 kB of code that other kernels have more, by its misses.
FILLED_CALL = 700
FILLED_REMAINDER = 40
FILLED_PIXEL = 4
FILLED_WORD = 3
FILLED_ENDS = 400
FILLED_LESS = 400

# Strips whose inputs are in registers: instructions of channels and strips are counted in the text
# of their assembly. Percent by which eight cores wait for the memory; a call, fork and barrier
# included; a run of strips in a row, with its places and the entry of the assembly; where there is
# padding, a row of the copy and a word of it, by counting those of a compiled loop.
HELD_STALLS = 3
HELD_CALL = 350
HELD_RUN = 110
HELD_COPIED_ROW = 30
HELD_COPIED_WORD = 4

# A convolution on all input channels at once is worth it from this many output channels per tile.
LEAST_CHANNELS = 8

# Depthwise from CHW, or from packed HWC: the padded-row scheme for what other kernels do not take,
# measured on the model of the chip.
DEPTHWISE_WORD = 5
DEPTHWISE_WORD_16 = 14
DEPTHWISE_TAP = 5
DEPTHWISE_OUTPUT = 80
DEPTHWISE_ROW = 30
DEPTHWISE_ROW_WORD = 4
# A packed element out of its byte.
DEPTHWISE_FIELD = 5

# Depthwise on tiles with channels last: strips of four outputs, see dory_gap8_depthwise_strips.h.
# Filters up to 3x3: instructions of the assembly, counted by test_assembly_cycles.py. In turn
# the sums of four outputs with stride 1 and stride 2, and what becomes of them: four instructions
# each, more for a second limb, the upper word of a product (a shift, and four cycles more for each
# of them), the same with a look whether it is near a tie (four instructions), a clamp, another
# addend below zero.
STRIP_S1 = 15
STRIP_S2 = 24
STRIP_OUTPUTS = 16
STRIP_LIMBS = 8
STRIP_HIGH = 20
STRIP_EVEN = 36
STRIP_CLAMP = 4
STRIP_TURNED = 13
# A channel of a strip with stride 1 and stride 2: weights, parameters, first columns, pointers. A
# strip; four rows of four channels that are transposed, and a column of them; more where pixels do
# not start on words.
STRIP_CHANNEL_S1 = 38
STRIP_CHANNEL_S2 = 30
STRIP_START = 64
STRIP_BLOCK = 46
STRIP_COLUMN = 18
STRIP_UNALIGNED = 4
# The last strip where it has one or two outputs along a: sums of both, what another addend below
# zero adds to what becomes of them, a channel, and a call, 20 of which are compiled and estimated.
HALF_S1 = 7
HALF_S2 = 12
HALF_TURNED = 6
HALF_CHANNEL_S1 = 21
HALF_CHANNEL_S2 = 16
HALF_START = 78
# Percent by which loops took longer on the GVSOC model than their instructions: stores of bytes,
# loads of eight cores. Five tiles (8 cores, operands in L1), counted when compiled code went from
# strip to strip and transposed, are met within 1 % by the instructions of outputs, 2 to 3 % for
# stalls, 310 cycles for a call (fork and barrier included), 230 for a strip, 110 for a block and 21
# for a column. A call is still that and the entry of the assembly; what is compiled between two
# entries (GROUP) is estimated.
STRIP_STALLS = 3
STRIP_CALL = 350
STRIP_GROUP = 150
# Filters up to 5x5 on squares of four inputs, counted likewise: sums of two outputs; what another
# addend below zero adds to what becomes of them, and a bound that has no register; a channel of a
# class of outputs; a class of a strip, and a strip; two rows of squares that are laid, and a place
# of them.
SQUARES_SUMS = 22
SQUARES_TURNED = 7
SQUARES_FETCH = 1
SQUARES_CHANNEL = 61
SQUARES_CLASS = 48
SQUARES_START = 26
SQUARES_BLOCK = 56
SQUARES_PLACE = 36
# Any window in assembly, counted likewise: two times four outputs without the use of their
# sums; of that a run of words, and a word of inputs with four of weights; a channel of a strip,
# and what a line adds; a strip, 363 of which are compiled and estimated; four rows that are
# transposed as compiled, and a column of them; waits in per cent, as GVSOC counts them.
STRIP_PAIR = 26
STRIP_PAIR_RUN = 7
STRIP_PAIR_WORD = 14
STRIP_PAIR_CHANNEL = 30
STRIP_PAIR_LINE = 45
STRIP_PAIR_START = 420
STRIP_PAIR_BLOCK = 110
STRIP_PAIR_COLUMN = 21
STRIP_PAIR_STALLS = 6
# As compiled, where requantisation has no assembly: fitted to 23 counts on the GVSOC model, met
# within 8 %. What is added to four outputs of a filter up to 3x3, and 12 dot products with loads of
# weights that have no register; a channel of a strip, of such a filter and of any window; four rows
# that are transposed, a column of them, and a call.
STRIP_COMPILED = 27
STRIP_PASS = 20
STRIP_CHANNEL_COMPILED = 60
STRIP_CHANNEL_ANY = 100
STRIP_BLOCK_COMPILED = 90
STRIP_COLUMN_COMPILED = 20
STRIP_CALL_COMPILED = 600
# Any window likewise: four outputs, a word of inputs with four of weights, and a run of words.
STRIP_ANY = 30
STRIP_WORD = 9
STRIP_RUN = 10

# Pools, measured on the model of the chip. Maximum: a pixel, each of its taps, a word of a tap and
# each further field of packed elements; 16-bit elements go one by one. Sum: a pixel, per tap and
# element, and per output. By the cost of a pixel without its channels, cores share the channels.
POOL_PIXEL = 60
MAXPOOL_TAP = 50
MAXPOOL_WORD = 5
MAXPOOL_FIELD = 5
MAXPOOL_ELEMENT_16 = 6
MAXPOOL_PIXEL_CHANNELS = 64
AVGPOOL_PIXEL_CHANNELS = 4
AVGPOOL_TAP = 5
AVGPOOL_OUTPUT = 20
# Getting a packed element of a pool or a sum.
ELEMENT_FIELD = 2

# Residual sum, per element: upstream 9 in one unit with 16-bit multipliers, 20 without inlining.
ADD_ELEMENT = 6
# A pixel on its own, where elements do not lie without gaps.
ADD_PIXEL = 20

# One call: reading the arguments, sharing the work.
CALL = 150

# Kernels of bytes, by counts on the GVSOC model without the fork. Fully connected: tenths per word
# of four inputs of four outputs, a group of four outputs, an addend of a shared sum; 1024 to 16
# takes 1530, 256 to 64 takes 1430, 512 to 48 takes 2230.
LINEAR_BYTES_WORD = 98
# By counting: two loads and two shuffles of four inputs of 16 bits, each with a move, then a load
# and two products for each of four outputs.
LINEAR_BYTES_WORD_16 = 195
LINEAR_BYTES_GROUP = 15
LINEAR_BYTES_SUM = 2
LINEAR_BYTES_CALL = 200
# Pools: a pixel, four channels of it, a row of their window, a tap. Sums of 2x2 on 16x16x32 take
# 4300, of 8x8 with 64 channels 1010. Maxima outside of runs, of 8x8 with 64 channels, take 640.
POOL_BYTES_CALL = 150
POOL_BYTES_PIXEL = 60
POOL_BYTES_ROW = 4
AVGPOOL_BYTES_GROUP = 9
AVGPOOL_BYTES_TAP = 5
# A mean in binary32: 24 instructions of RV32, a long product, loads. A tap of one near a tie, whose
# arithmetic is that of the compiler's library: as GVSOC has it for windows of 2 x 2.
REALPOOL_OUTPUT = 36
REALPOOL_TAP = 220
MAXPOOL_BYTES_GROUP = 8
MAXPOOL_BYTES_TAP = 3
# Maxima of a run of pixels in a row, by counting instructions: tenths per instruction (a tenth for
# stalls), storing and going on; four channels of a run, and a run with its places.
MAXPOOL_BYTES_TENTHS = 11
MAXPOOL_BYTES_STORE = 3
MAXPOOL_BYTES_RUN_GROUP = 24
MAXPOOL_BYTES_RUN = 90
# Sums, tenths per element: of operands multiplied by dot product or one by one, of operands looked
# up as bytes and as words; what a shift with a clip, a look-up, and storing add. 16x16x32 take 5170
# by dot product with one shift, 7571 by products, 8070 with three requantisations.
ADD_BYTES_CALL = 150
ADD_BYTES_DOT = 29
ADD_BYTES_PRODUCTS = 53
# In two halves, 11 instructions for four elements, with a tenth for stalls.
ADD_BYTES_HALVES = 30
ADD_BYTES_TABLES = 57
ADD_BYTES_WORDS = 85
ADD_BYTES_SHIFT = 20
ADD_BYTES_LOOKUP = 20
ADD_BYTES_STORE = 10

# Pairs of operands, by counting instructions of compiled loops with a tenth for stalls: an element
# without its requantisation, what forms of a contribution add, a pixel; what that is in channels.
PAIR_ELEMENT = 6
PAIR_LINEAR = 2
PAIR_TABLE = 3
PAIR_SHIFTED = 40
PAIR_UNCLIPPED = 24
PAIR_PIXEL = 40
PAIR_PIXEL_CHANNELS = 4

# What moves bytes, by counting instructions of compiled loops, misaligned words at half weight:
# four look-ups, one of a channel, four of larger elements than bytes; a run of an input of a
# concatenation; a pixel that is copied with what stands around it, and a word of it; the places and
# weights of a pixel that is interpolated, and a channel of it without its requantisation; a pixel
# of a softmax, a channel of its maximum and sum, and of its shares (two long products).
LUT_FOUR = 16
LUT_CHANNEL = 8
LUT_WIDE = 20
CONCAT_RUN = 40
MOVE_PIXEL = 60
MOVE_WORD = 4
# Axes in another order, by counting instructions: a pixel, a byte of it that has no neighbours.
TRANSPOSE_PIXEL = 30
TRANSPOSE_BYTE = 4
RESIZE_PIXEL = 70
RESIZE_CHANNEL = 12
SOFTMAX_PIXEL = 330
SOFTMAX_SUM = 16
SOFTMAX_SHARE = 34
# Rows of plain quotients, counted likewise: a pixel with its root or inverse (a division of 64
# bits), a channel of the sums, one of the output.
NORM_PIXEL = 550
NORM_SUM = 4
NORM_OUTPUT = 23
SHARES_PIXEL = 350
SHARES_SUM = 9
SHARES_OUTPUT = 20
