"""What code takes of L2, measured: objects of the SDK's compiler, sections of code and constants.

GCC 5.4 with XpulpV2, as the Makefile of an application compiles: kernels with -O3, functions of
layers and kernels around strips in assembly with -Os. ``tests/test_code_sizes.py`` compares both
with what compilers say.
"""

from __future__ import annotations

from collections.abc import Mapping

from dory_core.api import CodeSizes

# Without a network: main program, HAL and SDK with their data and stacks, 41,000 B by the linker's
# map, and 8 KiB of the SDK's heap for devices, file system and open files.
L2_RESERVED_BYTES = 48 * 1024

# By GCC 12 for rv32imc with -O3. What the SDK's compiler makes of kernels in plain C is 0.9 to 1.6
# times as large, in the mean 1.2 times: portable kernels are counted 1.4 times. The functions that
# unpack are smaller on the chip, which has instructions for them. Those of instancenorm, l2norm,
# layernorm, norm, quotient and shares are 1.05 times what clang makes, whose others are so much
# smaller. Those of conv, conv_transpose, linear, lstm, matmul, piecewise and wide_softmax follow
# GCC 12 for a Cortex-M4.
_PORTABLE = {
    "add": 6820,
    "argmax": 2376,
    "avgpool": 6612,
    "concat": 624,
    "conv": 4261,
    "conv_transpose": 4081,
    "instancenorm": 14_030,
    "l2norm": 3960,
    "layernorm": 13_960,
    "linear": 3523,
    "matmul": 3070,
    "log_softmax": 5856,
    "lstm": 14_003,
    "lut": 662,
    "maximum": 6882,
    "maxpool": 2604,
    "minimum": 6882,
    "move": 716,
    "mul": 6760,
    "norm": 3600,
    "piecewise": 4480,
    "quotient": 6070,
    "reshape": 548,
    "resize": 2848,
    "shares": 3400,
    "softmax": 9748,
    "wide_softmax": 7120,
}
PORTABLE = {f"dory_portable_{name}": size * 7 // 5 for name, size in _PORTABLE.items()}
#: Functions that take the elements of packed tensors apart, and pack them.
UNPACKED = {
    "dory_gap8_unpack_u2": 1390,
    "dory_gap8_unpack_i2": 1660,
    "dory_gap8_unpack_u4": 820,
    "dory_gap8_unpack_i4": 950,
    "dory_gap8_unpack_weights_i2": 440,
    "dory_gap8_unpack_weights_i4": 280,
    "dory_gap8_pack_2": 1730,
    "dory_gap8_pack_4": 1090,
}

# Fitted to 1093 functions of 52 networks; since all waits are one function, to those of eight
# networks, over each of which the sum is met within 15 %.
SIZES = CodeSizes(
    network=450,
    layer=68,
    event=16,
    function=16,
    copy=50,
    wait=8,
    barrier=27,
    condition=37,
    axis=160,
    part=17,
    row=8,
    number=3,
    line=9,
    kernel=3000,
    kernels=PORTABLE,
)

#: Objects of each template: with a requantisation in 32 bits or none, with a step of 64 bits, and
#: with several steps or one that rounds to even. Of few instances the largest, of many the mean;
#: 5x5 depthwise kernels of more than 32 bits by those of 3x3, as GCC 12 for rv32imc makes both;
#: what all kernels of a network take was met within 7 % in 13 networks.
KERNELS: Mapping[str, tuple[int, int, int]] = {
    "conv": (5600, 11000, 18000),
    "window": (3500, 2300, 2900),
    "window 1x1": (1850, 1700, 2100),
    "slide": (2800, 2650, 2650),
    "slide apart": (4350, 4250, 4250),
    "gather": (3000, 2700, 2700),
    "gather 1x1": (1850, 1750, 1800),
    "filled": (2450, 2400, 2400),
    "held": (2500, 2500, 2500),
    "matrices": (3300, 2800, 3200),
    "depthwise": (1300, 1450, 1500),
    "depthwise_3x3": (4250, 7400, 13600),
    "depthwise_3x3 s2": (3850, 5200, 6550),
    "depthwise_5x5": (5500, 6000, 9500),
    "depthwise_any": (2700, 2950, 4000),
    "linear": (1900, 4000, 5900),
    "linear_bytes": (1350, 1950, 3400),
    "maxpool": (1100, 1100, 1100),
    "maxpool_bytes": (1050, 1050, 1050),
    "avgpool": (1400, 3000, 4400),
    "pool_bytes": (1250, 3700, 6150),
    "realpool": (3500, 3500, 3500),
    "add": (1600, 3800, 5300),
    "add_bytes": (430, 430, 430),
    "pair": (650, 800, 1000),
    "concat": (900, 900, 900),
    "lut": (230, 230, 230),
    "move": (1500, 1500, 1500),
    "transpose": (600, 600, 600),
    "resize": (520, 1000, 1500),
    "softmax": (1030, 1030, 1030),
    "norm": (950, 950, 950),
    "shares": (650, 650, 650),
}

#: Bytes of code that a call runs: lines of 16 bytes in traces of the first and the last core, 52
#: networks on GVSOC, about the median. Those of depthwise kernels include boxes of transfers around
#: them.
RUNNING: Mapping[str, int] = {
    "window": 3050,
    "window 1x1": 1520,
    "slide": 2400,
    "slide apart": 3900,
    "gather": 2350,
    "gather 1x1": 1700,
    "filled": 1550,
    "held": 1700,
    "depthwise_3x3": 2250,
    "depthwise_3x3 s2": 2150,
    "depthwise_5x5": 2750,
    "depthwise_any": 2350,
    "linear_bytes": 750,
    "maxpool_bytes": 730,
    "avgpool": 990,
    "realpool": 2500,
    "add_bytes": 320,
    "pair": 500,
    "concat": 670,
    "lut": 150,
    "move": 540,
    "resize": 490,
    "softmax": 930,
}
#: What these run beyond that for a second limb, and blocks and strips for a look at ties.
_RUNNING_LIMBS = 250
_RUNNING_EVEN = 150
#: Both tables hold what -O3 makes. What -Os saves around strips in assembly, of an object and of
#: what a call runs: the median of 29 instances, and traces of four networks.
_SAVED: Mapping[str, tuple[int, int]] = {
    "depthwise_3x3": (410, 100),
    "depthwise_3x3 s2": (430, 100),
    "depthwise_5x5": (1400, 150),
    "depthwise_any": (500, 600),
}
_UNROLLED = ("depthwise_3x3", "depthwise_5x5")


def running_bytes(kind: str, macros: Mapping[str, str]) -> int | None:
    """Return the bytes of code that a call of an instance runs; None: nothing measured them."""
    measured = RUNNING.get(template_of(kind, macros))
    if measured is None:
        return None
    limbs = kind in _UNROLLED and macros.get("DORY_Q_FORM") == "DORY_Q_LIMBS"
    even = "DORY_BLOCK_EVEN" in macros.values() or (
        macros.get("DORY_STRIP_ASM") == "1" and macros.get("DORY_Q_FORM") == "DORY_Q_EVEN"
    )
    more = limbs * _RUNNING_LIMBS + even * _RUNNING_EVEN
    return measured + more - _saved(kind, macros)[1]


def template_of(kind: str, macros: Mapping[str, str]) -> str:
    """Return the row of KERNELS of an instance."""
    if kind in ("window", "gather") and _is_one(macros):
        return f"{kind} 1x1"
    if kind == "depthwise_3x3" and macros["DORY_STRIDE"] == "2":
        return "depthwise_3x3 s2"
    if kind == "slide" and macros["DORY_APART"] != "0":
        return "slide apart"
    return kind


def kernel_bytes(kind: str, macros: Mapping[str, str]) -> int:
    """Return the bytes of an instance of a template, by its macros."""
    sizes = KERNELS[template_of(kind, macros)]
    several = int(macros.get("DORY_STEPS", "0")) > 1
    if several or macros.get("DORY_Q_FORM") == "DORY_Q_BINARY32":
        return sizes[2]
    return sizes[macros.get("DORY_Q_BITS") == "64"] - _saved(kind, macros)[0]


def _saved(kind: str, macros: Mapping[str, str]) -> tuple[int, int]:
    """Return the row of _SAVED of an instance: zeros for one in plain C."""
    if macros.get("DORY_STRIP_ASM") != "1":
        return (0, 0)
    return _SAVED[template_of(kind, macros)]


def _is_one(macros: Mapping[str, str]) -> bool:
    return (macros["DORY_KERNEL_H"], macros["DORY_KERNEL_W"]) == ("1", "1")
