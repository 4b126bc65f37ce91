"""Factors of TensorFlow Lite Micro as requantisation steps of a Graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dory_core.api import Requant
from dory_core.importing import requant
from dory_tflite.fixed_point import (
    FactorError,
    FloorForm,
    Multiplier,
    floor_form,
    wide_form,
    with_shift,
)

Form = Callable[[Multiplier], FloorForm]

# Bits that mul * acc + add may have; 63 is what the Graph allows.
_PRODUCT_BITS = 62


def rescaling(
    factors: Sequence[Multiplier],
    reach: Sequence[tuple[int, int]],
    zero_point: int,
    bounds: tuple[int, int],
    turn: int = 0,
    form_of: Form = floor_form,
) -> Requant:
    """Return ``clip(round(factor * (acc - turn)) + zero_point, bounds)``, by default rounded twice.

    Args:
        factors, reach: One for all channels or one each; reach is what acc - turn can be.
        turn: Origin of the accumulator.
        form_of: How the interpreter multiplies.

    Raises:
        FactorError: When the factors of the channels need more than 64 bits together.
    """
    count = max(len(factors), len(reach))
    channels = [
        (form_of(factors[min(c, len(factors) - 1)]), *reach[min(c, len(reach) - 1)])
        for c in range(count)
    ]
    room = min(_room(form, lo, hi, zero_point) for form, lo, hi in channels)
    shift = min(max(form.shift for form, _, _ in channels), room)
    found = [with_shift(form, shift, lo, hi) for form, lo, hi in channels]
    forms = [form for form in found if form is not None]
    if len(forms) < count:
        raise FactorError("the factors of its channels are too far apart for 64 bits")
    offset = zero_point << shift
    adds = [form.add - form.mul * turn + offset for form in forms]
    lows = [form.add_negative - form.mul * turn + offset for form in forms]
    # Below the turning point the value is at most the zero point, with either addend.
    symmetric = bounds[0] < zero_point and any(lo < 0 for _, lo, _ in channels)
    return requant(
        [form.mul for form in forms],
        adds,
        1 << shift,
        *bounds,
        add_negative=lows if symmetric else None,
        turn=turn,
    )


def two_roundings(
    factors: Sequence[Multiplier], bounds: tuple[int, int]
) -> tuple[Requant, Requant]:
    """Return the two roundings as two steps, for accumulators of 32 bits and any factors."""
    most = max(factor.right_shift for factor in factors)
    muls = [1 << (most - factor.right_shift) for factor in factors]
    half = [(1 << most) // 2 if factor.right_shift else 0 for factor in factors]
    lows = [h - mul if h else 0 for h, mul in zip(half, muls, strict=True)]
    product = requant([f.mantissa << f.left_shift for f in factors], 1 << 30, 1 << 31)
    return product, requant(muls, half, 1 << most, *bounds, add_negative=lows)


def two_divisions(
    factors: Sequence[Multiplier], bounds: tuple[int, int]
) -> tuple[Requant, Requant]:
    """Return the one rounding of accumulators of 64 bits as two steps, for any factors.

    The floor of a quotient is that of the floor of a part of the division.
    """
    forms = [wide_form(factor) for factor in factors]
    least, most = (end(form.shift for form in forms) for end in (min, max))
    product = requant([form.mul for form in forms], [form.add for form in forms], 1 << least)
    muls = [1 << (most - form.shift) for form in forms]
    return product, requant(muls, 0, 1 << (most - least), *bounds)


def operand_step(factor: Multiplier, left_shift: int, zero_point: int) -> Requant:
    """Return ``round(factor * ((x - zero_point) << left_shift))`` with the two roundings."""
    form = floor_form(factor)
    mul = form.mul << left_shift
    return requant(
        mul,
        form.add - mul * zero_point,
        1 << form.shift,
        add_negative=form.add_negative - mul * zero_point,
        turn=zero_point,
    )


def negated(step: Requant) -> Requant:
    """Return the step with the negative result; the step has no clip.

    -floor(n / d) is floor((d - 1 - n) / d).
    """
    low = step.add_negative
    return requant(
        [-m for m in step.mul],
        [step.div - 1 - a for a in step.add],
        step.div,
        add_negative=None if low is None else [step.div - 1 - a for a in low],
        turn=step.turn,
    )


def _room(form: FloorForm, lo: int, hi: int, zero_point: int) -> int:
    """Return the largest shift with which the products of a channel have room."""
    largest = form.mul * max(abs(lo), abs(hi)) + max(abs(form.add), abs(form.add_negative))
    largest += abs(zero_point) << form.shift
    return form.shift + _PRODUCT_BITS - largest.bit_length()
