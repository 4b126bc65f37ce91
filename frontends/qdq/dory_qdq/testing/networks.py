"""Random networks of one operator or of several."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from dory_qdq.testing import choices, norms
from dory_qdq.testing.builder import Builder
from dory_qdq.testing.elements import (
    Layer,
    add,
    extreme,
    layer_norm,
    leaky_relu,
    mul,
    positive,
    relu,
    softmax,
    subtract,
    unary,
    with_constant,
)
from dory_qdq.testing.movers import (
    concat,
    depth_to_space,
    expand,
    flatten,
    gather,
    pad,
    pad_inside,
    resize,
    resize_linear,
    shuffle,
    slice_of,
    tile,
    transpose,
)
from dory_qdq.testing.pools import (
    average_pool,
    average_pool_up,
    global_average_pool,
    global_max_pool,
    max_pool,
    max_pool_up,
    reduce_mean,
    reduce_sum,
)
from dory_qdq.testing.weighted import attention, conv, conv_transpose, gemm, matmul, product

# One of this number of networks has its input among its outputs.
_PASSED = 7


def random_network(seed: int, operators: int = 1, operator: str = "") -> bytes:
    """Return a QDQ file; the input of every seventh file is also an output.

    operator: name of the operator in :data:`OPERATORS`, empty for a random one.
    """
    rng = np.random.default_rng(seed)
    b = Builder(rng, signed=bool(rng.random() < 0.4))
    if operator in _FLAT or (operators == 1 and not operator and rng.random() < 0.2):
        shape: tuple[int, ...] = (1, int(rng.integers(1, 20)))
    else:
        shape = (1, int(rng.integers(1, 9)), int(rng.integers(3, 9)), int(rng.integers(3, 9)))
    first = last = b.input(shape)
    names = list(OPERATORS)
    done = 0
    while done < operators:
        name = operator or str(rng.choice(names))
        if (name in _FLAT) != (len(last.shape) == 2) and name not in _ANY:
            if operator or operators == 1:
                name = "gemm" if len(last.shape) == 2 else "conv"
            elif len(last.shape) == 2 or rng.random() < 0.8:
                continue
            else:
                last = flatten(b, last)
        last = (OPERATORS | MORE_OPERATORS)[name](b, last)
        done += 1
    outputs, opset = [(last.stored, last.shape)], 23 if operator in _NEW else 17
    if seed % _PASSED == 0:
        outputs.append((b.node("Identity", [first.stored]), first.shape))
    return b.model(outputs, opset)


OPERATORS: Mapping[str, Layer] = MappingProxyType(
    {
        "conv": conv,
        "gemm": gemm,
        "matmul": matmul,
        "add": add,
        "mul": mul,
        "max_pool": max_pool,
        "average_pool": average_pool,
        "global_average_pool": global_average_pool,
        "reduce_mean": reduce_mean,
        "relu": relu,
        "leaky_relu": leaky_relu,
        "sigmoid": unary("Sigmoid", 0.4),
        "hard_swish": unary("HardSwish"),
        "hard_sigmoid": unary("HardSigmoid", 0.4),
        "tanh": unary("Tanh"),
        "softmax": softmax,
        "concat": concat,
        "transpose": transpose,
        "slice": slice_of,
        "pad": pad,
        "resize": resize,
        "resize_linear": resize_linear,
    }
)


#: Functions of one number of any sign.
_FUNCTIONS = (
    *("Abs", "Ceil", "Celu", "Cos", "Elu", "Erf", "Exp", "Floor", "Neg", "Round", "Selu"),
    *("Sign", "Sin", "Softplus", "Softsign", "ThresholdedRelu"),
    *("Asinh", "Atan", "Cosh", "Shrink", "Sinh", "Tan"),
)


#: Operators that :func:`random_network` makes only by name, so that seeds keep their networks.
MORE_OPERATORS: Mapping[str, Layer] = MappingProxyType(
    {
        "subtract": subtract,
        "product": product,
        "attention": attention,
        "max_pool_up": max_pool_up,
        "average_pool_up": average_pool_up,
        "global_max_pool": global_max_pool,
        "layer_norm": layer_norm,
        "rms_norm": norms.rms_norm,
        "simplified_norm": norms.simplified_norm,
        "norm_written_out": norms.written_out,
        "lp_norm": norms.lp_norm,
        "instance_norm": norms.instance_norm,
        "group_norm": norms.group_norm,
        "conv_transpose": conv_transpose,
        "depth_to_space": depth_to_space,
        "shuffle": shuffle,
        "tile": tile,
        "expand": expand,
        "gather": gather,
        "pad_inside": pad_inside,
        "reduce_sum": reduce_sum,
        "div": choices.divide,
        "reduce_min": choices.reduce_min,
        "reduction": choices.reduction,
        "where": choices.where,
        "cast": choices.cast,
        "cumsum": choices.running_sum,
        "extreme_of_several": choices.extreme_of_several,
        "grouped_transpose": choices.grouped_transpose,
        "requantised": choices.requantised,
        "max": extreme("Max"),
        "min": extreme("Min"),
        **{
            f"{op.lower()}_constant": with_constant(op)
            for op in ("Add", "Sub", "Mul", "Max", "Min", "PRelu", "Pow")
        },
        **{op.lower(): positive(op) for op in ("Sqrt", "Reciprocal", "Log")},
        **{op.lower(): unary(op) for op in _FUNCTIONS},
    }
)


_FLAT = frozenset(["gemm", "matmul", "softmax"])
_NEW = frozenset(["rms_norm"])
_ANY = frozenset(
    ["relu", "leaky_relu", "sigmoid", "hard_swish", "hard_sigmoid", "tanh", "add", "mul"]
)
