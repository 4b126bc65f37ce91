"""From sums to outputs: parameters of ``dory_cortex_m55_requant_t`` with the network's values.

The vector unit has products of 32 bits and their upper half. A sum is shifted to where its steps
fill 31 bits, an addend follows, and the upper half of one product has the output in its top bits:

    y = clip(((saturated(x << up) + add) * mul >> 32) >> down)

which is a line of slope mul * 2^up / 2^(32 + down). Where its steps lie far from zero a bias moves
them there first; where thresholds of a channel allow none, the same line is computed in 64 bits
(SCALAR). Steps of formats that rescale in binary32 have thresholds that may be on no line at all:
they are computed as they are (BINARY32), as are integer steps with too many thresholds (SCALAR).
Where bytes lie between two steps that are no line together, the second one is a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from dory_core.api import Layer, Rejection, Requant, ops, requantisation
from dory_cortex_m55.backend import forms
from dory_cortex_m55.backend.base import by_bytes, flip_of
from dory_cortex_m55.backend.forms import FAST_DOWN, Form, Integers

_INT32 = (1 << 31) - 1
_INT16 = (1 << 15) - 1
# Bits of x << up around the thresholds; an addend follows, within 32 bits.
_BITS = 29
# y * 2^(32 + down) is compared within 62 bits.
_MOST_DOWN = 18
# The search for the factor that leaves the most room for the addend: how near it is, in bits less
# than those of the factor, and its rounds.
_NEAR, _ROUNDS = 9, 32
# Beyond every sum.
_FAR = 1 << 40


def reject_form(layer: Layer, tables: bool = False) -> Rejection | None:
    """Return why the requantisation of a layer is not possible.

    tables: the kernel knows a table for a last step.
    """
    if layer.op.requants:
        _, *ends = requantisation.steps_of_sums(layer)
        if max(int(np.abs(end).max()) for end in ends) > _INT32:
            return Rejection("its sums may have more than 32 bits")
    found = find_form(layer)
    if found is None or (found.table is not None and not tables):
        return Rejection("no factor, addend and shift have the values of its requantisation")
    return None


def form_of(layer: Layer) -> Form:
    """Return the parameters of a layer that has them."""
    found = find_form(layer)
    assert found is not None
    return found


@requantisation.cached_per_layer
def find_form(layer: Layer) -> Form | None:
    """Return the parameters of a layer's requantisation, None where there are none."""
    if are_sums(layer):
        return _sums(layer)
    if not layer.op.requants:
        return None
    sums, lo, hi = requantisation.steps_of_sums(layer)
    channels, lifted = layer.output.channels, _lifted(layer)
    line = form_of_steps(layer, sums, (lo, hi), channels, lifted)
    if line is not None or len(layer.op.requants) < 2 or layer.output.bits != 8:
        return line
    *before, last = clipped(sums, layer)
    table = forms.byte_table(before[-1], last)
    first = None if table is None else form_between(before, lo, hi, channels, lifted)
    return None if first is None else replace(first, table=table)


def form_of_steps(
    layer: Layer,
    steps: Sequence[Requant],
    ends: tuple[Integers, Integers],
    channels: int,
    lifted: Integers | int = 0,
) -> Form | None:
    """Return the parameters of steps to the outputs of a layer, over sums between two ends."""
    clipping = clipped(steps, layer)
    if layer.output.bits == 8:
        return form_between(clipping, *ends, channels, lifted)
    found = _as_it_is(clipping, *ends, halves=True)
    return None if found is None else _raised(_broadcast(found, channels), lifted)


def are_sums(layer: Layer) -> bool:
    """Return True when outputs are sums of products as they are, in 32 bits."""
    return layer.output.type_name == "i32" and not layer.op.requants


def _sums(layer: Layer) -> Form:
    """Return the bias of sums."""
    zeros = np.zeros(layer.output.channels, np.int64)
    bias = zeros if layer.bias is None else layer.bias.values.astype(np.int64)
    return Form("SUMS", bias + _lifted(layer), zeros, zeros, None, zeros, 0, (0, 0))


def clipped(steps: Sequence[Requant], layer: Layer) -> tuple[Requant, ...]:
    """Return steps of which the last one has bounds: where it has none they are the type's.

    The output is proven to lie there.
    """
    last, values = steps[-1], 1 << layer.output.bits
    least = -values >> 1 if layer.output.signed else 0
    lo = least if last.lo is None else last.lo
    hi = min(least + values - 1, _INT16) if last.hi is None else last.hi
    return (*steps[:-1], replace(last, lo=lo, hi=hi))


def form_between(
    sums: Sequence[Requant],
    lo: Integers,
    hi: Integers,
    channels: int,
    lifted: Integers | int = 0,
) -> Form | None:
    """Return the parameters of steps over sums lo .. hi, shape (C,) or (1,).

    lifted: how much the sums of the network are above those of the kernel, shape (C,).
    """
    if max(abs(int(end.max())) for end in (lo, -lo, hi)) > _INT32 >> 1:
        return None
    found = requantisation.search_steps(partial(_vector, lifted=lifted), sums, lo, hi)
    if found is None:
        found = _as_it_is(sums, lo, hi)
    if found is None:
        found = requantisation.search_steps(_scalar, sums, lo, hi)
    if found is None:
        return None
    form = _broadcast(found, channels)
    return form if form.form in ("VECTOR", "PLAIN") else _raised(form, lifted)


def _raised(form: Form, lifted: Integers | int) -> Form:
    return replace(form, bias=form.bias + lifted)


def _lifted(layer: Layer) -> Integers | int:
    """Return the difference of sums whose bytes are multiplied less 128, to have a sign."""
    if not (flip_of(layer.inputs[0]) or by_bytes(layer)) or not isinstance(
        layer.op, ops.Conv | ops.Linear
    ):
        return 0
    weights = layer.op.weights.values.astype(np.int64)
    lifted: Integers = 128 * weights.reshape(len(weights), -1).sum(axis=1)
    return lifted


def _broadcast(form: Form, channels: int) -> Form:
    """Return a form with parameters for each channel; a part of a layer has those of all of it."""
    each = (form.bias, form.add, form.mul, form.up, form.below)
    count = max(channels, *(values.size for values in each if values is not None))

    def of_all(values: Integers | None) -> Integers | None:
        return None if values is None else np.broadcast_to(values, (count,)).astype(np.int64)

    bias, add, mul, up = map(of_all, (form.bias, form.add, form.mul, form.up))
    assert bias is not None and add is not None and mul is not None and up is not None
    return replace(form, bias=bias, add=add, mul=mul, below=of_all(form.below), up=up)


def _as_it_is(
    steps: Sequence[Requant], lo: Integers, hi: Integers, halves: bool = False
) -> Form | None:
    """Return a step after others that add: in binary32, or with its own numbers in 64 bits.

    halves: Outputs have 16 bits. One of 32 bits that rounds is looked for first.
    """
    *before, last = steps
    if not all(map(_only_adds, before)):
        return None
    bias = sum((np.array(one.add, np.int64) for one in before), np.array([-last.turn]))
    ends = (lo + bias, hi + bias)
    if min(end.min() for end in ends) < -_INT32 - 1 or max(end.max() for end in ends) > _INT32:
        return None
    step, most = last.from_turn(), np.maximum(*map(abs, ends))
    if step.float32:
        return None if halves else forms.binary32(step, bias)
    return (forms.rounded(step, bias, most) if halves else None) or forms.wide(step, bias, most)


def _only_adds(step: Requant) -> bool:
    """Return True when a step adds numbers, and does nothing else."""
    return step == Requant((1,), step.add, 1)


def _scalar(stairs: requantisation.Stairs) -> Form | None:
    """Return a line in 64 bits."""
    whole = stairs if isinstance(stairs, requantisation.Staircase) else stairs.whole
    found = requantisation.widest(stairs)
    if found is None or whole.clip is None:
        return None
    below = None if found.add_negative is None else found.add_negative - found.add
    offset = np.zeros_like(found.mul) if found.offset is None else found.offset
    return Form("SCALAR", offset, found.add, found.mul, below, 0 * offset, found.shift, whole.clip)


def _vector(stairs: requantisation.Stairs, lifted: Integers | int) -> Form | None:
    """Return a line in the arithmetic of the vector unit, with one shift for all if it can be."""
    line = requantisation.widest(stairs)
    whole = stairs if isinstance(stairs, requantisation.Staircase) else stairs.whole
    if line is None or whole.clip is None or whole.falling.any():
        return None
    slope = np.where(whole.constant, 0.0, line.mul / 2.0**line.shift)
    sides: tuple[requantisation.Staircase, ...]
    wide: tuple[requantisation.Staircase, ...]
    if isinstance(stairs, requantisation.Staircase):
        own = stairs.moved(0 * line.mul - lifted)
        found = _with_bias((_within_clip(own),), (own,), slope, 0 * line.mul)
        if found is not None and found.form == "TURNED":
            return replace(found, form="PLAIN" if _stays_within(found, (own,)) else "VECTOR")
        inside = _within_clip(stairs)
        bias = _bias(inside)
        sides, wide = (inside.moved(bias),), (stairs.moved(bias),)
    else:
        bias, wide = stairs.offset, (stairs.above, stairs.below)
        sides = (_within_clip(stairs.above), _within_clip(stairs.below))
    turned = _with_bias(sides, wide, slope, bias)
    if turned is None or _stays_within(turned, wide):
        return turned
    return replace(turned, form="SHIFTED")


def _stays_within(form: Form, sides: tuple[requantisation.Staircase, ...]) -> bool:
    """Return True when x << up with its addends has 32 bits for all sums of a form."""
    ends = [np.abs(end) for side in sides for end in (side.x_lo, side.x_hi)]
    below = 0 if form.below is None else np.abs(form.below)
    most = (np.max(ends, axis=0) << form.up) + np.abs(form.add) + below
    return bool(most.max() <= _INT32)


def _with_bias(
    sides: tuple[requantisation.Staircase, ...],
    wide: tuple[requantisation.Staircase, ...],
    slope: npt.NDArray[np.float64],
    bias: Integers,
) -> Form | None:
    """Return a line with the steps of both sides of zero, over sums with their bias.

    sides: where the steps are. wide: of all sums.
    """
    still = np.all([side.constant for side in wide], axis=0)
    ends = [np.where(side.constant, 0, end) for side in sides for end in (side.x_lo, side.x_hi)]
    room = _BITS - np.ceil(np.log2(np.abs(ends).max(axis=0) + 1)).astype(np.int64)
    steepest = max(float(slope.max()), 2.0**-31)
    # The largest factor has 30 bits: mul = slope * 2^(32 + down - up).
    most = int(np.floor(-np.log2(steepest))) - 2
    least, down = int(room.min()), min(most + int(room.min()), _MOST_DOWN)
    if down < 0:
        return None
    largest = np.floor(_BITS + 1 - 32 - down - np.log2(np.maximum(slope, 2.0**-40)))
    own = np.where(still, 0, np.clip(-largest.astype(np.int64), 0, room))
    fast = FAST_DOWN - most
    shifts = [(np.full_like(room, up), FAST_DOWN) for up in (fast, fast + 1) if up <= least + 1]
    for up, shift in (*shifts, (np.full_like(room, least), down), (own, down)):
        form = _with_shifts(sides, slope, (up, shift), bias)
        if form is not None and all(_keeps(form, side) for side in wide):
            return form
    return None


def _with_shifts(
    sides: tuple[requantisation.Staircase, ...],
    slope: npt.NDArray[np.float64],
    shifts: tuple[Integers, int],
    bias: Integers,
) -> Form | None:
    """Return the form with the most room for its addends; it may have other steps.

    shifts: to the left, shape (C,), and to the right.
    """
    up, down = shifts
    assert sides[0].clip is not None
    if (up < 0).any():
        return None
    mul = np.rint(slope * 2.0 ** (32 + down - up)).astype(np.int64)
    mul = np.where(slope > 0, np.clip(mul, 1, _INT32), 1 << _BITS)
    mul, adds = _best(sides, mul, up, down)
    below = None if len(adds) == 1 else adds[1] - adds[0]
    numbers = (bias, *adds) if below is None else (bias, *adds, below)
    if any(np.abs(values).max() > _INT32 >> 1 for values in numbers):
        return None
    kind = "TURNED" if (up == up[0]).all() else "SHIFTED"
    return Form(kind, bias, adds[0], mul, below, up, down, sides[0].clip)


def _keeps(form: Form, stairs: requantisation.Staircase) -> bool:
    """Return True when a form has the outputs of a staircase over sums with their bias.

    Both rise: they are equal when they are at both ends and on both sides of each threshold.
    """
    ends = np.stack([stairs.x_lo, stairs.x_hi], axis=1)
    still = stairs.constant[:, None]
    steps = np.where(still, ends[:, :1], stairs.thresholds)
    x = np.clip(np.concatenate([ends, steps, steps - 1], axis=1), ends[:, :1], ends[:, 1:])
    numbers = np.sort(np.where(still, _FAR, stairs.thresholds), axis=1)
    levels = np.concatenate(
        [stairs.first[:, None], np.broadcast_to(stairs.levels, numbers.shape)], axis=1
    )
    passed = [np.searchsorted(own, at, side="right") for own, at in zip(numbers, x, strict=True)]
    wanted = np.take_along_axis(levels, np.array(passed), axis=1)
    return bool(np.array_equal(_outputs(form, x), wanted))


def _outputs(form: Form, x: Integers) -> Integers:
    """Return the results of the vector unit for sums with their bias, shape (C, n)."""
    add = form.add[:, None]
    if form.below is not None:
        add = np.where(x < 0, add + form.below[:, None], add)
    shifted = np.clip(x << form.up[:, None], -_INT32 - 1, _INT32)
    upper = (np.clip(shifted + add, -_INT32 - 1, _INT32) * form.mul[:, None]) >> 32
    outputs: Integers = np.clip(upper >> form.down, *form.clip)
    return outputs


def _bias(stairs: requantisation.Staircase) -> Integers:
    """Return the bias that moves the steps of each channel to both sides of zero.

    All sums of a channel that stays at a bound of the clip come to lie beyond this bound.
    """
    assert stairs.clip is not None
    bias = -((stairs.x_lo + stairs.x_hi) >> 1)
    bias = np.where(stairs.constant & (stairs.first == stairs.clip[1]), -stairs.x_lo, bias)
    return np.where(stairs.constant & (stairs.first == stairs.clip[0]), -stairs.x_hi, bias)


def _within_clip(stairs: requantisation.Staircase) -> requantisation.Staircase:
    """Return the part of each channel in which it changes; beyond, a clip keeps its value."""
    lo, hi = stairs.x_lo, stairs.x_hi
    if stairs.clip is not None:
        first, last = stairs.window()
        inside = ~stairs.constant
        lo = np.where(inside & (stairs.first == stairs.clip[0]), np.maximum(lo, first), lo)
        hi = np.where(inside & (stairs.last == stairs.clip[1]), np.minimum(hi, last), hi)
    return stairs.between(lo, hi)


def _best(
    sides: tuple[requantisation.Staircase, ...], mul: Integers, up: Integers, down: int
) -> tuple[Integers, list[Integers]]:
    """Return factors near ``mul`` and an addend of each side; they may have other steps.

    The room for the addend is concave in the factor: where ``mul`` leaves none, the search goes to
    where there is most.
    """
    ends = [_addends(side, mul, up, down) for side in sides]
    missed = np.flatnonzero(np.any([first > last for first, last in ends], axis=0))
    if len(missed):
        parts = tuple(side.take(missed) for side in sides)
        mul = mul.copy()
        mul[missed] = _roomiest(parts, mul[missed], up[missed], down)
        ends = [_addends(side, mul, up, down) for side in sides]
    return mul, [(first + last) >> 1 for first, last in ends]


def _roomiest(
    sides: tuple[requantisation.Staircase, ...], mul: Integers, up: Integers, down: int
) -> Integers:
    """Return the factors near ``mul`` that leave the most room for the addend."""
    reach = np.maximum(mul >> _NEAR, 4)
    lo, hi = np.maximum(mul - reach, 1), np.minimum(mul + reach, _INT32)
    for _ in range(_ROUNDS):
        third = (hi - lo) // 3
        left, right = lo + third, hi - third
        better = _room(sides, left, up, down) >= _room(sides, right, up, down)
        lo, hi = np.where(better, lo, left), np.where(better, right, hi)
    best: Integers = (lo + hi) >> 1
    return best


def _room(
    sides: tuple[requantisation.Staircase, ...], mul: Integers, up: Integers, down: int
) -> Integers:
    """Return how many addends there are, less than 0 for none: as real numbers times mul."""
    rooms = []
    for side in sides:
        lo, hi = requantisation.exact_addend_interval(side, mul << up, 1 << 32 + down)
        rooms.append(hi - lo)
    least: Integers = np.min(rooms, axis=0)
    return least


def _addends(
    side: requantisation.Staircase, mul: Integers, up: Integers, down: int
) -> tuple[Integers, Integers]:
    """Return (first, last) addend of x << up with which a factor has the steps of a side."""
    lo, hi = requantisation.exact_addend_interval(side, mul << up, 1 << 32 + down)
    most = _INT32 >> 2
    return np.maximum(-(-lo // mul), -most), np.minimum(hi // mul, most)
