"""Random operators and networks of them, within what TensorFlow Lite Micro runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dory_tflite.testing.builder import TfliteBuilder
from dory_tflite.testing.draft import Draft
from dory_tflite.testing.elements import (
    choice,
    pair,
    prelu,
    quotient,
    quotient_of_two,
    reduction,
    relu6,
    rsqrt,
    unary,
)
from dory_tflite.testing.grids import (
    broadcast,
    depth_to_space,
    gather,
    mirror_pad,
    reverse,
    running_sum,
    shuffle,
    tile,
    upsampling,
)
from dory_tflite.testing.islands import island
from dory_tflite.testing.matrices import batch_matmul
from dory_tflite.testing.movers import (
    concat,
    pack,
    pad,
    resize,
    slice_,
    split,
    strided_slice,
    transpose,
)
from dory_tflite.testing.norms import normalisation
from dory_tflite.testing.weighted import conv, depthwise, dilated, linear, pool, transpose_conv

_MOVERS = (
    *("PAD", "PACK", "SLICE", "SPLIT_V", "STRIDED_SLICE", "TRANSPOSE", "GATHER", "BROADCAST_TO"),
    *("MIRROR_PAD", "REVERSE_V2", "DEPTH_TO_SPACE", "five dimensions", "TILE", "upsampling"),
)

#: A random operator on an image tensor, which returns its output, another image tensor.
OPERATIONS: Mapping[str, Callable[[Draft, int], int]] = {
    "CONV_2D": conv,
    "DEPTHWISE_CONV_2D": depthwise,
    "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": linear,
    "BATCH_MATMUL": batch_matmul,
    "ADD": pair("ADD"),
    "SUB": pair("SUB"),
    "MUL": pair("MUL"),
    "SQUARED_DIFFERENCE": pair("SQUARED_DIFFERENCE"),
    "MAXIMUM": pair("MAXIMUM"),
    "MINIMUM": pair("MINIMUM"),
    "AVERAGE_POOL_2D": pool("AVERAGE_POOL_2D"),
    "MAX_POOL_2D": pool("MAX_POOL_2D"),
    "MEAN": reduction("MEAN", ((1, 2), (1,), (2,), (2, 1))),
    "MEAN of channels": reduction("MEAN", ((3,), (1, 3), (3, 2, 1))),
    "SUM of channels": reduction("SUM", ((3,), (2, 3))),
    "REDUCE_MAX": reduction("REDUCE_MAX", ((1,), (2, 1), (3,), (3, 1), (1, 2, 3))),
    "LOGISTIC": unary("LOGISTIC", (1 / 256, -128)),
    "TANH": unary("TANH", (1 / 128, 0)),
    "LOG_SOFTMAX": unary("LOG_SOFTMAX", (1 / 16, 127)),
    "L2_NORMALIZATION": unary("L2_NORMALIZATION", (1 / 128, 0)),
    "SOFTMAX": unary("SOFTMAX", (1 / 256, -128)),
    "HARD_SWISH": unary("HARD_SWISH"),
    "LEAKY_RELU": unary("LEAKY_RELU"),
    "RELU": unary("RELU"),
    "RELU6": relu6,
    "SELECT_V2": choice,
    "ABS": unary("ABS"),
    "ELU": unary("ELU"),
    "RSQRT": rsqrt,
    "reals": island,
    "layer normalisation": normalisation((3,)),
    "group normalisation": normalisation((1, 3)),
    "PRELU": prelu,
    "QUANTIZE": unary("QUANTIZE"),
    "PAD": pad,
    "CONCATENATION": concat,
    "SPLIT_V": split,
    "STRIDED_SLICE": strided_slice,
    "SLICE": slice_,
    "TRANSPOSE": transpose,
    "RESIZE_NEAREST_NEIGHBOR": resize("RESIZE_NEAREST_NEIGHBOR"),
    "RESIZE_BILINEAR": resize("RESIZE_BILINEAR"),
    "PACK": pack,
    "BROADCAST_TO": broadcast,
    "MIRROR_PAD": mirror_pad,
    "REVERSE_V2": reverse,
    "GATHER": gather,
    "DEPTH_TO_SPACE": depth_to_space,
    "five dimensions": shuffle,
}

#: Those that :func:`random_network` has only by name or with ``more``, so that seeds keep networks.
MORE_OPERATIONS: Mapping[str, Callable[[Draft, int], int]] = {
    "CUMSUM": running_sum,
    "DIV": quotient,
    "DIV of two tensors": quotient_of_two,
    "REDUCE_MIN": reduction("REDUCE_MIN", ((2,), (2, 1), (3,), (3, 2), (1, 2, 3))),
}

#: Those of activations of 16 bits.
WORDS: Mapping[str, Callable[[Draft, int], int]] = {
    "LOGISTIC": unary("LOGISTIC", (1 / 32768, 0)),
    "TANH": unary("TANH", (1 / 32768, 0)),
    "SOFTMAX": unary("SOFTMAX", (1 / 32768, 0)),
    **{
        code: OPERATIONS[code]
        for code in (
            *("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"),
            *("BATCH_MATMUL", "ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM"),
            *("AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "MEAN of channels", "SUM of channels"),
            *("PAD", "CONCATENATION", "SPLIT_V", "STRIDED_SLICE", "SLICE", "TRANSPOSE", "PACK"),
            *("RESIZE_NEAREST_NEIGHBOR", "QUANTIZE", "RELU", "RELU6", "LEAKY_RELU", "ABS"),
            "REVERSE_V2",
        )
    },
}

#: Those of weights of 4 bits, and others between them.
PACKED: Mapping[str, Callable[[Draft, int], int]] = {
    code: OPERATIONS[code]
    for code in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "MAX_POOL_2D")
}

#: Those that TensorFlow Lite Micro does not have or does not compute, but LiteRT does.
OTHERS: Mapping[str, Callable[[Draft, int], int]] = {
    "SPACE_TO_BATCH_ND": dilated,
    "TILE": tile,
    "upsampling": upsampling,
}


# One of this number of networks has its input among its outputs.
_PASSED = 7


def random_network(
    seed: int,
    operations: int = 1,
    only: str | None = None,
    type: str = "INT8",
    packed: bool = False,
    more: bool = False,
) -> bytes:
    """Return a file with a number of consecutive random operations.

    The input of every seventh file is also an output.
    only: name of the only operation to use; by default all are used. type: of activations.
    packed: weights have 4 bits. more: with those of :data:`MORE_OPERATIONS`, of bytes.
    """
    draft = Draft(TfliteBuilder(), np.random.default_rng(seed), type, packed)
    known = WORDS if draft.words else PACKED if packed else OPERATIONS
    if more and known is OPERATIONS:
        known = OPERATIONS | MORE_OPERATIONS
    image = x = draft.image()
    name = ""
    for _ in range(operations):
        name = only or str(draft.random.choice(list(known)))
        x = (known.get(name) or (MORE_OPERATIONS | OTHERS)[name])(draft, x)
    if name in _MOVERS:  # one that moves nothing would leave a network without a layer
        x = relu6(draft, x)
    return draft.builder.build([x, image] if seed % _PASSED == 0 else [x])
