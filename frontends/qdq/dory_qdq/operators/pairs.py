"""Add, Sub, Mul, Div, Max and Min of two tensors, or of a tensor and a constant of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dory_core.api import Requant, ops, requantisation
from dory_core.importing import Array, requant
from dory_qdq.call import Call
from dory_qdq.numerics import (
    Integers,
    Quantisation,
    dequantise,
    differences,
    products,
    quantise_to,
    sums,
)
from dory_qdq.operators.alignment import aligned
from dory_qdq.operators.tables import by_byte
from dory_qdq.values import Place, Real, Sums

#: How far from an integer a quotient of scales is that binary32 has rounded.
_NEAR_WHOLE = 1e-5


#: Multipliers of operands whose scales have a simple ratio.
_MOST_RATIO = 1 << 12


#: Steps of 2^-23 by which a factor is moved.
_NEAR_SCALES = (0, 1, -1, 2, -2)


#: Bits after the point of tables that are added, and rounds of the search for them.
_FRACTIONS = (7, 14, 21)


_ROUNDS = 60


#: Bits of 32-bit operands of a sum, and of their products with a factor.
_SUM_BITS = 29


_PRODUCT_BITS = 58


#: Pairs that are one of their operands.
EXTREMES = ("Max", "Min")


Function = Callable[[Quantisation, Quantisation, Quantisation, tuple[int, int]], Integers]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor, or stored values of a constant; values: of shape (C, H, W), rows of 1 repeat."""

    name: str
    x: Quantisation
    values: Array | None = None

    def mapped(self, call: Call, table: Integers) -> Operand:
        """Return a function of the stored values, by a table of rising ones."""
        if self.values is not None:
            stored = self.values.values.astype(np.int64) - self.x.bounds[0]
            return replace(self, values=Array(table[stored]))
        found = by_byte(table, self.x)
        name = call.network.append(ops.Lut, call.node.title, (self.name,), table=found)
        return replace(self, name=name)


Operands = tuple[Operand, Operand]


def lower_pair(call: Call) -> Place:
    """Append a sum, difference, product, quotient or extreme of two tensors."""
    if any(isinstance(value, Sums) for value in call.inputs[:2]):
        return _of_sums(call)
    reals = call.real(0), call.real(1)
    found = aligned(call, reals[0].place, reals[1].place)
    first, second = (
        Operand(name, reals[n].x) for name, n in zip(found.names, found.order, strict=True)
    )
    output = function_of(call, (first, second), found.order)
    return call.network.placed(output, found.shape, found.axes)


def function_of(call: Call, operands: Operands, order: tuple[int, int]) -> str:
    """Append the layers of two operands; order: numbers that they have in the file."""
    if call.node.op in EXTREMES:
        return _extreme(call, operands)
    if call.node.op == "Div":
        return _quotient(call, operands, order)
    build = _product if call.node.op.endswith("Mul") else _sum
    return build(call, operands, order)


def emit_pair(call: Call, kind: type[ops.Operator], operands: Operands, **fields: Any) -> str:
    """Append a layer of a tensor with another one, or with a constant."""
    first, second = operands
    if second.values is not None:
        return call.emit(kind, first.name, constant=second.values, **fields)
    return call.emit(kind, first.name, second.name, **fields)


def _extreme(call: Call, operands: Operands) -> str:
    """Append Max or Min: rounding keeps the order, so each operand is rounded first."""
    y, clip = call.output, call.clip()
    first, second = (
        one
        if one.x == y and clip == y.bounds
        else one.mapped(call, quantise_to(dequantise(one.x.values, one.x), y, clip))
        for one in operands
    )
    kind = ops.Maximum if call.node.op == "Max" else ops.Minimum
    return emit_pair(call, kind, (first, second))


def _of_sums(call: Call) -> Place:
    """Append a sum with 32-bit operands, which nothing has rounded: it is rounded once here."""
    values = [value for value in call.inputs[:2] if isinstance(value, Sums | Real)]
    if call.node.op != "Add" or len(values) != 2:
        raise call.unquantised(0 if isinstance(call.inputs[1], Sums | Real) else 1)
    shape = values[0].place.shape
    if values[1].place.shape != shape:
        raise call.error(f"operands of shapes {list(shape)} and {list(values[1].place.shape)}")
    y, clip = call.output, call.clip()
    names, axes = [], call.network.axes(values[0].place)
    for value in values:
        name, axes = call.tensor(value.place, axes)
        names.append(name)
    factors = [
        (value.scales if isinstance(value, Sums) else np.float64([value.x.scale])) / y.scale
        for value in values
    ]
    ends = [max(abs(t.lo), abs(t.hi), 1) for t in map(call.network.tensors.get, names) if t]
    largest = max(float(np.max(f)) * end for f, end in zip(factors, ends, strict=True))
    fraction = max(_SUM_BITS - max(int(np.ceil(np.log2(largest + 1))), 8), 0)
    steps = []
    for value, factor, end in zip(values, factors, ends, strict=True):
        shift = max(_PRODUCT_BITS - int(np.ceil(np.log2(float(np.max(factor)) * end + 1))), 0)
        muls = [round(float(f) * 2.0**shift) for f in np.broadcast_to(factor, factor.shape)]
        zero = value.x.zero_point if isinstance(value, Real) else 0
        down = 1 << shift - fraction
        steps.append(requant(muls, [down // 2 - m * zero for m in muls], down))
    half = (1 << fraction) // 2 + (y.zero_point << fraction)
    output = call.emit(
        ops.Add,
        *names,
        operand_requants=(steps[0], steps[1]),
        requants=(requant(1, half, 1 << fraction, *clip),),
    )
    return call.network.placed(output, shape, axes or ())


def _sum(call: Call, operands: Operands, order: tuple[int, int]) -> str:
    """Append a sum or difference: one line, or integers scaled once, or two tables."""
    a, b = (operand.x for operand in operands)
    y, clip = call.output, call.clip()
    of_file = (1, -1) if call.node.op == "Sub" else (1, 1)
    signs = of_file[order[0]], of_file[order[1]]
    function = differences if call.node.op == "Sub" else sums_of(call)
    table = in_order(function, (a, b), order, y, clip)
    values = a.values, b.values
    scale = Fraction(y.scale)
    slopes = signs[0] * Fraction(a.scale) / scale, signs[1] * Fraction(b.scale) / scale
    line = requantisation.pair_line_of(values, table, clip, slopes)
    if line is not None:
        first, second = (None if mul == 1 else requant(mul) for mul in line.mul)
        step = requant(1, line.add, 1 << line.shift, *clip)
        steps = first, second
        return emit_pair(call, ops.Add, operands, operand_requants=steps, requants=(step,))
    exact = _ratio_sum((a, b), signs, y, clip, table)
    if exact is not None:
        return emit_pair(call, ops.Add, operands, operand_requants=exact[:2], requants=exact[2:])
    return _sum_of_tables(call, operands, signs, table, clip)


def sums_of(call: Call) -> Function:
    """Return sums as onnxruntime computes them, with uint8 where it turns int8 into that."""
    shift = call.shift
    if not shift:
        return sums

    def turned(
        a: Quantisation, b: Quantisation, y: Quantisation, clip: tuple[int, int]
    ) -> Integers:
        lo, hi = clip
        first, second, third = (
            replace(one, zero_point=one.zero_point + shift, signed=False) for one in (a, b, y)
        )
        return sums(first, second, third, (lo + shift, hi + shift)) - shift

    return turned


def in_order(
    function: Function,
    operands: tuple[Quantisation, Quantisation],
    order: tuple[int, int],
    y: Quantisation,
    clip: tuple[int, int],
) -> Integers:
    """Return a function of two operands that the file has in another order."""
    if order == (0, 1):
        return function(*operands, y, clip)
    return function(operands[1], operands[0], y, clip).T


def _ratio_sum(
    operands: tuple[Quantisation, Quantisation],
    signs: tuple[int, int],
    y: Quantisation,
    clip: tuple[int, int],
    table: Integers,
) -> tuple[Requant, Requant, Requant] | None:
    """Return steps of a sum whose operands have a simple ratio of scales, None without."""
    a, b = operands
    ratio = Fraction(a.scale) / Fraction(b.scale)
    if max(ratio.numerator, ratio.denominator) > _MOST_RATIO:
        return None
    muls = signs[0] * ratio.numerator, signs[1] * ratio.denominator
    acc = a.values[:, None] * muls[0] + b.values[None, :] * muls[1]
    turn = a.zero_point * muls[0] + b.zero_point * muls[1]
    for step in _near_steps(a.scale / y.scale / ratio.numerator, y, clip, turn):
        if np.array_equal(step.apply(acc[None])[0], table):
            return requant(muls[0]), requant(muls[1]), step
    return None


def _near_steps(
    scale: float, y: Quantisation, clip: tuple[int, int], turn: int
) -> Iterator[Requant]:
    """Yield steps in binary32 whose factors are next to a number."""
    bits = int(np.float32(scale).view(np.int32))
    for near in _NEAR_SCALES:
        factor = float(np.int32(bits + near).view(np.float32))
        try:
            yield requantisation.float_requant([factor], y.zero_point, *clip, turn)
        except ValueError:
            return


def _sum_of_tables(
    call: Call,
    operands: Operands,
    signs: tuple[int, int],
    table: Integers,
    clip: tuple[int, int],
) -> str:
    """Append a sum of two tables of fractions, the nearest one with a note where none is exact."""
    y = call.output
    best: tuple[int, int, Integers, Integers] | None = None
    for fraction in _FRACTIONS:
        first, second, missed = _tables(operands, signs, y, table, clip, fraction)
        if best is None or missed < best[0]:
            best = missed, fraction, first, second
        if not missed:
            break
    assert best is not None
    missed, fraction, first, second = best
    if missed:
        call.network.notes.append(
            f"{call.node.label}: {missed} of {table.size} pairs of operands are one step from"
            " onnxruntime, whose ties no integers reproduce"
        )
    mapped = operands[0].mapped(call, first), operands[1].mapped(call, second)
    output = emit_pair(call, ops.Add, mapped, requants=(requant(1, 0, 1 << fraction, *clip),))
    if missed:
        call.network.is_apart(output)
    return output


def _tables(
    operands: Operands,
    signs: tuple[int, int],
    y: Quantisation,
    table: Integers,
    clip: tuple[int, int],
    fraction: int,
) -> tuple[Integers, Integers, int]:
    """Return a table per operand, and for how many pairs their sum is another one."""
    one = 1 << fraction
    lo = np.where(table > clip[0], table * one, -(1 << 40))
    hi = np.where(table < clip[1], (table + 1) * one - 1, 1 << 40)
    first, second = (
        np.rint((o.x.values - o.x.zero_point) * (sign * o.x.scale / y.scale) * one).astype(np.int64)
        for o, sign in zip(operands, signs, strict=True)
    )
    first = first + (y.zero_point * one + one // 2)
    for _ in range(_ROUNDS):
        sums_now = first[:, None] + second[None, :]
        if ((sums_now >= lo) & (sums_now <= hi)).all():
            break
        low, high = (lo - second[None, :]).max(axis=1), (hi - second[None, :]).min(axis=1)
        first = np.where(low <= high, np.clip(first, low, high), (low + high) // 2)
        low, high = (lo - first[:, None]).max(axis=0), (hi - first[:, None]).min(axis=0)
        second = np.where(low <= high, np.clip(second, low, high), (low + high) // 2)
    found = np.clip((first[:, None] + second[None, :]) >> fraction, *clip)
    return first, second, int((found != table).sum())


def _product(call: Call, operands: Operands, order: tuple[int, int]) -> str:
    """Append a product of integers, scaled once."""
    a, b = (operand.x for operand in operands)
    y, clip = call.output, call.clip()
    table = products(a, b, y, clip)
    acc = (a.values - a.zero_point)[:, None] * (b.values - b.zero_point)[None, :]
    best: tuple[int, Requant] | None = None
    for step in _product_steps(a.scale * b.scale / y.scale, y, clip):
        missed = int((step.apply(acc[None])[0] != table).sum())
        if best is None or missed < best[0]:
            best = missed, step
        if not missed:
            break
    if best is None:
        raise call.error("its scales give a factor that binary32 does not hold")
    if best[0]:
        call.network.notes.append(
            f"{call.node.label}: {best[0]} of {table.size} pairs of operands are one step from"
            " onnxruntime, which adds the zero point in binary32"
        )
    steps = _without_zeros(a, b)
    output = emit_pair(call, ops.Mul, operands, operand_requants=steps, requants=(best[1],))
    if best[0]:
        call.network.is_apart(output)
    return output


def _quotient(call: Call, operands: Operands, order: tuple[int, int]) -> str:
    """Append a quotient in binary32, which is that of onnxruntime for all pairs."""
    (a, b), y = (operand.x for operand in operands), call.output
    return emit_pair(
        call,
        ops.Quotient,
        operands,
        scale=a.scale,
        scale2=b.scale,
        out_scale=y.scale,
        turned=order == (1, 0),
        operand_requants=_without_zeros(a, b),
        requants=(requant(1, y.zero_point, 1, *call.clip()),),
    )


def _without_zeros(a: Quantisation, b: Quantisation) -> tuple[Requant | None, Requant | None]:
    """Return the steps that take off zero points."""
    first, second = (requant(add=-x.zero_point) if x.zero_point else None for x in (a, b))
    return first, second


def _product_steps(scale: float, y: Quantisation, clip: tuple[int, int]) -> Iterator[Requant]:
    """Yield steps for products whose ties may go to even results with the zero point.

    A step rounds before it adds its zero point. With an odd one, ties go to odd results, unless
    some of the zero point is added as accumulators, where it is a multiple of the scale.
    """
    yield from _near_steps(scale, y, clip, 0)
    for part in dict.fromkeys((y.zero_point, 1)):
        turn = round(part / scale)
        if part and abs(turn * scale - part) < _NEAR_WHOLE:
            rest = replace(y, zero_point=y.zero_point - part)
            yield from _near_steps(scale, rest, clip, -turn)
