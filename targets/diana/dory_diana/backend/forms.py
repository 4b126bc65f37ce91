"""The form of a layer's requantisation on an array, found once per layer."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from dory_core.api import Layer, Rejection, ops, requantisation
from dory_diana.requant import Adc, Shift, find_adc, find_shift
from dory_diana.requant.common import Integers, Steps, clipped, steps_of, sum_steps
from dory_diana.requant.shift import MOST_SHIFT, RELU, SIGNED

INT8 = (-128, 127)
RAW = Rejection("its outputs are 32-bit accumulators, those of the arrays are bytes")
NO_SHIFT = Rejection(
    "its requantisation is no right shift, not with small factors in its 8-bit weights and a bias "
    "either"
)
NO_ADC = Rejection(
    "its requantisation tells accumulators apart that the 6-bit converters do not "
    "(acc / adc_scale, rounded down, clipped to [-32, 31])"
)
NO_PLAIN_SUM = Rejection("it is no plain sum of its operands followed by a right shift")

_Form = TypeVar("_Form")


def needed(form: _Form | Rejection) -> _Form:
    """Return a form that is known to be there. Raises: ValueError when it is not."""
    if isinstance(form, Rejection):
        raise ValueError(form.reason)
    return form


def rejection(form: object) -> Rejection | None:
    """Return why there is no form, None when there is one."""
    return form if isinstance(form, Rejection) else None


@requantisation.cached_per_layer
def digital_form(layer: Layer) -> Shift | Rejection:
    """Return the shift of a Conv or Linear, or why it has none."""
    steps = steps_of(layer)
    if steps is None:
        return RAW
    factors, largest = weight_factors(layer.weighted)
    return find_shift(steps, factors, largest) or NO_SHIFT


def weight_factors(kind: ops.Conv | ops.Linear) -> tuple[tuple[Integers, Integers], Integers]:
    """Return ((lowest, highest) factor of each channel's weights, its largest sum of products).

    Each of shape (C,); factors leave the weights bytes. The sums are of any bytes: the array
    also computes columns of padding.
    """
    rows = kind.weights.values.astype(np.int64).reshape(kind.weights.shape[0], -1)
    most, least = np.maximum(rows.max(axis=1), 0), np.maximum(-rows.min(axis=1), 0)
    up, down = (np.maximum(v, 1) for v in (most, least))
    highest = np.minimum(INT8[1] // up, -INT8[0] // down)
    lowest = -np.minimum(-INT8[0] // up, INT8[1] // down)
    return (lowest, highest), np.abs(rows).sum(axis=1) * -INT8[0]


@requantisation.cached_per_layer
def sum_form(layer: Layer) -> Shift | Rejection:
    """Return the shift of an Add, or why it has none."""
    steps = sum_steps(layer)
    stairs = None if steps is None else steps.stairs()
    for clip in (RELU, SIGNED):
        bounded = None if stairs is None else clipped(stairs, clip)
        if bounded is None:
            continue
        one, none = np.ones_like(bounded.first), np.zeros_like(bounded.first)
        for shift in range(MOST_SHIFT + 1):
            lo, hi = requantisation.exact_addend_interval(bounded, one, 1 << shift)
            if ((lo <= 0) & (hi >= 0)).all():
                return Shift(one, none, shift, relu=clip == RELU)
    return NO_PLAIN_SUM


@requantisation.cached_per_layer
def analog_form(layer: Layer, scale: int) -> Adc | Rejection:
    """Return the requantisation after the converters of a Conv or Linear, or why there is none.

    scale: accumulators per step of the converters.
    """
    steps: Steps | None = steps_of(layer)
    if steps is None:
        return RAW
    return find_adc(steps, scale) or NO_ADC
