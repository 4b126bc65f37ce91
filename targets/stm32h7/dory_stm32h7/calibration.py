"""Everything that estimates of the STM32H743 rest on, with its source. No chip was measured.

Kernels: cycles of a model of the Cortex-M7's pipeline (emulator/pipeline.py), from the executed
blocks of kernels that clang compiled: fitted over layers of many shapes, within 10 % of all that
are usual. Memory answers at once there. Transfers and waiting for memory: from clocks and widths of
the buses, and from published measurements of the same core.
"""

from __future__ import annotations

# 275 uA/MHz in run mode at 3.3 V and 25 C, peripherals off: the figure of ST's product page of the
# STM32H743, which does not name the voltage of the core; taken for the 1.20 V of VOS1. Not measured
# with a network, and less than a core draws that multiplies all the time. 480 MHz needs the 1.35 V
# of VOS0 and the linear regulator (data sheet DS12110, general operating conditions), which draws
# what the core draws: charge per cycle grows with the core's voltage.
SUPPLY_VOLTS = 3.3
ENERGY_J_PER_CYCLE_VOS1 = 275e-12 * SUPPLY_VOLTS
ENERGY_J_PER_CYCLE_VOS0 = ENERGY_J_PER_CYCLE_VOS1 * 1.35 / 1.20

# The MDMA. AHBS, its way to DTCM, is 32 bits wide and runs at half the clock of the core (RM0433,
# system architecture): at most 2 bytes per cycle of the core. Setting a channel up and waiting for
# it takes some 150 instructions and a dozen accesses to a peripheral on AHB; a block of a repeated
# transfer is arbitrated again. By counting.
MDMA_SETUP = 230
MDMA_ISSUE = 170
MDMA_BYTES_PER_CYCLE = 3.2  # of the bus
MDMA_ROW = 8.0
MDMA_ELEMENT = 6.0
# Sizes of DTCM within which fully connected layers are planned besides all of it: larger ones give
# no network of the collection a better plan.
SMALLER_L1 = (8192, 16384, 24576)
# From flash. It answers with 256 bits after 2 to 4 wait states at the AXI clock, so that the 32-bit
# side of the transfer stays the narrow one.
FLASH_SETUP = 250
FLASH_BYTES_PER_CYCLE = 2.8  # of the bus
# A copy loop of the core: four bytes per load and store from non-cacheable SRAM. By counting.
MEMCPY_SETUP = 60
MEMCPY_BYTES_PER_CYCLE = 0.8
MEMCPY_ROW = 12.0
MEMCPY_ELEMENT = 4.0
# The same from flash, which answers with 256 bits after its wait states: a wait for every 32 bytes.
MEMCPY_FLASH_BYTES_PER_CYCLE = 0.7
# Cycles of the kernels on a core that issues one instruction at a time, by those of a Cortex-M7:
# the kernels take 1.4 to 1.5 instructions per cycle of the model (emulator/pipeline.py), and SMLAD
# takes a cycle there as well. By counting, without a measurement.
SINGLE_ISSUE_PERCENT = 150

# Layers in place: what the core waits for an access that reaches the bus, in cycles of its own
# beyond those of an access to DTCM. The way to AXI SRAM and back is some three cycles of the bus at
# half the clock of the core. Two measurements agree. CoreMark on an STM32H743 at 480 MHz: 2000
# iterations per second with the D-cache, 687 without (mynewt-core, pull request 3656); 460000
# cycles are 6 for each access if a quarter of some 300000 instructions are loads and stores. The
# paper (IEEE TC 2021, section 6.5): CMSIS-NN loses 58.5 % without the cache, which is 5 to 6 cycles
# for each of the 6 loads that a convolution takes for 16 multiplications.
# In cycles of the bus, of which the core has one or two.
AXI_ACCESS = 3
# A line of the cache: the word that is wanted comes first and the core goes on (Cortex-M7 manual,
# DDI 0489, section 5.9); the others follow at 64 bits per cycle of the bus, and kernels that read
# in order wait for them.
AXI_LINE = AXI_ACCESS + 3
# SRAM1 to 3 lie beyond a bridge to another bus of 32 bits.
AHB_ACCESS = 6
AHB_LINE = AHB_ACCESS + 7
# Flash: wait states (RM0433, embedded flash memory) in cycles of the bus, once for every 256 bits.
FLASH_WAITS_VOS1 = 2
FLASH_WAITS_VOS0 = 4

# What the model of the pipeline leaves out of the cycles of kernels: branches that are predicted
# wrongly, and code that is fetched for the first time. Percent, and cycles of a call; from a trace
# of images through a model of caches, branch predictor and fetch. Cycles of a layer likewise.
LAYER = 500
BEYOND = {
    "dory_stm32h7_conv": (2, 830),
    "dory_stm32h7_depthwise": (7, 1350),
    "dory_stm32h7_linear": (2, 450),
    "dory_stm32h7_avgpool": (53, 590),
    "dory_stm32h7_maxpool": (0, 600),
    "dory_stm32h7_softmax": (12, 480),
    "dory_stm32h7_move": (46, 200),
    "dory_stm32h7_concat": (46, 200),
    "dory_stm32h7_lut": (27, 150),
}
BEYOND_ANY = (0, 350)
# Portable C: a requantisation of an element in 64 bits; layers with weights, by the model of the
# pipeline and within 20 % of it where sums have 32 bits.
PORTABLE = {"step": 170}
PORTABLE_WEIGHTED = {**PORTABLE, "output": 98, "tap": 54, "mac": 4, "generic_mac": 20}

# Below: tenths of cycles, unless a name says otherwise.
# A call of a kernel: arguments, loop over groups.
CALL = 600
# An output, beyond one step with a shift of 32 and immediate bounds.
SHIFT_EXTRA = 20
SHIFTED_EXTRA = 20
EVEN_EXTRA = 75  # a step in binary32
BOUNDS_EXTRA = 30
SECOND = 100
# Convolutions. Each group; what three pixels or the last ones take beside columns and blocks.
CONV_GROUP = 1000
PIXELS = 640
# The blocks of one, two and three pixels and two channels in assembly: a vector of four elements,
# outputs and loop, two addends, a step in binary32; a round of sixteen vectors.
BLOCK_VECTOR = (60, 90, 120)
BLOCK = (150, 280, 280)
BLOCK_TURNED = (70, 200, 200)
BLOCK_EVEN = (130, 300, 300)
BLOCK_ROUND = 20
# The same in C.
BLOCK_C_VECTOR = 158
BLOCK_C = 239
BLOCK_C_TURNED = 184
# One row and one pixel of it: odd numbers of channels or, in C, of pixels.
SINGLE_VECTOR = 74
SINGLE = 60
SINGLE_TURNED = 28
# Columns of 1x1 filters: a vector of four elements of one pixel.
WIDENED_VECTOR = 62
# Rows of a matrix without their zero point: a vector of four elements, a row; a column of a matrix
# that is laid out as weights, and four elements of it. By counting instructions.
CENTRED_VECTOR = 80
CENTRED = 100
LAID_VECTOR = 140
LAID = 60
# Columns that overlap: a strip, a row of the filter of one, a run of channels, a vector of them.
STRIP = 300
STRIP_ROW = 200
STRIP_RUN = 200
STRIP_VECTOR = 95
# Other columns: a pixel, a run of taps, one of a whole row, one that is first copied as elements,
# the same of few channels; an element widened, one copied.
PIXEL = 457
RUN = 228
RUN_MERGED = 430
RUN_COPIED = 455
RUN_KNOWN = 380
WIDENED = 8
COPIED = 16
# One of few channels within the image: a pixel, a vector of four elements.
INNER_PIXEL = 250
INNER_VECTOR = 50
# Where weights are stored less a number: the sum of a column of one pixel, a vector of it; four
# inputs of a fully connected layer.
LIFT = 60
LIFT_VECTOR = 27
LIFT_INPUTS = 40
# Fully connected: four rows and a vector in assembly, with combined weights, and in C; their
# outputs, in assembly and in C with the entry of the assembly; one row.
LINEAR_FOUR = 125
LINEAR_FOUR_COMBINED = 95
LINEAR_FOUR_C = 170
LINEAR_FOUR_OUTPUTS = 370
LINEAR_FOUR_OUTPUTS_C = 540
LINEAR_ONE = 54
LINEAR_ONE_OUTPUT = 277
LINEAR_TURNED = 45
# Depthwise, four channels: a tap, one where padding has a value; a pixel beside taps, one at a
# border and a row of its taps; a row of pixels; two addends of an output. One channel: a tap, an
# output.
DEPTHWISE_TAP = 76
DEPTHWISE_PADDED_TAP = 196
DEPTHWISE_PIXEL = 477
DEPTHWISE_BORDER = 776
DEPTHWISE_BORDER_ROW = 80
DEPTHWISE_ROW = 861
DEPTHWISE_TURNED = 22
DEPTHWISE_NARROW = 170
DEPTHWISE_NARROW_OUTPUT = 200
# Depthwise from pairs of columns, four channels: a strip of rows, a row laid out, a pair of it. One
# channel: a row; blocks of four outputs and of two in assembly, by the step along a row; in C a
# block of four outputs, or of two by a step of 2; an output; two addends.
PLANAR_STRIP = 3400
PLANAR_LAID = 310
PLANAR_PAIR = 85
PLANAR_ROW = 150
PLANAR_FOUR = (385, 430)
PLANAR_TWO = (270, 290)
PLANAR_BLOCK = (281, 177)
PLANAR_OUTPUT = 72
PLANAR_TURNED = 36
# Wider filters: a word of taps beyond those of 3x3 for four channels; four outputs and a product of
# each, two outputs, a block in C.
PLANAR_TAPS = 120
WIDE_FOUR = 170
WIDE_PRODUCT = 40
WIDE_TWO = 170
WIDE_PRODUCT_OF_TWO = 25
WIDE_BLOCK = 60
WIDE_PRODUCT_C = 22
# Pooling: a pixel, four channels, a tap of four channels, of one; an output of an average. Wide:
# 16 bits; a row of such taps.
POOL_PIXEL = 560
POOL_FOUR = 190
MAXPOOL_TAP = 54
MAXPOOL_WIDE_TAP = 90
AVGPOOL_TAP = 50
AVGPOOL_WIDE_TAP = 55
AVGPOOL_WIDE_ROW = 100
POOL_NARROW = 45
POOL_OUTPUT = 50
# An average in binary32: a tap of a channel, an output.
REALPOOL_TAP = 52
REALPOOL_OUTPUT = 480
# Pairs: an element with both operands as they are or with an offset; one scaled operand, two; a
# clipped one, one of 64 bits; a second addend of the value; a product. Where the second one is
# smaller or a constant: a run of channels.
PAIR_ELEMENT = 58
PAIR_SCALED = 20
PAIR_SCALED_BOTH = 75
PAIR_CLIPPED = 15
PAIR_UPPER = 20
PAIR_TURNED = 45
PAIR_PRODUCT = 21
PAIR_RUN = 280
# Sums by tables: an element, one with a table of results.
SUMS_ELEMENT = 66
SUMS_RESULT = 80
# Slices and padding: a run of bytes, 16 of them. Concatenation: a run of an input.
MOVE_RUN = 400
MOVE_16 = 70
CONCAT_RUN = 300
# Axes in another order, by counting instructions: a pixel, a byte of it that has no neighbours.
TRANSPOSE_PIXEL = 150
TRANSPOSE_BYTE = 30
# Tables: an element, one of a channel with its own table.
LUT_ELEMENT = 24
LUT_CHANNELWISE = 34
# Interpolation: a pixel of nearest neighbours (between the code of two compilers), one of sums, a
# channel of it.
RESIZE_COPIED = 192
RESIZE_PIXEL = 350
RESIZE_CHANNEL = 142
# Softmax of integers and in binary32: a pixel, a channel of the sum, one of the output.
SOFTMAX_PIXEL = (1400, 120)
SOFTMAX_SUM = (110, 300)
SOFTMAX_SHARE = (212, 416)
# Layer normalisation in binary32: a pixel with its mean and root, a channel of the sums, one of the
# output.
LAYERNORM_PIXEL = 13000
LAYERNORM_SUM = 400
LAYERNORM_OUTPUT = 520
# Rows of plain quotients: a pixel, a channel of the sums, one of the output.
NORM_PIXEL = 1100
NORM_SUM = 45
NORM_OUTPUT = 170
SHARES_PIXEL = 300
SHARES_SUM = 95
SHARES_OUTPUT = 150
# CMSIS-NN (sources of July 2026), by the same model: least squares over code of gcc and of clang,
# which differ by up to 30 %. Pairs: requantisation replaced, the library's own with two roundings.
CMSIS_CALL = 1700
CMSIS_TURN = 20  # a word whose bits turn over, or that is copied
# 1x1 convolutions: a weight, summed up in every call; two channels; a block of two pixels and two
# channels: four weights of each, a rest, itself; the same of a pixel or channel that is left.
CMSIS_POINTWISE_SUM = 21
CMSIS_POINTWISE_PAIR = 540
CMSIS_POINTWISE_VECTOR = 176
CMSIS_POINTWISE_REST = 123
CMSIS_POINTWISE_BLOCK = (611, 1107)
CMSIS_POINTWISE_ONE_VECTOR = 118
CMSIS_POINTWISE_ONE = (258, 526)
# Other convolutions: a pixel, a tap and an element of its column; blocks as above; one channel of a
# pixel that is left: four weights, itself.
CMSIS_CONV_PIXEL = 1294
CMSIS_CONV_TAP = 262
CMSIS_CONV_ELEMENT = 22
CMSIS_CONV_VECTOR = 182
CMSIS_CONV_REST = 123
CMSIS_CONV_BLOCK = (668, 1130)
CMSIS_CONV_ONE_VECTOR = 78
CMSIS_CONV_ONE = (371, 482)
# Depthwise 3x3: a pixel; four channels: a row of taps, a tap, itself; one channel.
CMSIS_DEPTHWISE_3X3_PIXEL = 329
CMSIS_DEPTHWISE_3X3_ROW = 106
CMSIS_DEPTHWISE_3X3_TAP = 89
CMSIS_DEPTHWISE_3X3_FOUR = (623, 1089)
CMSIS_DEPTHWISE_3X3_ONE = (764, 897)
# Depthwise: a pixel, a tap and an element of its column with the products; four channels, one.
CMSIS_DEPTHWISE_PIXEL = 1512
CMSIS_DEPTHWISE_TAP = 71
CMSIS_DEPTHWISE_ELEMENT = 58
CMSIS_DEPTHWISE_FOUR = (574, 1072)
CMSIS_DEPTHWISE_ONE = (2185, 2084)
# Fully connected: two outputs and four inputs, a rest; one output and four inputs; an output.
CMSIS_LINEAR_VECTOR = 121
CMSIS_LINEAR_REST = 90
CMSIS_LINEAR_ONE_VECTOR = 90
CMSIS_LINEAR_OUTPUT = (223, 380)
# 32-bit outputs: an output and eight, four, one inputs; eight inputs.
CMSIS_LOGITS_EIGHT = 224
CMSIS_LOGITS_FOUR = 136
CMSIS_LOGITS_ONE = 39
CMSIS_LOGITS_STEP = 287
# Maximum: a tap of a pixel; four channels of a pixel, of a tap; one channel.
CMSIS_MAXPOOL_TAP = 226
CMSIS_MAXPOOL_FOUR = 498
CMSIS_MAXPOOL_TAP_FOUR = 142
CMSIS_MAXPOOL_ONE = 247
