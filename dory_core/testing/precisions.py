"""Networks that visit every combination of precisions of one layer kind.

Types are 2, 4 and 8 bits, signed or not. Every ordered pair of types occurs once in a network as
input and output of a layer, with one type of weights (or of the second operand of an Add). Numbers
of channels do not fill whole bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

from dory_core.ir import Graph, Window, requant, storage_for
from dory_core.testing.cases import Case
from dory_core.testing.graphs import GraphBuilder, Range, mapped

TYPES: tuple[Range, ...] = tuple(
    (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    for bits, signed in product((2, 4, 8), (False, True))
)
WEIGHTS: tuple[Range, ...] = ((-2, 1), (-8, 7), (-128, 127))

# An odd number of channels: the last byte of a pixel is never full.
_SHAPE = (7, 6, 5)
_ALIKE = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
_POOL = Window(kernel=(2, 3), pads=(1, 1, 0, 1))

# Function that appends a layer to read a tensor, with outputs of a type, and returns its output.
_Append = Callable[[GraphBuilder, str, Range], str]


def type_name(values: Range) -> str:
    """Return u2, i2, u4, ..."""
    bits, signed = storage_for(*values)
    return f"{'i' if signed else 'u'}{bits}"


def precision_cases(
    weights: Sequence[Range] = WEIGHTS, operands: Sequence[Range] = TYPES[:4:3]
) -> tuple[Case, ...]:
    """Return networks of every kind over all pairs of input and output types.

    Args:
        weights: Types of weights: a network per type for each kind that has weights.
        operands: Types of the second operand of an Add, a network per type.
    """
    cases = [
        _case(f"{name}_{type_name(w)}", partial(append, w), tag)
        for name, append, tag in (
            ("conv", _conv, "conv"),
            ("depthwise", _depthwise, "depthwise"),
            ("linear", _linear, "linear"),
        )
        for w in weights
    ]
    cases.append(_case("max_pool", lambda b, x, y: b.max_pool(_POOL, source=x, onto=y), "pool"))
    cases.append(_case("avg_pool", lambda b, x, y: b.avg_pool(_POOL, source=x, onto=y), "pool"))
    cases += [_case(f"add_{type_name(x2)}", partial(_add, x2), "add") for x2 in operands]
    return tuple(cases)


def _case(name: str, append: _Append, tag: str) -> Case:
    """Return a network of parallel layers; in a chain, values of 2 bits would hide most errors."""

    def build() -> Graph:
        builder = GraphBuilder(_SHAPE, values=TYPES[0], seed=len(name), name=name)
        inputs = ["input", *(builder.extra_input(values) for values in TYPES[1:])]
        return builder.graph([append(builder, x, y) for x, y in product(inputs, TYPES)])

    return Case(f"precisions_{name}", frozenset({"sub-byte", "signed", tag}), build)


def _conv(weights: Range, builder: GraphBuilder, x: str, y: Range) -> str:
    channels = 7 + 2 * (y[1] % 3)
    return builder.conv(channels, _ALIKE, source=x, output=y, weights=weights, bias=y[1] > 9)


def _depthwise(weights: Range, builder: GraphBuilder, x: str, y: Range) -> str:
    channels = _SHAPE[0]
    return builder.conv(
        channels, _ALIKE, source=x, groups=channels, output=y, weights=weights, wide=y[0] == 0
    )


def _linear(weights: Range, builder: GraphBuilder, x: str, y: Range) -> str:
    return builder.linear(11, source=x, output=y, weights=weights, bias=y[1] > 9)


def _add(operand: Range, builder: GraphBuilder, x: str, y: Range) -> str:
    source = builder.type_of(x)
    steps = mapped((source.lo, source.hi), y), mapped(operand, y)
    second = builder.extra_input(operand)
    return builder.add(x, second, operands=steps, requants=(requant(1, 0, 2, *y),))
